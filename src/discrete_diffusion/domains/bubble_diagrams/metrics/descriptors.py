"""Graph descriptors: one vector per diagram of what its rooms are joined to, types left out.

Two rooms are joined if any relation is listed between them. Rows do not depend on how rooms are
numbered. Axes: ``M`` diagrams, ``n`` the largest room count.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.domains.bubble_diagrams.metrics.diagram_arrays import DiagramArrays

Floats = NDArray[np.float64]

CLUSTERING_BINS = 10


def degree_shares(arrays: DiagramArrays) -> Floats:
    """Float[M, n]: the share of a diagram's rooms with degree 0, 1, ..., n - 1."""
    size = int(arrays.num_rooms.max())
    counts = np.bincount(arrays.owner * size + arrays.degree, minlength=len(arrays) * size)
    return counts.reshape(-1, size) / arrays.num_rooms[:, None]


def clustering_shares(arrays: DiagramArrays) -> Floats:
    """Float[M, 10]: the share of a diagram's rooms per tenth of the clustering coefficient.

    The coefficient of a room with d neighbours and T related pairs among them is 2T / (d (d - 1)),
    0 for d < 2. Bin k holds [k/10, (k + 1)/10), the last one 1 as well; the bin is found in
    integers, so that 3/10 falls into bin 3.
    """
    joined = arrays.neighbours().astype(np.float64)
    twice_triangles = ((joined @ joined) * joined).sum(axis=2).round().astype(np.int64)
    slot = np.arange(joined.shape[1])
    twice_triangles = twice_triangles[slot < arrays.num_rooms[:, None]]  # (R,)
    pairs = np.maximum(arrays.degree * (arrays.degree - 1), 1)
    bins = np.minimum(CLUSTERING_BINS * twice_triangles // pairs, CLUSTERING_BINS - 1)
    counts = np.bincount(
        arrays.owner * CLUSTERING_BINS + bins, minlength=len(arrays) * CLUSTERING_BINS
    )
    return counts.reshape(-1, CLUSTERING_BINS) / arrays.num_rooms[:, None]


def laplacian_spectrum(arrays: DiagramArrays) -> Floats:
    """Float[M, n]: ascending eigenvalues of I - D^-1/2 A D^-1/2, then zeros in unused slots.

    They lie in 0..2. The row of a room without neighbours is 0, as networkx has it.
    """
    joined = arrays.neighbours().astype(np.float64)
    degree = joined.sum(axis=2)
    scale = np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1)), 0.0)
    laplacian = -scale[:, :, None] * joined * scale[:, None, :]
    diagonal = np.arange(joined.shape[1])
    laplacian[:, diagonal, diagonal] = degree > 0
    spectrum = np.zeros(degree.shape)
    for n in np.unique(arrays.num_rooms).tolist():  # padded rows would add eigenvalues 0 in front
        rows = np.flatnonzero(arrays.num_rooms == n)
        spectrum[rows, :n] = np.linalg.eigvalsh(laplacian[rows, :n, :n])
    return spectrum
