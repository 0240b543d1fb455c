"""Metrics of diagrams for ``compare``, with shares of samples that can be built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.config import counted
from discrete_diffusion.domains import TokenCells
from discrete_diffusion.evaluation import Column, held_out_split, share_error
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.tokens import decode
from floor_plans.learning.report import NUM_LARGE_VERDICTS, DiagramReport
from floor_plans.plans.box_model import is_installed
from floor_plans.plans.verdict import plan_shares

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.evaluation import Comparison
    from floor_plans.learning.build import DiagramDataset

_PLAN_COLUMNS = (
    Column("realisable", "realisable", 1, True, True, of_samples=True, counted="num_verdicts"),
    Column("buildable", "buildable", 1, True, True, of_samples=True, counted="num_verdicts"),
)

_FEWEST_SAMPLES = 50
"""Least number of samples for verdicts of the solver; with fewer, as in short trainings, a fifth is
not worth its start."""


class DiagramCells(TokenCells):
    """Cells with the bound, metrics of fresh samples, and shares of realisable and buildable ones.

    The shares are of the first samples, with the standard errors of that number.
    """

    def __init__(self) -> None:
        super().__init__(DiagramReport)
        valid, transitive, *distances = self.columns
        self.columns = (valid, transitive, *_PLAN_COLUMNS, *distances)

    def num_verdicts(self, config: DictConfig) -> int:
        """Number of verdicts: ``eval.verdicts``; 0 without OR-Tools.

        Null is a fifth of the samples, at most ``NUM_LARGE_VERDICTS`` for large plans, and 0 for
        few samples.
        """
        asked, num_samples = config.eval.verdicts, int(config.eval.num_samples)
        if not is_installed():
            return 0
        if asked is None:
            is_large = config.data.n_max > RPLAN_VOCAB_CONFIG.n_max
            most = NUM_LARGE_VERDICTS if is_large else num_samples
            return min(num_samples // 5, most) if num_samples >= _FEWEST_SAMPLES else 0
        return min(num_samples, int(asked))

    def report(self, data: DiagramDataset, verdicts: int = 0) -> DiagramReport:
        return _ReportWithVerdicts(data, held_out_split(data), num_verdicts=verdicts)

    def real_data(self, data: Any, num_samples: int, verdicts: int = 0) -> dict[str, float]:
        """Metrics of real data, with verdicts of a random part of the training data."""
        metrics = super().real_data(data, num_samples, verdicts)
        train = data.splits["train"]
        if metrics and verdicts and data.vocab.edge_directions:
            chosen = torch.randperm(len(train), generator=make_generator(0))[:verdicts]
            metrics |= _shares(decode(train[chosen].x0, data.vocab))
        return metrics

    def notes(self, comparison: Comparison) -> list[str]:
        asked = sorted({int(n) for m in comparison.models if (n := m.mean("num_verdicts")) > 0})
        return [
            f"Realisable and buildable: a constraint solver decides if a floor plan exists, for "
            f"the first {counted(num, 'sample')}."
            for num in asked
        ]


class _ReportWithVerdicts(DiagramReport):
    """Report with verdicts of the solver on the first ``num_verdicts`` samples."""

    def measure(self, samples: Tensor) -> dict[str, float]:
        num = self.num_verdicts if self.data.vocab.edge_directions else 0
        first = decode(samples[:num], self.data.vocab) if len(samples) else []
        return {**super().measure(samples), **_shares(first)}


def _shares(diagrams: Sequence[BubbleDiagram]) -> dict[str, float]:
    """``plan_shares`` with the standard errors of the columns."""
    found = plan_shares(diagrams, len(diagrams))
    for column in _PLAN_COLUMNS if found else ():
        error = share_error(found[column.name], len(diagrams))
        found[f"{column.name}_standard_error"] = error
    return found
