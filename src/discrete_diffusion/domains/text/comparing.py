"""What ``compare`` measures of models of text."""

from __future__ import annotations

from typing import Any

from discrete_diffusion.domains.cell_measurement import FigureAxis, TokenCells
from discrete_diffusion.domains.text.report import TextReport
from discrete_diffusion.evaluation.comparison import Column
from discrete_diffusion.evaluation.equal_terms import held_out_split


class TextCells(TokenCells):
    """Bits per character, and the words of samples."""

    columns = (
        Column("character TV", "character_tv", 4),
        Column("known words", "words_in_training", 1, up=True, share=True),
    )
    axes = (
        FigureAxis("words_in_training", "known words", up=True, share=True),
        FigureAxis("character_tv", "character TV"),
    )

    def report(self, data: Any) -> TextReport:
        return TextReport(data, held_out_split(data))

    def real_data(self, data: Any, num_samples: int) -> dict[str, float]:
        """The share of known words is that of the reference: training knows all of its own."""
        scores = super().real_data(data, num_samples)
        if (known := scores.get("words_in_training_reference")) is not None:
            scores["words_in_training"] = known
        return scores
