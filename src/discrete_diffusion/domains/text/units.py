"""Units of text that do not depend on a tokenizer: bytes of UTF-8, and words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

if TYPE_CHECKING:
    from discrete_diffusion.domains.text.ids import IdVocabulary
    from discrete_diffusion.domains.text.vocabulary import TextVocabulary

_AT_ONCE = 4096
"""Windows that are made text at once."""


class TextUnits(NamedTuple):
    """``num_bytes`` of UTF-8 and ``num_words``, runs without white space, of a text."""

    num_bytes: int
    num_words: int

    @classmethod
    def of(cls, vocabulary: TextVocabulary | IdVocabulary, x0: Tensor) -> TextUnits:
        """Those of windows Int[M, L] that follow each other; a word across two counts once."""
        num_bytes = num_words = 0
        within_word = False
        for part in x0.split(_AT_ONCE):
            [text] = vocabulary.decode(part.reshape(1, -1))
            if not text:
                continue
            num_bytes += len(text.encode("utf-8"))
            num_words += len(text.split()) - (within_word and not text[:1].isspace())
            within_word = not text[-1:].isspace()
        return cls(num_bytes, num_words)

    def bounds(self, nats: float) -> dict[str, float]:
        """The nats of all of the text as ``bits_per_byte``, nats / (ln 2 bytes), and
        ``perplexity_per_word``, exp(nats / words); without a word the former alone."""
        found = {"bits_per_byte": nats / math.log(2) / self.num_bytes}
        if self.num_words:
            found["perplexity_per_word"] = math.exp(min(nats / self.num_words, 700.0))
        return found
