"""Every number of a set of graphs beside a reference and the graphs trained on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from discrete_diffusion.domains.graphs.metrics.distances import squared_mmds
from discrete_diffusion.domains.graphs.metrics.graph_set import GraphSet
from discrete_diffusion.domains.graphs.metrics.statistics import STATISTICS
from discrete_diffusion.domains.graphs.metrics.validity import is_connected, novelty_shares

DISTANCES = {
    **{f"mmd_{s.name}": f"squared MMD of the {s.meaning}" for s in STATISTICS},
    "mmd_average": "mean of those of degrees, clustering and orbits",
}

MEANINGS = {
    "valid": "share of valid graphs, of the kind of data.kind",
    "unique": "distinct graphs per sample, up to isomorphism",
    "novel": "share not isomorphic to a graph trained on",
    "valid_unique_novel": "share valid, novel and the first of its kind among the samples: V.U.N.",
    "unique_novel": "share novel and the first of its kind among the samples",
    "connected": "share in one piece",
    "nodes_per_graph": "mean number of nodes",
    "edges_per_graph": "mean number of edges",
    **DISTANCES,
    "ratio": "mean over the five distances of value / that of the graphs trained on (1 is ideal)",
    "ratio_rounded": "the same, the divisors rounded to four decimals, as some papers do",
}

SHARES = ("valid", "unique", "novel", "valid_unique_novel", "unique_novel", "connected")
"""Metrics that are shares of all samples."""

OF_SAMPLES = ("valid", "novel", "valid_unique_novel", "connected")
"""Those that have Wilson's interval: uniqueness alone is no property of a sample."""


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
    """Metrics by name: ``MEANINGS`` but the ratios. ``kernel``: of ``KERNELS``; None is the default
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
