"""Statistics by which graphs are compared: five of each graph, a vector each.

They are those of SPECTRE (arXiv 2204.01613) and HSpectre (arXiv 2312.11529), to the number of bins:
degrees, clustering coefficients, 4-node orbits (GRAN, arXiv 1910.00760), the spectrum of the
normalised Laplacian, spectral wavelets. Types of nodes and edges do not count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.libraries import library
from discrete_diffusion.domains.graphs.metrics.wavelets import wavelet_histogram

Floats = NDArray[np.float64]

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
    import networkx

    linked = networkx.empty_graph(len(graph.nodes))
    linked.add_edges_from((i, j) for i, j, _ in graph.edges)
    counts = library("orbit_count").node_orbit_counts(linked, graphlet_size=4)
    return np.asarray(counts, dtype=np.float64)


def _shares(counts: NDArray) -> Floats:
    return counts / (counts.sum() + _ROUNDING)
