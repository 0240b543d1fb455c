"""Distances of two sets of graphs, and their ratio to the distance of training graphs.

    MMD^2 = mean k(x, x') + mean k(y, y') - 2 mean k(x, y)

over all pairs, those of a graph with itself too, so that a set has distance 0 from itself. The
papers call this number MMD; so do the tables here.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from discrete_diffusion.domains.graphs.metrics.graph_set import GraphSet
from discrete_diffusion.domains.graphs.metrics.kernels import mean_kernel
from discrete_diffusion.domains.graphs.metrics.statistics import STATISTICS

MMDS = tuple(f"mmd_{statistic.name}" for statistic in STATISTICS)
AVERAGED = ("mmd_degree", "mmd_clustering", "mmd_orbit")
"""Distances of which ``mmd_average`` is the mean."""

_DECIMALS = 4
"""Decimals of training graphs' distances as they are published; those that round to 0 are in no
ratio."""


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
