"""Distances of the rooms, relations, degrees and graphs of samples from those of a reference.

Every function returns the metrics of which it says the names. ``_tv`` is the total variation (0..1)
of two histograms, ``_js`` their Jensen-Shannon divergence (nats, 0..log 2). Where there is one
histogram per group, those are means over groups, weighted by how much of the reference lies in
each; ``_unweighted`` ends the plain means. A distance depends on the sizes of both sets; quote them
with it, and its floor.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.metrics.diagram_set import DiagramSet, Floats
from floor_plans.diagrams.metrics.mmd import squared_mmd

Diagrams = Sequence[BubbleDiagram]

MIN_PER_TYPE_PAIR = 5
"""Observations of the reference below which a pair of room types is left out."""

MIN_PER_TYPE = 20
"""Rooms of the reference below which a room type is left out of the degrees."""


def total_variation(counts: Floats, others: Floats) -> Floats:
    """1/2 sum_k |p_k - q_k| of histograms of counts (..., K): Float[...] in 0..1.

    An empty histogram is at distance 0 from an empty one and 1 from any other.
    """
    p, q, both, one = _normalised(counts, others)
    return np.where(both, np.abs(p - q).sum(axis=-1) / 2, one)


def jensen_shannon(counts: Floats, others: Floats) -> Floats:
    """1/2 KL(p || m) + 1/2 KL(q || m) in nats with m = (p + q) / 2: Float[...] in 0..log 2.

    Histograms of counts (..., K). An empty one is at distance 0 from an empty one and log 2 from
    any other.
    """
    p, q, both, one = _normalised(counts, others)
    middle = (p + q) / 2
    divergence = np.zeros(both.shape)
    for part in (p, q):
        # A subnormal m can round to 0 beside a positive part; such a bin weighs nothing.
        ratio = np.divide(part, middle, out=np.ones_like(part), where=(part > 0) & (middle > 0))
        divergence = divergence + (part * np.log(ratio)).sum(axis=-1) / 2
    return np.where(both, np.maximum(divergence, 0.0), one * np.log(2.0))


def _normalised(counts: Floats, others: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """The two histograms as shares, where both hold something, and 1.0 where just one does."""
    p, q = (np.asarray(c, dtype=np.float64) for c in (counts, others))
    p_total, q_total = p.sum(axis=-1, keepdims=True), q.sum(axis=-1, keepdims=True)
    p_held, q_held = p_total[..., 0] > 0, q_total[..., 0] > 0
    p, q = p / np.where(p_total > 0, p_total, 1.0), q / np.where(q_total > 0, q_total, 1.0)
    return p, q, p_held & q_held, (p_held ^ q_held).astype(np.float64)


DIVERGENCES = {"tv": total_variation, "js": jensen_shannon}


def node_distance(samples: Diagrams, reference: Diagrams) -> dict[str, float]:
    """``node_tv``, ``node_js``: of the room types, rooms of all diagrams pooled."""
    rooms = [DiagramSet.of(s).room_counts.sum(axis=0) for s in (samples, reference)]
    return {f"node_{name}": float(of(*rooms)) for name, of in DIVERGENCES.items()}


def relation_distance(samples: Diagrams, reference: Diagrams) -> dict[str, float]:
    """``relation_tv``, ``relation_js``: of the relations, whatever the order of rooms.

    Pairs without a relation do not count. If just one of the sets has no relation at all, the
    distance is the largest possible.
    """
    pooled = [
        DiagramSet.of(s).pair_histogram[:, :, :-1].sum(axis=(0, 1)) for s in (samples, reference)
    ]
    return {f"relation_{name}": float(of(*pooled)) for name, of in DIVERGENCES.items()}


def conditional_relation_distance(samples: Diagrams, reference: Diagrams) -> dict[str, float]:
    """``conditional_relation_tv``, ``_js``: of the relations, for every unordered pair of room
    types.

    Type pairs with at least 5 relations in the reference count; if none has 5, all with one do. A
    type pair without any in the samples is compared as if its relations there were uniform.
    Whether two rooms are related at all is not looked at.
    """
    histograms = [DiagramSet.of(s).pair_histogram for s in (samples, reference)]
    tables = [h[:, :, :-1].reshape(-1, h.shape[2] - 1) for h in histograms]
    return _conditional("conditional_relation", *tables, minimum=MIN_PER_TYPE_PAIR, fill=1.0)


def conditional_pair_distance(samples: Diagrams, reference: Diagrams) -> dict[str, float]:
    """``conditional_pair_tv``, ``_js``: ``conditional_relation_distance`` with "no-edge" as one
    more bin, so presence counts too.

    Type pairs that stand in one diagram at least 5 times in the reference count, related or not.
    """
    histograms = [DiagramSet.of(s).pair_histogram for s in (samples, reference)]
    tables = [h.reshape(-1, h.shape[2]) for h in histograms]
    return _conditional("conditional_pair", *tables, minimum=MIN_PER_TYPE_PAIR, fill=1.0)


def degree_distance(samples: Diagrams, reference: Diagrams) -> dict[str, float]:
    """``degree_tv``, ``_js``: of the degrees (relations of a room), for every room type.

    Types with at least 20 rooms in the reference count; if none has 20, all that occur do. A type
    that the samples lack is at the largest distance.
    """
    tables = [DiagramSet.of(s).degree_histogram for s in (samples, reference)]
    size = max(table.shape[1] for table in tables)
    tables = [np.pad(table, ((0, 0), (0, size - table.shape[1]))) for table in tables]
    return _conditional("degree", *tables, minimum=MIN_PER_TYPE)


def room_count_w1(samples: Diagrams, reference: Diagrams) -> float:
    """Wasserstein-1 distance of the room counts, in rooms: sum_n |F(n) - G(n)| of the CDFs."""
    counts = [DiagramSet.of(s).num_rooms for s in (samples, reference)]
    size = int(max(c.max() for c in counts)) + 1
    p, q = (np.bincount(c, minlength=size) / len(c) for c in counts)
    return float(np.abs(np.cumsum(p - q)).sum())


def graph_mmd(samples: Diagrams, reference: Diagrams) -> dict[str, float]:
    """``mmd_degree``, ``mmd_clustering``, ``mmd_spectrum``: MMD^2 of the graph descriptors of
    ``DiagramSet.kernel_points``, unbiased and clipped at 0, see ``squared_mmd``.

    Room types and kinds of relation are left out; only who is related to whom counts.
    """
    drawn, real = (DiagramSet.of(s).kernel_points for s in (samples, reference))
    return {f"mmd_{name}": squared_mmd(drawn[name], real[name]) for name in drawn}


def _conditional(
    prefix: str, counts: Floats, reference: Floats, *, minimum: int, fill: float = 0.0
) -> dict[str, float]:
    """Distances of the rows of two tables (G, K), over the rows that the reference fills enough.

    ``fill``: what stands in all bins of a row of ``counts`` that is empty.
    """
    weight = reference.sum(axis=1)
    kept = weight >= minimum
    if not kept.any():
        kept = weight > 0
    if kept.any():
        counts, reference, weight = counts[kept], reference[kept], weight[kept]
        counts = np.where(counts.any(axis=1, keepdims=True), counts, fill)
    else:  # nothing to condition on: the sets agree if the samples are empty too
        counts, reference = counts.sum(axis=0, keepdims=True), reference.sum(axis=0, keepdims=True)
        weight = np.ones(1)
    found = {}
    for name, divergence in DIVERGENCES.items():
        rows = divergence(counts, reference)
        found[f"{prefix}_{name}"] = float(np.average(rows, weights=weight))
        found[f"{prefix}_{name}_unweighted"] = float(rows.mean())
    return found
