"""The lines between related bubbles: from rim to rim, bent around bubbles that stand in the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.domains.bubble_diagrams.pictures.placement import Placement
from discrete_diffusion.rooms import NO_EDGE

Array = NDArray[np.float64]

BENDS = (0.0, 0.2, -0.2, 0.4, -0.4, 0.65, -0.65, 0.9, -0.9)
"""Candidate bends: offset of the control point, in lengths of the line."""
CLEARANCE = 0.07
"""How close a line may pass by a bubble before that counts against it."""
NUM_POINTS = 41


@dataclass(frozen=True)
class Connection:
    """One line.

    ``points``: Float[P, 2], from the rim of bubble i to the rim of bubble j.
    ``depth``: how many bubbles lie around the deeper of the two ends.
    ``broken``: whether the placement contradicts the relation.
    """

    points: Array
    depth: int
    broken: bool


def connect(
    placement: Placement, relations: Sequence[tuple[int, int, int]]
) -> tuple[Connection, ...]:
    """A line per relation (i, j, r); none for "no-edge", or of a bubble inside the other.

    Lines are quadratic Bezier curves between the centres, cut at the rims. Each takes the bend
    that stays on the page and passes under the least of other bubbles; straight wins ties.
    """
    broken = set(placement.broken)
    lines = []
    for relation in relations:
        i, j, r = relation
        if r == NO_EDGE or placement.inside[i, j] or placement.inside[j, i]:
            continue
        points = _route(placement, i, j)
        if len(points) > 0:
            depth = int(max(placement.depth[i], placement.depth[j]))
            lines.append(Connection(points, depth, relation in broken))
    return tuple(lines)


def _route(placement: Placement, i: int, j: int) -> Array:
    centres, radii = placement.centres, placement.radii
    start, end = centres[i], centres[j]
    normal = np.array([start[1] - end[1], end[0] - start[0]])
    t = np.linspace(0, 1, NUM_POINTS)[:, None]
    bends = np.array(BENDS)[:, None, None]
    control = (start + end) / 2 + bends * normal
    curves = (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end
    surrounding = placement.inside[i] | placement.inside[j]
    others = ~surrounding & ~placement.inside[:, i] & ~placement.inside[:, j]
    others[[i, j]] = False
    away = np.linalg.norm(curves[:, :, None, :] - centres[others], axis=-1)
    hidden = np.maximum(radii[others] + CLEARANCE - away, 0).sum(axis=(1, 2)) / NUM_POINTS
    off_page = np.maximum(np.abs(curves) - max(placement.extent) / 2, 0).sum(axis=(1, 2))
    cost = hidden * np.linalg.norm(normal) + off_page + 0.05 * np.abs(np.array(BENDS))
    curve = curves[cost.argmin()]
    return _between_rims(curve, radii[i], radii[j])


def _between_rims(curve: Array, start_radius: float, end_radius: float) -> Array:
    """The stretch of a curve outside the discs around its two ends; empty if they meet."""
    from_start = np.linalg.norm(curve - curve[0], axis=1) - start_radius
    from_end = np.linalg.norm(curve - curve[-1], axis=1) - end_radius
    outside = np.flatnonzero((from_start > 0) & (from_end > 0))
    if len(outside) == 0:
        return curve[:0]
    first, last = outside[0], outside[-1]
    rims = [
        _crossing(curve, from_start, first - 1, first),
        _crossing(curve, from_end, last + 1, last),
    ]
    return np.concatenate([rims[:1], curve[first : last + 1], rims[1:]])


def _crossing(curve: Array, level: Array, inner: int, outer: int) -> Array:
    """Where ``level`` crosses 0 between two neighbouring points of the curve."""
    share = level[outer] / (level[outer] - level[inner])
    return curve[outer] + share * (curve[inner] - curve[outer])
