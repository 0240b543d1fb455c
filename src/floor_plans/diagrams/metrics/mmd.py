"""Squared maximum mean discrepancy (MMD) of two sets of vectors, with a Gaussian kernel.

Deviation: published evaluations often take the bandwidth from medians of the compared sets, so that
their values are not comparable; here it is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_CHUNK = 1 << 22
"""Most kernel values in one block."""

_DECIMALS = 13
"""Decimals to which equal vectors agree; eigenvalues have rounding noise."""


@dataclass(frozen=True)
class KernelPoints:
    """Distinct vectors of a set, with counts, for a kernel k(x, y) = exp(-|x - y|^2 / (2 s^2)).

    ``points``: Float[U, K]. ``counts``: number of each, Float[U]. ``bandwidth``: s.
    """

    points: Floats
    counts: Floats
    bandwidth: float

    @classmethod
    def of(cls, vectors: Floats, bandwidth: float) -> KernelPoints:
        """Build the set of ``vectors`` Float[M, K]."""
        points, counts = np.unique(np.round(vectors, _DECIMALS), axis=0, return_counts=True)
        return cls(points, counts.astype(np.float64), bandwidth)

    @property
    def size(self) -> float:
        """Number M of vectors, counted with repeats."""
        return float(self.counts.sum())

    def total(self, other: KernelPoints) -> float:
        """Sum of k(x, y) over all x of this set and y of the other.

        Shorter vectors are padded with zeros, the values of smaller diagrams there.
        """
        # pad both sets to the same length
        width = max(self.points.shape[1], other.points.shape[1])
        ours, theirs = (
            np.pad(points, ((0, 0), (0, width - points.shape[1])))
            for points in (self.points, other.points)
        )
        step = max(1, _CHUNK // len(theirs))
        from scipy.spatial.distance import cdist  # slow, and few runs compare sets

        # sum in blocks of at most _CHUNK kernel values
        total = 0.0
        for start in range(0, len(ours), step):
            squared = cdist(ours[start : start + step], theirs, "sqeuclidean")
            similarity = np.exp(squared / (-2 * self.bandwidth**2))
            total += float(self.counts[start : start + step] @ similarity @ other.counts)
        return total

    @cached_property
    def mean_within(self) -> float:
        """Mean of k(x, x') over pairs of different members; 1 for a single member."""
        size = self.size
        return 1.0 if size == 1 else (self.total(self) - size) / (size * (size - 1))


def squared_mmd(samples: KernelPoints, reference: KernelPoints) -> float:
    """Unbiased estimate of MMD^2, clipped at 0.

    mean k(x, x') over x != x' + mean k(y, y') over y != y' - 2 mean k(x, y), arXiv 0805.2368, eq. 3
    in its unbiased form. For a set of one the first term is k(x, x) = 1.
    """
    between = samples.total(reference) / (samples.size * reference.size)
    return max(0.0, samples.mean_within + reference.mean_within - 2 * between)
