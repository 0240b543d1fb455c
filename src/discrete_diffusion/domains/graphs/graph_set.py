"""``GraphSet``: graphs with their canonical forms and the statistics that compare them, each
computed once.

Canonical forms and numbers of node orders are exact, by BLISS. The five statistics, a vector for
each graph, are those of SPECTRE (arXiv 2204.01613) and HSpectre (arXiv 2312.11529), down to the
number of bins: degrees, clustering coefficients, 4-node orbits (GRAN, arXiv 1910.00760), the
spectrum of the normalised Laplacian, and spectral wavelets, the response of every node to a bank of
filters. Types of nodes and edges count for equality, not for statistics.

An order lists the nodes in their new sequence: node ``order[k]`` becomes node k.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.runtime.package import install_command

Floats = NDArray[np.float64]
Order = tuple[int, ...]

NUM_FILTERS, NUM_BINS, NUM_ORBITS = 12, 100, 15
_CLUSTERING_BINS, _SPECTRUM_BINS = 100, 200
_MAX_EIGENVALUE = 2.0
"""Largest eigenvalue that a normalised Laplacian can have."""

_GAP = 20.0
"""Largest eigenvalue divided by the smallest scale of a wavelet."""

_ROUNDING = 1e-6
"""Added to the sum that a histogram is divided by, as in the published code."""

_EXTRA = ("igraph", "orbit_count")
"""Libraries of the extra ``graphs``."""


def graphs_library(name: str) -> Any:
    """Import a library of the extra ``graphs``. Raises ``ValueError`` naming the extra if the
    library is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ValueError(f"data of graphs take {name}: {install_command('graphs')}") from error


def check_installed() -> None:
    """Raise ``ValueError`` naming the extra ``graphs`` if one of its libraries is missing."""
    for name in _EXTRA:
        if find_spec(name) is None:
            graphs_library(name)


@dataclass(frozen=True)
class Labelling:
    """Canonical order of a graph's nodes and its number of distinct orders.

    ``canonical``: an order with which isomorphic graphs become equal. ``log_num_orders``: log(n! /
    |Aut|), the log of how many distinct graphs the orders of the nodes make.
    """

    canonical: Order
    log_num_orders: float


def node_labelling(graph: TypedGraph) -> Labelling:
    """Label a graph; types of nodes and of edges count."""
    coloured, colours = _coloured(graph)
    automorphisms = coloured.count_automorphisms(color=colours)
    log_num_orders = math.log(math.factorial(len(graph.nodes))) - math.log(automorphisms)
    return Labelling(_canonical_order(graph, coloured, colours), log_num_orders)


def canonical_key(graph: TypedGraph) -> Hashable:
    """Key that is equal for two graphs if and only if they are isomorphic."""
    graph = reordered_graph(graph, _canonical_order(graph, *_coloured(graph)))
    return graph.nodes, graph.edges


def reordered_graph(graph: TypedGraph, order: Sequence[int]) -> TypedGraph:
    """The same graph with the old node ``order[k]`` as node k."""
    place = {node: k for k, node in enumerate(order)}
    edges = [(*sorted((place[i], place[j])), kind) for i, j, kind in graph.edges]
    nodes = tuple(graph.nodes[node] for node in order)
    return TypedGraph(nodes, tuple((i, j, kind) for i, j, kind in sorted(edges)))


def breadth_first_order(graph: TypedGraph, canonical: Sequence[int]) -> Order:
    """Order nodes breadth first from a node of most neighbours, one connected part after the other.

    Neighbours of a node follow by their own number of neighbours, most first, and then in the
    ``canonical`` order. Source: GraphRNN, arXiv 1802.08773.
    """
    # neighbours of each node
    neighbours: list[list[int]] = [[] for _ in graph.nodes]
    for i, j, _ in graph.edges:
        neighbours[i].append(j)
        neighbours[j].append(i)
    # sort keys: many neighbours first, then the canonical order
    rank = {node: k for k, node in enumerate(canonical)}
    key = [(-len(neighbours[node]), rank[node]) for node in range(len(neighbours))]
    order: list[int] = []
    seen: set[int] = set()
    # a queue for each connected part
    for start in sorted(rank, key=key.__getitem__):
        queue = deque([start] if start not in seen else [])
        seen.add(start)
        while queue:
            node = queue.popleft()
            order.append(node)
            following = sorted(set(neighbours[node]) - seen, key=key.__getitem__)
            seen.update(following)
            queue.extend(following)
    return tuple(order)


def _canonical_order(graph: TypedGraph, coloured: Any, colours: list[int]) -> Order:
    # read from the permuted graph: releases of igraph differ in the direction of a permutation
    coloured.vs["node"] = range(len(colours))
    permuted = coloured.permute_vertices(coloured.canonical_permutation(color=colours))
    return tuple(node for node in permuted.vs["node"] if node < len(graph.nodes))


def _coloured(graph: TypedGraph) -> tuple[Any, list[int]]:
    """An ``igraph.Graph`` whose first nodes are those of ``graph``, and a colour of each node."""
    n, kinds = len(graph.nodes), {kind for _, _, kind in graph.edges}
    colours = list(graph.nodes)
    edges = [(i, j) for i, j, _ in graph.edges]
    # with several types an edge gets a coloured node in its middle, which keeps all automorphisms
    if len(kinds) > 1:
        first = max(colours, default=0) + 1
        colours += [first + kind for _, _, kind in graph.edges]
        ends = enumerate(edges, start=n)
        edges = [half for middle, (i, j) in ends for half in ((i, middle), (middle, j))]
    return graphs_library("igraph").Graph(n=len(colours), edges=edges), colours


@dataclass(frozen=True)
class Statistic:
    """Statistic of a graph. ``bandwidth``: bandwidth of its kernel. ``bin_width``: distance of
    neighbouring bins of a histogram, for the earth mover's distance; None for a vector that is not
    a histogram."""

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
    """Vectors of the statistics by name, for a graph of at least one node."""
    adjacency = adjacency_of(graph)
    # the spectrum gives eigenvalues and wavelets
    eigenvalues, eigenvectors = np.linalg.eigh(normalised_laplacian(adjacency))
    eigenvalues = eigenvalues.clip(0, 2)  # their range, but for rounding
    spectrum, _ = np.histogram(eigenvalues, bins=_SPECTRUM_BINS, range=(-1e-5, 2))
    # clustering coefficients of all nodes
    clustering, _ = np.histogram(
        clustering_coefficients(adjacency), bins=_CLUSTERING_BINS, range=(0.0, 1.0)
    )
    # histograms as shares
    return {
        "degree": _shares(np.bincount(adjacency.sum(axis=1).astype(np.int64))),
        "clustering": _shares(clustering),
        "orbit": orbit_counts(graph).mean(axis=0),
        "spectral": _shares(spectrum),
        "wavelet": _shares(wavelet_histogram(eigenvalues, eigenvectors)),
    }


def _shares(counts: NDArray) -> Floats:
    return counts / (counts.sum() + _ROUNDING)


def as_networkx(graph: TypedGraph) -> Any:
    """The graph as a networkx graph without types."""
    import networkx

    plain = networkx.empty_graph(len(graph.nodes))
    plain.add_edges_from((i, j) for i, j, _ in graph.edges)
    return plain


def adjacency_of(graph: TypedGraph) -> Floats:
    """Float[N, N] of zeros and ones, symmetric."""
    adjacency = np.zeros((len(graph.nodes), len(graph.nodes)))
    for i, j, _ in graph.edges:
        adjacency[i, j] = adjacency[j, i] = 1
    return adjacency


def clustering_coefficients(adjacency: Floats) -> Floats:
    """Float[N]: the share of pairs of a node's neighbours that are linked; 0 without a pair."""
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
    """Float[N, 15]: how often each node has each role in a graphlet of 2 to 4 nodes (ORCA)."""
    if not graph.edges:  # the library takes it for a mistake
        return np.zeros((len(graph.nodes), NUM_ORBITS))
    counts = graphs_library("orbit_count").node_orbit_counts(as_networkx(graph), graphlet_size=4)
    return np.asarray(counts, dtype=np.float64)


def wavelet_histogram(eigenvalues: Floats, eigenvectors: Floats) -> Floats:
    """Counts of |g(L) e_v|^2 in each of 100 bins, over nodes v, for each of 12 filters g:
    Float[1200].

    Source: the wavelet statistic of SPECTRE (arXiv 2204.01613).
    """
    response = filter_bank(eigenvalues)  # (F, N)
    energy = response**2 @ (eigenvectors**2).T  # (F, N): sum_k g(lambda_k)^2 u_vk^2
    ends = (0.0, _LARGEST_RESPONSE)
    counts = [np.histogram(row, bins=NUM_BINS, range=ends)[0] for row in energy]
    return np.concatenate(counts).astype(np.float64)


def filter_bank(x: Floats) -> Floats:
    """Responses of a low-pass filter and 11 wavelets to frequencies x in [0, 2]: Float[12, N].

    Source: the cubic splines of Hammond, Vandergheynst, Gribonval, "Wavelets on graphs via spectral
    graph theory", arXiv 0912.3848, section 8.1, as PyGSP's ``Abspline`` computes them.
    """
    smallest = _MAX_EIGENVALUE / _GAP
    scales = np.geomspace(2 / smallest, 1 / _MAX_EIGENVALUE, NUM_FILTERS - 1)
    # the low-pass filter is as high as a wavelet at its maximum, 2 - 1 / sqrt(3)
    peak = float(_wavelet(np.array([2 - 1 / np.sqrt(3)]))[0])
    low = peak * np.exp(-((x / (0.6 * smallest)) ** 4))
    return np.stack([low, *(_wavelet(scale * x) for scale in scales)])


def _wavelet(x: Floats) -> Floats:
    """x^2 up to 1, 4 / x^2 from 2 on, and between them the cubic with the same values and
    slopes."""
    cubic = -5 + 11 * x - 6 * x**2 + x**3
    tail = 4 / np.maximum(x, 1) ** 2
    return np.where(x <= 1, x**2, np.where(x < 2, cubic, tail))


_LARGEST_RESPONSE = float(filter_bank(np.arange(0, 2, 0.01)).max())
"""Upper end of the histogram: the maximum of the filters on a grid, as published."""


class GraphSet:
    """Graphs that remember their ``keys``, equal for isomorphic graphs, and their
    ``statistics``."""

    def __init__(self, graphs: Iterable[TypedGraph]) -> None:
        self.graphs = tuple(graphs)

    def __len__(self) -> int:
        return len(self.graphs)

    def __iter__(self) -> Iterator[TypedGraph]:
        return iter(self.graphs)

    def select(self, rows: Iterable[int]) -> GraphSet:
        """Graphs of these rows, with their statistics."""
        index = np.fromiter(rows, dtype=np.int64)
        subset = GraphSet(self.graphs[row] for row in index)
        subset.statistics = {name: values[index] for name, values in self.statistics.items()}
        return subset

    @cached_property
    def keys(self) -> tuple[Hashable, ...]:
        return tuple(map(canonical_key, self.graphs))

    @cached_property
    def statistics(self) -> dict[str, Floats]:
        """Statistics by name, Float[M, K]; shorter histograms are padded with zeros."""
        each = [statistics_of(graph) for graph in self.graphs]
        tables: dict[str, Floats] = {}
        for statistic in STATISTICS:
            rows = [vectors[statistic.name] for vectors in each]
            table = np.zeros((len(rows), max(map(len, rows), default=0)))
            for k, row in enumerate(rows):
                table[k, : len(row)] = row
            tables[statistic.name] = table
        return tables
