"""How far the rooms, relations and degrees of samples are from those of a reference.

A distance depends on the sizes of both sets; quote them with it, and its floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.metrics.diagram_set import DiagramSet
from discrete_diffusion.domains.bubble_diagrams.metrics.histograms import (
    Floats,
    jensen_shannon,
    total_variation,
)
from discrete_diffusion.rooms import NO_EDGE

MIN_PER_TYPE_PAIR = 5
"""Observations of the reference below which a pair of room types is left out."""

MIN_PER_TYPE = 20
"""Rooms of the reference below which a room type is left out of the degrees."""


@dataclass(frozen=True)
class HistogramDistance:
    """Total variation (0..1) and Jensen-Shannon divergence (nats, 0..log 2) of two histograms."""

    tv: float
    js: float


@dataclass(frozen=True)
class ConditionalDistance:
    """Distances of one histogram per group, averaged over groups.

    ``tv``, ``js``: weighted by how much of the reference lies in each group, the main numbers.
    ``tv_unweighted``, ``js_unweighted``: plain means. ``num_groups``: how many groups counted.
    """

    tv: float
    js: float
    tv_unweighted: float
    js_unweighted: float
    num_groups: int


def node_distance(
    samples: Sequence[BubbleDiagram], reference: Sequence[BubbleDiagram]
) -> HistogramDistance:
    """Between the room types of two sets, 13 bins, rooms of all diagrams pooled."""
    drawn, real = DiagramSet.of(samples), DiagramSet.of(reference)
    return _distance(drawn.room_counts.sum(axis=0), real.room_counts.sum(axis=0))


def relation_distance(
    samples: Sequence[BubbleDiagram], reference: Sequence[BubbleDiagram]
) -> HistogramDistance:
    """Between the relations of two sets, 10 bins, whatever the order of rooms.

    Pairs without a relation do not count. If just one of the sets has no relation at all, the
    distance is the largest possible.
    """
    drawn, real = DiagramSet.of(samples), DiagramSet.of(reference)
    pooled = [s.pair_histogram[:, :, :NO_EDGE].sum(axis=(0, 1)) for s in (drawn, real)]
    return _distance(*pooled)


def conditional_relation_distance(
    samples: Sequence[BubbleDiagram], reference: Sequence[BubbleDiagram]
) -> ConditionalDistance:
    """Between the relations of two sets, 10 bins for every unordered pair of room types.

    Type pairs with at least 5 relations in the reference count; if none has 5, all with one do. A
    type pair without any in the samples is compared as if its relations there were uniform.
    Whether two rooms are related at all is not looked at.
    """
    drawn, real = DiagramSet.of(samples), DiagramSet.of(reference)
    related = [s.pair_histogram[:, :, :NO_EDGE].reshape(-1, NO_EDGE) for s in (drawn, real)]
    return _conditional(*related, minimum=MIN_PER_TYPE_PAIR, absent_is_uniform=True)


def conditional_pair_distance(
    samples: Sequence[BubbleDiagram], reference: Sequence[BubbleDiagram]
) -> ConditionalDistance:
    """``conditional_relation_distance`` with "no-edge" as an eleventh bin, so presence counts too.

    Type pairs that stand in one diagram at least 5 times in the reference count, related or not.
    """
    drawn, real = DiagramSet.of(samples), DiagramSet.of(reference)
    pairs = [s.pair_histogram.reshape(-1, NO_EDGE + 1) for s in (drawn, real)]
    return _conditional(*pairs, minimum=MIN_PER_TYPE_PAIR, absent_is_uniform=True)


def degree_distance(
    samples: Sequence[BubbleDiagram], reference: Sequence[BubbleDiagram]
) -> ConditionalDistance:
    """Between the degrees (relations of a room) of two sets, for every room type.

    Types with at least 20 rooms in the reference count; if none has 20, all that occur do. A type
    that the samples lack is at the largest distance.
    """
    drawn, real = DiagramSet.of(samples), DiagramSet.of(reference)
    size = max(drawn.degree_histogram.shape[1], real.degree_histogram.shape[1])
    degrees = [
        np.pad(s.degree_histogram, ((0, 0), (0, size - s.degree_histogram.shape[1])))
        for s in (drawn, real)
    ]
    return _conditional(*degrees, minimum=MIN_PER_TYPE, absent_is_uniform=False)


def room_count_w1(samples: Sequence[BubbleDiagram], reference: Sequence[BubbleDiagram]) -> float:
    """Wasserstein-1 distance of the room counts, in rooms: sum_n |F(n) - G(n)| of the CDFs."""
    counts = [DiagramSet.of(s).arrays.num_rooms for s in (samples, reference)]
    size = int(max(c.max() for c in counts)) + 1
    p, q = (np.bincount(c, minlength=size) / len(c) for c in counts)
    return float(np.abs(np.cumsum(p - q)).sum())


def _distance(counts: Floats, others: Floats) -> HistogramDistance:
    return HistogramDistance(
        tv=float(total_variation(counts, others)), js=float(jensen_shannon(counts, others))
    )


def _conditional(
    counts: Floats, reference: Floats, *, minimum: int, absent_is_uniform: bool
) -> ConditionalDistance:
    """Distances of the rows of two tables (G, K), over the rows that the reference fills enough."""
    weight = reference.sum(axis=1)
    kept = weight >= minimum
    if not kept.any():
        kept = weight > 0
    if not kept.any():  # nothing to condition on: the sets agree if the samples are empty too
        pooled = _distance(counts.sum(axis=0), reference.sum(axis=0))
        return ConditionalDistance(pooled.tv, pooled.js, pooled.tv, pooled.js, 0)
    counts, reference, weight = counts[kept], reference[kept], weight[kept]
    if absent_is_uniform:
        counts = np.where(counts.any(axis=1, keepdims=True), counts, 1.0)
    tv, js = total_variation(counts, reference), jensen_shannon(counts, reference)
    return ConditionalDistance(
        tv=float(np.average(tv, weights=weight)),
        js=float(np.average(js, weights=weight)),
        tv_unweighted=float(tv.mean()),
        js_unweighted=float(js.mean()),
        num_groups=len(weight),
    )
