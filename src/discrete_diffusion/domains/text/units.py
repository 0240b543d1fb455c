"""Units of text that do not depend on a tokenizer: bytes of UTF-8, and words."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from discrete_diffusion.domains.text.vocabulary import Vocabulary


def count_words(vocabulary: Vocabulary, pieces: Iterable[np.ndarray]) -> int:
    """Runs without white space in the text of ids, in pieces Int[n] that follow each other: a word
    across two counts once, and none goes on in another document."""
    num, within = 0, False
    for ids in pieces:
        for k, text in enumerate(vocabulary.documents(ids)):
            within = within and k == 0
            if text:
                num += len(text.split()) - (within and not text[0].isspace())
                within = not text[-1].isspace()
    return num


def units_of(nats: float, num_bytes: int, num_words: int) -> dict[str, float]:
    """The nats of a text as ``bits_per_byte``, nats / (ln 2 bytes), and ``perplexity_per_word``,
    exp(nats / words); without a word the former alone."""
    found = {"bits_per_byte": nats / math.log(2) / num_bytes}
    if num_words:
        found["perplexity_per_word"] = math.exp(min(nats / num_words, 700.0))
    return found
