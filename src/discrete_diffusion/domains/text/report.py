"""What is said of sampled text: numbers, and the text itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from discrete_diffusion.domains.cell_measurement import TokenCells
from discrete_diffusion.domains.domain import Headline
from discrete_diffusion.domains.text.dataset import TextDataset
from discrete_diffusion.domains.text.scores import TextReference
from discrete_diffusion.domains.text.writing import write_texts
from discrete_diffusion.evaluation.bound import BoundEstimate
from discrete_diffusion.evaluation.comparison import Column
from discrete_diffusion.evaluation.token_report import TokenReport

SAMPLE_TEXTS = "samples.txt"
_SHOWN = 36
"""Samples of a validation that are written."""


class TextReport(TokenReport):
    """Samples of text against the windows of a split."""

    headlines = (Headline("words_in_training", share=True),)
    columns = (
        Column("character TV", "character_tv", 4),
        Column("known words", "words_in_training", 1, up=True, share=True),
    )
    axes = columns[::-1]
    data: TextDataset

    @cached_property
    def reference(self) -> TextReference | None:
        """Measured once, for every use; None without held-out text."""
        held_out = len(self.data.splits[self.split])
        return TextReference(self.data, self.split) if held_out else None

    def measure(self, samples: Tensor) -> dict[str, float]:
        if len(samples) == 0 or self.reference is None:
            return {}
        return self.reference.measure(self.data.vocabulary.decode(samples))

    def save(self, samples: Tensor, folder: Path) -> None:
        if len(samples):
            write_texts(folder / SAMPLE_TEXTS, self.data.vocabulary.decode(samples))

    def draw(self, samples: Tensor, path: Path) -> None:
        if len(samples):
            first = self.data.vocabulary.decode(samples[:_SHOWN])
            write_texts(path.with_suffix(".txt"), first)

    def findings(self, bound: BoundEstimate, samples: Tensor) -> dict[str, Any]:
        return {"text": self.data.source, **super().findings(bound, samples)}

    def further_parts(self, metrics: Mapping[str, Any]) -> list[str]:
        return [f"{metrics['bits_per_character']:.3f} bits per character"]


class TextCells(TokenCells):
    """Bits per character, and the words of samples."""

    def real_data(self, data: Any, num_samples: int) -> dict[str, float]:
        """The share of known words is that of the reference: training knows all of its own."""
        scores = super().real_data(data, num_samples)
        if (known := scores.get("words_in_training_reference")) is not None:
            scores["words_in_training"] = known
        return scores
