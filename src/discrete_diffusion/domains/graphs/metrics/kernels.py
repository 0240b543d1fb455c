"""The kernels that statistics of graphs are compared with in the literature.

Source: GRAN (arXiv 1910.00760), whose code SPECTRE, HSpectre, DiGress and DeFoG measure with.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

KERNELS = ("tv", "emd")

_AT_ONCE = 8_000_000
"""Pairs whose values are in memory at once."""


def mean_kernel(
    x: Floats, y: Floats, *, kernel: str, bandwidth: float, bin_width: float | None
) -> float:
    """The mean of ``kernel_values`` over all pairs, in parts of bounded memory."""
    rows = max(1, _AT_ONCE // len(y))
    values = partial(kernel_values, kernel=kernel, bandwidth=bandwidth, bin_width=bin_width)
    if len(x) <= rows:
        return float(values(x, y).mean())
    sums = (float(values(x[k : k + rows], y).sum()) for k in range(0, len(x), rows))
    return math.fsum(sums) / (len(x) * len(y))


def kernel_values(
    x: Floats, y: Floats, *, kernel: str, bandwidth: float, bin_width: float | None
) -> Floats:
    """k(x, y) = exp(-d(x, y)^2 / (2 s^2)) of every row of ``x`` (M, K) and ``y`` (N, K'): (M, N).

    The shorter rows get zeros appended. ``bandwidth``: s. ``kernel``: ``tv`` has d = sum |x - y| /
    2; ``emd`` has the earth mover's distance of histograms on a line, whose bins are ``bin_width``
    apart, and where that is None, since rows are no histograms, the Euclidean distance.
    """
    from scipy.spatial.distance import cdist  # slow to import

    width = max(x.shape[1], y.shape[1])
    x, y = (np.pad(rows, ((0, 0), (0, width - rows.shape[1]))) for rows in (x, y))
    if kernel == "tv":
        distance = cdist(x, y, "cityblock") / 2
    elif bin_width is None:
        distance = cdist(x, y, "euclidean")
    else:
        distance = cdist(x.cumsum(axis=1), y.cumsum(axis=1), "cityblock") * bin_width
    return np.exp(distance**2 / (-2 * bandwidth**2))
