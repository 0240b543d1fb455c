"""Reports on sampled diagrams: metrics and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.evaluation import Column, Headline, TokenReport
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.graph_formats import write_diagrams
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import bubble_metrics
from floor_plans.diagrams.pictures.diagram_pictures import MAX_DRAWN, plot_grid
from floor_plans.diagrams.tokens import decode
from floor_plans.diagrams.vocabulary import vocabulary_of_graph
from floor_plans.learning.build import DiagramDataset
from floor_plans.plans.verdict import plan_shares

NUM_LARGE_VERDICTS = 40
"""Default number of samples that the solver tries to build if plans have more than eight rooms,
since each takes seconds."""


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
        """Build a report; ``num_verdicts``: number of samples that the solver tries to build.

        None is a fifth of the samples, at most ``NUM_LARGE_VERDICTS`` for large plans.
        """
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
        if self.num_verdicts is not None:
            return self.num_verdicts
        is_large = self.data.vocab.n_max > RPLAN_VOCAB_CONFIG.n_max
        return min(num_samples // 5, NUM_LARGE_VERDICTS if is_large else num_samples)

    def save(self, samples: Tensor, folder: Path) -> None:
        if len(samples):
            save_diagrams(decode(samples, self.data.vocab), folder)

    def plot(self, samples: Tensor, path: Path) -> None:
        if len(samples):
            plot_grid(decode(samples[:MAX_DRAWN], self.data.vocab), path)


class AdjacencyReport(DiagramReport):
    """Report on diagrams whose relations have no direction."""

    headlines = (Headline("connected", share=True),)


def save_diagrams(
    diagrams: Sequence[BubbleDiagram], folder: Path, picture: str = "samples.png"
) -> None:
    """Write ``samples.jsonl`` and a grid of the first ones (.png or .svg) into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_diagrams(folder / "samples.jsonl", diagrams)
    plot_grid(diagrams[:MAX_DRAWN], folder / picture)
