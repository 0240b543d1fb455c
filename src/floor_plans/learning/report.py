"""Metrics and pictures of sampled diagrams for reports, and for ``compare``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from omegaconf import DictConfig
from torch import Tensor

from discrete_diffusion import evaluation
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.config import counted
from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.domains import TokenCells
from discrete_diffusion.evaluation import Column, Comparison, Headline, TokenReport
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.graph_formats import write_diagrams
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import bubble_metrics
from floor_plans.diagrams.pictures.diagram_pictures import MAX_DRAWN, plot_grid
from floor_plans.diagrams.tokens import decode
from floor_plans.diagrams.vocabulary import vocabulary_of_graph
from floor_plans.learning.build import DiagramDataset
from floor_plans.plans.box_model import is_installed
from floor_plans.plans.verdict import plan_shares

NUM_LARGE_VERDICTS = 40  # ``usual_verdicts`` of plans past eight rooms, which take seconds each

_PLAN_COLUMNS = tuple(
    Column(name, name, 1, up=True, share=True, of_samples=True, counted="num_verdicts")
    for name in ("realisable", "buildable")
)

_FEWEST_SAMPLES = 50  # with fewer samples, starting the solver is not worthwhile


def usual_verdicts(num_samples: int, n_max: int) -> int:
    """Default number of samples that the solver tries to build: a fifth, fewer of large plans."""
    is_large = n_max > RPLAN_VOCAB_CONFIG.n_max
    return min(num_samples // 5, NUM_LARGE_VERDICTS if is_large else num_samples)


class DiagramReport(TokenReport):
    """Metrics of sampled diagrams against a split, and a picture."""

    headlines: ClassVar[tuple[Headline, ...]] = (
        Headline("valid", share=True),
        Headline("exactly_one_living_room", share=True),
        Headline("transitive", share=True),
        Headline("buildable", share=True, counted="num_verdicts"),
    )
    columns = (
        Column("valid", "valid", 1, up=True, share=True, of_samples=True),
        Column("transitive", "transitive", 1, up=True, share=True, of_samples=True),
        Column("relation TV", "relation_tv", 4),
        Column("conditional relation TV", "conditional_relation_tv", 4),
        Column("mode coverage", "mode_coverage", 1, up=True, share=True),
    )
    axes = (Column("transitive samples", "transitive", 1, up=True, share=True), columns[2])
    data: DiagramDataset

    def __init__(
        self, data: DiagramDataset, split: str = "val", *, num_verdicts: int | None = None
    ) -> None:
        """Build a report; ``num_verdicts``: samples that the solver tries to build, or None for
        ``usual_verdicts``."""
        super().__init__(data, split)
        self.num_verdicts = num_verdicts

    @cached_property
    def reference(self) -> DiagramSet | None:
        """Held-out diagrams, measured once; None if there are none."""
        held_out = self.data.splits[self.split].x0
        words = vocabulary_of_graph(self.data.vocab)
        return DiagramSet(decode(held_out, self.data.vocab), words) if len(held_out) else None

    def measure(self, samples: Tensor) -> dict[str, float]:
        if len(samples) == 0 or self.reference is None:
            return {}
        return bubble_metrics(decode(samples, self.data.vocab), self.reference)

    def findings(self, bound: BoundEstimate, samples: Tensor) -> dict[str, Any]:
        """Findings of the base class, and the share of samples that can be built."""
        num = self.num_decided(len(samples))
        plans = plan_shares(decode(samples[:num], self.data.vocab), num)
        return {**super().findings(bound, samples), **plans}

    def num_decided(self, num_samples: int) -> int:
        """Number of samples, of ``num_samples``, that the solver tries to build."""
        if not self.data.vocab.edge_directions:
            return 0  # any relations without direction may have a plan
        usual = usual_verdicts(num_samples, self.data.vocab.n_max)
        return usual if self.num_verdicts is None else self.num_verdicts

    def save(self, samples: Tensor, folder: Path) -> None:
        if len(samples):
            folder.mkdir(parents=True, exist_ok=True)
            write_diagrams(folder / "samples.jsonl", decode(samples, self.data.vocab))
            self.plot(samples, folder / "samples.png")

    def plot(self, samples: Tensor, path: Path) -> None:
        if len(samples):
            plot_grid(decode(samples[:MAX_DRAWN], self.data.vocab), path)


class AdjacencyReport(DiagramReport):
    """Report on diagrams whose relations have no direction."""

    headlines = (Headline("connected", share=True),)


class DiagramCells(TokenCells):
    """Measurement of diagram models: the bound, metrics of samples, and the shares of the first
    ``num_verdicts`` samples that have a floor plan, with standard errors."""

    def __init__(self) -> None:
        super().__init__(DiagramReport)
        valid, transitive, *distances = self.columns
        self.columns = (valid, transitive, *_PLAN_COLUMNS, *distances)

    def num_verdicts(self, config: DictConfig) -> int:
        """Samples that the solver tries to build: ``eval.num_solver_checks``, or if null
        ``usual_verdicts`` of ``_FEWEST_SAMPLES`` samples and more; 0 without OR-Tools."""
        asked, num_samples = config.eval.num_solver_checks, int(config.eval.num_samples)
        if not is_installed() or (asked is None and num_samples < _FEWEST_SAMPLES):
            return 0
        if asked is None:
            return usual_verdicts(num_samples, config.data.max_nodes)
        return min(num_samples, int(asked))

    def report(self, data: DiagramDataset, verdicts: int = 0) -> DiagramReport:
        return _ReportWithVerdicts(data, evaluation.held_out_split(data), num_verdicts=verdicts)

    def real_data(self, data: Any, num_samples: int, verdicts: int = 0) -> dict[str, float]:
        """Metrics of real data, with verdicts of the solver on a random part of training data."""
        metrics = super().real_data(data, num_samples, verdicts)
        train = data.splits["train"]
        if metrics and verdicts and data.vocab.edge_directions:
            chosen = torch.randperm(len(train), generator=make_generator(0))[:verdicts]
            metrics |= _shares(decode(train[chosen].x0, data.vocab))
        return metrics

    def notes(self, comparison: Comparison) -> list[str]:
        asked = sorted({int(n) for m in comparison.models if (n := m.mean("num_verdicts")) > 0})
        what = "Realisable and buildable: a constraint solver decides if a floor plan exists, for"
        return [f"{what} the first {counted(num, 'sample')}." for num in asked]


class _ReportWithVerdicts(DiagramReport):
    """Report with verdicts of the solver on the first ``num_verdicts`` samples."""

    def measure(self, samples: Tensor) -> dict[str, float]:
        num = self.num_verdicts if self.data.vocab.edge_directions else 0
        first = decode(samples[:num], self.data.vocab) if len(samples) else []
        return {**super().measure(samples), **_shares(first)}


def _shares(diagrams: Sequence[BubbleDiagram]) -> dict[str, float]:
    """Return ``plan_shares`` with the standard error of each column."""
    found = plan_shares(diagrams, len(diagrams))
    for name in [each.name for each in _PLAN_COLUMNS] if found else ():
        found[f"{name}_standard_error"] = evaluation.share_error(found[name], len(diagrams))
    return found
