"""``GraphSet``: graphs, and what is computed of each of them once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.metrics.statistics import STATISTICS, Floats, statistics_of
from discrete_diffusion.domains.graphs.symmetries import canonical_key


class GraphSet(Sequence[TypedGraph]):
    """A sequence of graphs that remembers ``keys``, equal for isomorphic graphs, and
    ``statistics``, by name a row per graph."""

    def __init__(self, graphs: Iterable[TypedGraph]) -> None:
        self.graphs = tuple(graphs)

    @classmethod
    def of(cls, graphs: Sequence[TypedGraph]) -> GraphSet:
        """The set itself if it is one."""
        return graphs if isinstance(graphs, GraphSet) else cls(graphs)

    def __len__(self) -> int:
        return len(self.graphs)

    def __iter__(self) -> Iterator[TypedGraph]:
        return iter(self.graphs)

    @overload
    def __getitem__(self, index: int) -> TypedGraph: ...
    @overload
    def __getitem__(self, index: slice) -> GraphSet: ...
    def __getitem__(self, index: int | slice) -> TypedGraph | GraphSet:
        if isinstance(index, slice):
            return GraphSet(self.graphs[index])
        return self.graphs[index]

    def select(self, rows: Iterable[int]) -> GraphSet:
        """The graphs of these rows, with what was computed of them."""
        index = np.fromiter(rows, dtype=np.int64)
        found = GraphSet(self.graphs[row] for row in index)
        found.statistics = {name: values[index] for name, values in self.statistics.items()}
        return found

    @cached_property
    def keys(self) -> tuple[Hashable, ...]:
        return tuple(map(canonical_key, self.graphs))

    @cached_property
    def statistics(self) -> dict[str, Floats]:
        """Statistics by name, Float[M, K]; histograms of different lengths have zeros appended."""
        each = [statistics_of(graph) for graph in self.graphs]
        return {s.name: _stacked([found[s.name] for found in each]) for s in STATISTICS}


def _stacked(rows: Sequence[Floats]) -> Floats:
    width = max((len(row) for row in rows), default=0)
    out: NDArray[np.float64] = np.zeros((len(rows), width))
    for k, row in enumerate(rows):
        out[k, : len(row)] = row
    return out
