"""What is said of a model of text: bits per character, and its samples against real text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from discrete_diffusion.data import TokenDataset
from discrete_diffusion.data.text import TextDataset
from discrete_diffusion.evaluation.bound import BoundEstimate
from discrete_diffusion.metrics.text import share_known, text_metrics, words_of


def text_bits(data: TokenDataset, split: str, bound: BoundEstimate) -> dict[str, float]:
    """The bound of a split in bits per character and, where tokens are bytes, bits per byte.

        bits per token = nats per token / ln 2
        bits per character = bits per token * tokens / characters

    Empty if ``data`` is not text. ``bound``: measured on every window of ``split``. A window is
    modelled without the text before it.
    """
    if not isinstance(data, TextDataset):
        return {}
    tokens, characters = data.num_tokens[split], data.num_characters[split]
    bits = bound.per_token / math.log(2)
    per_sample_error = bound.standard_error / bound.per_sample  # relative
    out = {
        "bits_per_character": bits * tokens / characters,
        "bits_per_character_standard_error": bits * tokens / characters * per_sample_error,
    }
    if data.vocabulary.characters is None:
        out["bits_per_byte"] = bits
    return out


def text_facts(data: TokenDataset) -> dict[str, str]:
    """What text was modelled, for ``metrics.json``; empty if ``data`` is not text."""
    return {"text": data.source} if isinstance(data, TextDataset) else {}


class TextReference:
    """The held-out windows of a split and the words of training, read once."""

    def __init__(self, data: TextDataset, split: str) -> None:
        self.texts = data.texts(split)
        self.known_words = frozenset(words_of(data.texts("train")))
        self.known_share = share_known(self.texts, self.known_words)

    def measure(self, samples: Sequence[str]) -> dict[str, float]:
        """``text_metrics``, and what held-out text itself scores where that is not 0."""
        return {
            **text_metrics(samples, self.texts, self.known_words),
            "words_in_training_reference": self.known_share,
        }
