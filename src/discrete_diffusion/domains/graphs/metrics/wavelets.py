"""Spectral graph wavelets: how the filters of a bank see each node of a graph."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

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
