"""Distances of two sets of graphs, and their ratio to the distance of training graphs.

    MMD^2 = mean k(x, x') + mean k(y, y') - 2 mean k(x, y)

over all pairs, those of a graph with itself too, so that a set has distance 0 from itself. The
papers call this number MMD; so do the tables here. Source of the kernels: GRAN (arXiv 1910.00760),
whose code SPECTRE, HSpectre, DiGress and DeFoG measure with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.domains.graphs.metrics.graph_set import GraphSet
from discrete_diffusion.domains.graphs.metrics.statistics import STATISTICS

Floats = NDArray[np.float64]

KERNELS = ("tv", "emd")

_AT_ONCE = 8_000_000
"""Pairs whose values are in memory at once."""

MMDS = tuple(f"mmd_{statistic.name}" for statistic in STATISTICS)
AVERAGED = ("mmd_degree", "mmd_clustering", "mmd_orbit")
"""Distances of which ``mmd_average`` is the mean."""

_DECIMALS = 4
"""Decimals of training graphs' distances as they are published; those that round to 0 are in no
ratio."""


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


def squared_mmds(samples: GraphSet, reference: GraphSet, kernel: str) -> dict[str, float]:
    """Squared MMD of every statistic by name, with a kernel of ``KERNELS``; and
    ``mmd_average``, of degrees, clustering and orbits, which is published of small graphs."""
    found = {}
    for statistic in STATISTICS:
        x, y = samples.statistics[statistic.name], reference.statistics[statistic.name]
        means = [
            mean_kernel(
                *pair, kernel=kernel, bandwidth=statistic.bandwidth, bin_width=statistic.bin_width
            )
            for pair in ((x, x), (y, y), (x, y))
        ]
        found[f"mmd_{statistic.name}"] = float(means[0] + means[1] - 2 * means[2])
    found["mmd_average"] = float(np.mean([found[name] for name in AVERAGED]))
    return found


def ratios(found: Mapping[str, float], training: Mapping[str, float]) -> dict[str, float]:
    """``ratio``: mean over the five statistics of MMD(samples, test) / MMD(training, test), without
    those whose divisor rounds to 0 at four decimals. ``ratio_rounded``: with the divisors rounded
    to four decimals, as the code of DeFoG (arXiv 2410.04263) has it. Neither if all round to 0."""
    rounded = {name: round(training[name], _DECIMALS) for name in MMDS}
    kept = [name for name in MMDS if rounded[name] > 0]
    if not kept:
        return {}
    return {
        "ratio": float(np.mean([found[name] / training[name] for name in kept])),
        "ratio_rounded": float(np.mean([found[name] / rounded[name] for name in kept])),
    }
