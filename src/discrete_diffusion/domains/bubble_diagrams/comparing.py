"""What ``compare`` measures of models of diagrams."""

from __future__ import annotations

from typing import Any

from discrete_diffusion.domains.bubble_diagrams.report import DiagramReport
from discrete_diffusion.domains.cell_measurement import FigureAxis, TokenCells
from discrete_diffusion.evaluation.comparison import Column
from discrete_diffusion.evaluation.equal_terms import held_out_split


class DiagramCells(TokenCells):
    """The bound of unordered diagrams, and metrics of fresh ones."""

    columns = (
        Column("valid", "valid", 1, up=True, share=True, of_samples=True),
        Column("transitive", "transitive", 1, up=True, share=True, of_samples=True),
        Column("relation TV", "relation_tv", 4),
        Column("conditional relation TV", "conditional_relation_tv", 4),
        Column("mode coverage", "mode_coverage", 1, up=True, share=True),
    )
    axes = (FigureAxis("transitive", "transitive samples", up=True, share=True),)

    def report(self, data: Any) -> DiagramReport:
        return DiagramReport(data, held_out_split(data))
