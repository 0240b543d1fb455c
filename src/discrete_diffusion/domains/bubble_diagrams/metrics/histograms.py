"""Histograms pooled over the diagrams of a set, and two distances between histograms.

Relations are counted whatever the order of rooms: each is read from the room with the lower type
code (read from the other end, code r is 9 - r), and between equal types it counts half as r and
half as 9 - r. Axes: ``G`` groups, ``K`` bins.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.domains.bubble_diagrams.metrics.diagram_arrays import DiagramArrays, Ints
from discrete_diffusion.rooms import NO_EDGE, ROOM_TYPES

Floats = NDArray[np.float64]

NUM_TYPES = len(ROOM_TYPES)


def pair_histogram(arrays: DiagramArrays, room_counts: Ints) -> Floats:
    """Float[13, 13, 11]: what stands between two rooms, per unordered pair of their types.

    Entry (a, b, r) with a <= b counts the pairs of a room of type a and one of type b in one
    diagram whose relation is r; "no-edge" (10) counts those without one. Entries with a > b are 0.
    ``room_counts``: Int[M, 13], rooms of each type per diagram.
    """
    source, target = arrays.source_type, arrays.target_type
    flipped = NO_EDGE - 1 - arrays.relation
    read = np.where(source <= target, arrays.relation, flipped)
    read_back = np.where(source < target, arrays.relation, flipped)
    low, high = np.minimum(source, target), np.maximum(source, target)
    histogram = np.zeros((NUM_TYPES, NUM_TYPES, NO_EDGE + 1))
    for relation in (read, read_back):
        cell = (low * NUM_TYPES + high) * (NO_EDGE + 1) + relation
        histogram += np.bincount(cell, minlength=histogram.size).reshape(histogram.shape) / 2
    together = room_counts.T @ room_counts
    num_pairs = np.triu(together, k=1)
    np.fill_diagonal(num_pairs, (np.diagonal(together) - room_counts.sum(axis=0)) // 2)
    histogram[:, :, NO_EDGE] = num_pairs - histogram.sum(axis=2)
    return histogram


def degree_histogram(arrays: DiagramArrays) -> Floats:
    """Float[13, n]: rooms of each type with degree 0, 1, ..., n - 1 (n the largest room count)."""
    size = int(arrays.num_rooms.max())
    counts = np.bincount(arrays.rooms * size + arrays.degree, minlength=NUM_TYPES * size)
    return counts.reshape(NUM_TYPES, size).astype(np.float64)


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
