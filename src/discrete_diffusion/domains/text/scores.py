"""Samples of text against real text."""

from __future__ import annotations

from collections.abc import Sequence

from discrete_diffusion.domains.text.dataset import TextDataset
from discrete_diffusion.domains.text.metrics import share_known, text_metrics, words_of


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
