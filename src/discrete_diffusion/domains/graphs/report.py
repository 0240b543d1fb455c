"""Report on sampled graphs: numbers, and a page of them."""

from __future__ import annotations

from functools import cached_property

from torch import Tensor

from discrete_diffusion.domains.cell_measurement import TokenCells
from discrete_diffusion.domains.graphs.build import GraphFileDataset
from discrete_diffusion.domains.graphs.metrics.graph_set import GraphSet
from discrete_diffusion.domains.graphs.metrics.graphs import (
    default_kernel,
    graph_metrics,
    ratios,
    squared_mmds,
)
from discrete_diffusion.domains.graphs.samples import GraphSamples
from discrete_diffusion.evaluation.comparison import Column
from discrete_diffusion.evaluation.report import Headline
from discrete_diffusion.evaluation.sample_kind import SampleKindReport


class GraphReport(SampleKindReport):
    """Metrics of sampled graphs against a split, and a picture."""

    headlines = (
        Headline("valid", share=True),
        Headline("valid_unique_novel", share=True),
        Headline("connected", share=True),
        Headline("ratio"),
    )
    columns = (
        Column("valid", "valid", 1, up=True, share=True, of_samples=True),
        Column("V.U.N.", "valid_unique_novel", 1, up=True, share=True, of_samples=True),
        Column("connected", "connected", 1, up=True, share=True, of_samples=True),
        Column("MMD ratio", "ratio", 2),
        Column("edges", "edges_per_graph", 1, up=None),
    )
    axes = (
        Column("V.U.N.", "valid_unique_novel", 1, up=True, share=True),
        Column("connected graphs", "connected", 1, up=True, share=True),
    )
    data: GraphFileDataset

    @cached_property
    def kind(self) -> GraphSamples:
        return GraphSamples(self.data.types, self.data.vocab, self.data.kind)

    @cached_property
    def _reference(self) -> GraphSet:
        return GraphSet(self.data.graphs(self.split))

    @cached_property
    def _training(self) -> GraphSet:
        return GraphSet(self.data.graphs("train"))

    @cached_property
    def _training_distances(self) -> dict[str, float]:
        kernel = default_kernel(self.data.kind)
        return squared_mmds(self._training, self._reference, kernel)

    def measure(self, samples: Tensor) -> dict[str, float]:
        if len(samples) == 0 or len(self._reference) == 0:
            return {}
        found = graph_metrics(
            GraphSet(self.kind.decode(samples)),
            self._reference,
            training=self._training,
            kind=self.data.kind,
        )
        return {**found, **ratios(found, self._training_distances)}


class GraphCells(TokenCells):
    """The bound and metrics of fresh samples; novelty of real data is left out: they are known."""

    def __init__(self) -> None:
        super().__init__(GraphReport)

    def real_data(
        self, data: GraphFileDataset, num_samples: int, verdicts: int = 0
    ) -> dict[str, float]:
        """Scores of training graphs, which are not new."""
        found = super().real_data(data, num_samples, verdicts)
        of_novelty = ("novel", "unique_novel", "valid_unique_novel")
        return {name: value for name, value in found.items() if name not in of_novelty}
