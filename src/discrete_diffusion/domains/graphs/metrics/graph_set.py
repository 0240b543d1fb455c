"""``GraphSet``: graphs, and the statistics by which they are compared, computed once of each.

Five statistics of each graph, a vector each, are those of SPECTRE (arXiv 2204.01613) and HSpectre
(arXiv 2312.11529), to the number of bins: degrees, clustering coefficients, 4-node orbits (GRAN,
arXiv 1910.00760), the spectrum of the normalised Laplacian, spectral wavelets: how the filters of a
bank see each node. Types of nodes and edges do not count.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.libraries import library
from discrete_diffusion.domains.graphs.symmetries import canonical_key

Floats = NDArray[np.float64]

NUM_FILTERS, NUM_BINS = 12, 100
_LARGEST = 2.0
"""Eigenvalue of a normalised Laplacian, at most."""

_GAP = 20.0
"""The smallest scale of a wavelet is the largest eigenvalue divided by this."""


def wavelet_histogram(eigenvalues: Floats, eigenvectors: Floats) -> Floats:
    """Counts of |g(L) e_v|^2 in each of 100 bins, over nodes v, for each of 12 filters g:
    Float[1200].

    Source: the wavelet statistic of SPECTRE (arXiv 2204.01613).
    """
    response = filter_bank(eigenvalues)  # (F, N)
    energy = response**2 @ (eigenvectors**2).T  # (F, N): sum_k g(lambda_k)^2 u_vk^2
    ends = (0.0, _largest_response())
    counts = [np.histogram(row, bins=NUM_BINS, range=ends)[0] for row in energy]
    return np.concatenate(counts).astype(np.float64)


def filter_bank(x: Floats) -> Floats:
    """The responses of a low-pass filter and 11 wavelets to frequencies x in [0, 2]: Float[12, N].

    Source: the cubic splines of Hammond, Vandergheynst, Gribonval, "Wavelets on graphs via spectral
    graph theory", arXiv 0912.3848, section 8.1, as PyGSP's ``Abspline`` computes them.
    """
    smallest = _LARGEST / _GAP
    scales = np.geomspace(2 / smallest, 1 / _LARGEST, NUM_FILTERS - 1)
    low = _peak() * np.exp(-((x / (0.6 * smallest)) ** 4))
    return np.stack([low, *(_wavelet(scale * x) for scale in scales)])


def _wavelet(x: Floats) -> Floats:
    """x^2 up to 1, 4 / x^2 from 2 on, and the cubic with their values and slopes between."""
    cubic = -5 + 11 * x - 6 * x**2 + x**3
    tail = 4 / np.maximum(x, 1) ** 2
    return np.where(x <= 1, x**2, np.where(x < 2, cubic, tail))


def _peak() -> float:
    """The most that a wavelet responds: -5 + 11 x - 6 x^2 + x^3 at 2 - 1 / sqrt(3)."""
    return float(_wavelet(np.array([2 - 1 / np.sqrt(3)]))[0])


@cache
def _largest_response() -> float:
    """On a grid, as published: it is where the histogram ends."""
    return float(filter_bank(np.arange(0, 2, 0.01)).max())


NUM_ORBITS = 15
_CLUSTERING_BINS, _SPECTRUM_BINS = 100, 200
_ROUNDING = 1e-6
"""Added to the sum that a histogram is divided by, as in the published code."""


@dataclass(frozen=True)
class Statistic:
    """``bandwidth``: of the kernel. ``bin_width``: between neighbouring bins of its histogram, for
    the earth mover's distance; None of what is no histogram."""

    name: str
    meaning: str
    bandwidth: float
    bin_width: float | None


STATISTICS = (
    Statistic("degree", "histogram of degrees", 1.0, 1.0),
    Statistic("clustering", "histogram of local clustering coefficients", 0.1, 0.01),
    Statistic("orbit", "mean counts of the 15 orbits of graphlets of up to 4 nodes", 30.0, None),
    Statistic("spectral", "histogram of the normalised Laplacian's eigenvalues", 1.0, 1.0),
    Statistic("wavelet", "histograms of 12 spectral graph wavelets", 1.0, 1.0),
)


def statistics_of(graph: TypedGraph) -> dict[str, Floats]:
    """Vectors of the statistics by name; of a graph of at least one node."""
    adjacency = adjacency_of(graph)
    eigenvalues, eigenvectors = np.linalg.eigh(normalised_laplacian(adjacency))
    eigenvalues = eigenvalues.clip(0, 2)  # where they are, but for rounding
    spectrum, _ = np.histogram(eigenvalues, bins=_SPECTRUM_BINS, range=(-1e-5, 2))
    clustering, _ = np.histogram(
        clustering_coefficients(adjacency), bins=_CLUSTERING_BINS, range=(0.0, 1.0)
    )
    return {
        "degree": _shares(np.bincount(adjacency.sum(axis=1).astype(np.int64))),
        "clustering": _shares(clustering),
        "orbit": orbit_counts(graph).mean(axis=0),
        "spectral": _shares(spectrum),
        "wavelet": _shares(wavelet_histogram(eigenvalues, eigenvectors)),
    }


def as_networkx(graph: TypedGraph) -> Any:
    """networkx graph without types."""
    import networkx

    found = networkx.empty_graph(len(graph.nodes))
    found.add_edges_from((i, j) for i, j, _ in graph.edges)
    return found


def adjacency_of(graph: TypedGraph) -> Floats:
    """Float[N, N] of zeros and ones, symmetric."""
    adjacency = np.zeros((len(graph.nodes), len(graph.nodes)))
    if graph.edges:
        ends = np.array([(i, j) for i, j, _ in graph.edges])
        adjacency[ends[:, 0], ends[:, 1]] = adjacency[ends[:, 1], ends[:, 0]] = 1
    return adjacency


def clustering_coefficients(adjacency: Floats) -> Floats:
    """Float[N]: the share of pairs of a node's neighbours that are neighbours; 0 without a pair."""
    degree = adjacency.sum(axis=1)
    corners = (adjacency @ adjacency * adjacency).sum(axis=1)  # twice the triangles of a node
    pairs = degree * (degree - 1)
    return np.divide(corners, pairs, out=np.zeros_like(degree), where=pairs > 0)


def normalised_laplacian(adjacency: Floats) -> Floats:
    """D^-1/2 (D - A) D^-1/2, with zeros for nodes without neighbours."""
    degree = adjacency.sum(axis=1)
    scale = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    return scale[:, None] * (np.diag(degree) - adjacency) * scale


def orbit_counts(graph: TypedGraph) -> Floats:
    """Float[N, 15]: how often each node is at each place of a graphlet of 2 to 4 nodes (ORCA)."""
    if not graph.edges:  # which the library takes for a mistake
        return np.zeros((len(graph.nodes), NUM_ORBITS))
    counts = library("orbit_count").node_orbit_counts(as_networkx(graph), graphlet_size=4)
    return np.asarray(counts, dtype=np.float64)


def _shares(counts: NDArray) -> Floats:
    return counts / (counts.sum() + _ROUNDING)


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
