"""Every number of a set of graphs beside a reference and the graphs trained on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from discrete_diffusion.domains.graphs.metrics.distances import squared_mmds
from discrete_diffusion.domains.graphs.metrics.graph_set import GraphSet
from discrete_diffusion.domains.graphs.metrics.statistics import STATISTICS
from discrete_diffusion.domains.graphs.metrics.validity import is_connected, novelty_shares
from discrete_diffusion.evaluation.sample_scores import Metric

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
