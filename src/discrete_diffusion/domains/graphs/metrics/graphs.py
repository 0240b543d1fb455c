"""Every number of a set of graphs beside a reference and the graphs trained on.

The distances of two sets, and their ratio to the distance of training graphs, are

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

from discrete_diffusion.domains.graphs.metrics.graph_set import STATISTICS, Floats, GraphSet
from discrete_diffusion.domains.graphs.metrics.validity import is_connected, novelty_shares
from discrete_diffusion.evaluation.sample_scores import Metric

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


_OWN, _FAR = "the samples by themselves", "distances from the reference (0 is best)"
_DISTANCES = {
    **{f"mmd_{s.name}": f"squared MMD of the {s.meaning}" for s in STATISTICS},
    "mmd_average": "mean of those of degrees, clustering and orbits",
}

METRICS = {
    "valid": Metric(_OWN, "share of valid graphs, of the kind of data.kind", share=True),
    "unique": Metric(
        _OWN, "distinct graphs per sample, up to isomorphism", share=True, of_each=False
    ),
    "novel": Metric(_OWN, "share not isomorphic to a graph trained on", share=True),
    "valid_unique_novel": Metric(
        _OWN,
        "share valid, novel and the first of its kind among the samples: V.U.N.",
        share=True,
    ),
    "unique_novel": Metric(
        _OWN, "share novel and the first of its kind among the samples", share=True, of_each=False
    ),
    "connected": Metric(_OWN, "share in one piece", share=True),
    "nodes_per_graph": Metric(_OWN, "mean number of nodes"),
    "edges_per_graph": Metric(_OWN, "mean number of edges"),
    **{name: Metric(_FAR, meaning, digits=5, ratio=2) for name, meaning in _DISTANCES.items()},
    "ratio": Metric(
        _FAR,
        "mean over the five distances of value / that of the graphs trained on (1 is ideal)",
        digits=2,
    ),
    "ratio_rounded": Metric(
        _FAR, "the same, the divisors rounded to four decimals, as some papers do", digits=2
    ),
}
"""All metrics of graphs, in the order of the table."""


def default_kernel(kind: str | None) -> str:
    """``emd`` for the kinds of small graphs, as in the literature, else ``tv``."""
    return "emd" if kind in ("community", "ego") else "tv"


def graph_metrics(
    samples: GraphSet,
    reference: GraphSet,
    *,
    training: GraphSet | None = None,
    kind: str | None = None,
    kernel: str | None = None,
) -> dict[str, float]:
    """Metrics by name: ``METRICS`` but the ratios. ``kernel``: of ``KERNELS``; None is the default
    of the kind."""
    return {
        **own_metrics(samples, training=training, kind=kind),
        **squared_mmds(samples, reference, kernel or default_kernel(kind)),
    }


def own_metrics(
    samples: GraphSet, *, training: GraphSet | None = None, kind: str | None = None
) -> Mapping[str, float]:
    """Metrics that need no reference."""
    return {
        **novelty_shares(samples, training, kind),
        "connected": float(np.mean([is_connected(graph) for graph in samples])),
        "nodes_per_graph": float(np.mean([len(graph.nodes) for graph in samples])),
        "edges_per_graph": float(np.mean([len(graph.edges) for graph in samples])),
    }
