"""Routes of lines and positions of labels in a placement."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floor_plans.diagrams.pictures.placement import Placement

Array = NDArray[np.float64]
Pair = tuple[int, int]

BENDS = np.array([0.0, 0.2, -0.2, 0.4, -0.4, 0.65, -0.65, 0.9, -0.9])
"""Candidate bends: offset of the control point, in lengths of the line."""
CLEARANCE = 0.07
"""Distance to a bubble below which a line is penalised."""
NUM_POINTS = 41

LINE_HALO = 0.12
"""Free space kept between a label and a line, in placement units."""
FLATNESS = 2.2
"""Weight of vertical distances against horizontal ones, since labels are wider than high."""


@dataclass(frozen=True)
class Line:
    """A line between two bubbles.

    ``points``: Float[P, 2], from rim to rim. ``depth``: number of bubbles around the deeper end.
    """

    points: Array
    depth: int


def route_lines(placement: Placement, pairs: Iterable[Pair]) -> dict[Pair, Line]:
    """Route a line for each pair of bubbles, except for nested or touching ones.

    Lines are quadratic Bezier curves between the centres, cut at the rims. Each takes the bend that
    stays on the page and is covered least by other bubbles, straight if equal.
    """
    lines = {}
    for i, j in pairs:
        if placement.inside[i, j] or placement.inside[j, i]:
            continue
        points = _route(placement, i, j)
        if len(points) > 0:
            lines[i, j] = Line(points, int(max(placement.depth[i], placement.depth[j])))
    return lines


def _route(placement: Placement, i: int, j: int) -> Array:
    # candidate curves, one for each bend
    centres, radii = placement.centres, placement.radii
    start, end = centres[i], centres[j]
    normal = np.array([start[1] - end[1], end[0] - start[0]])
    t = np.linspace(0, 1, NUM_POINTS)[:, None]
    control = (start + end) / 2 + BENDS[:, None, None] * normal
    curves = (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end
    # cost of a curve: its length under other bubbles, its part off the page, its bend
    surrounding = placement.inside[i] | placement.inside[j]
    others = ~surrounding & ~placement.inside[:, i] & ~placement.inside[:, j]
    others[[i, j]] = False
    away = np.linalg.norm(curves[:, :, None, :] - centres[others], axis=-1)
    hidden = np.maximum(radii[others] + CLEARANCE - away, 0).sum(axis=(1, 2)) / NUM_POINTS
    off_page = np.maximum(np.abs(curves) - max(placement.extent) / 2, 0).sum(axis=(1, 2))
    cost = hidden * np.linalg.norm(normal) + off_page + 0.05 * np.abs(BENDS)
    return _cut_at_rims(curves[cost.argmin()], radii[i], radii[j])


def _cut_at_rims(curve: Array, start_radius: float, end_radius: float) -> Array:
    """Cut a curve to its part outside the discs around its ends; empty if these meet."""
    from_start = np.linalg.norm(curve - curve[0], axis=1) - start_radius
    from_end = np.linalg.norm(curve - curve[-1], axis=1) - end_radius
    outside = np.flatnonzero((from_start > 0) & (from_end > 0))
    if len(outside) == 0:
        return curve[:0]

    def crossing(level: Array, inner: int, outer: int) -> Array:
        """Point between two neighbouring points of the curve at which ``level`` is 0."""
        share = level[outer] / (level[outer] - level[inner])
        return curve[outer] + share * (curve[inner] - curve[outer])

    first, last = outside[0], outside[-1]
    rims = crossing(from_start, first - 1, first), crossing(from_end, last + 1, last)
    return np.stack([rims[0], *curve[first : last + 1], rims[1]])


def label_spot(placement: Placement, lines: Collection[Line], room: int) -> tuple[Array, float]:
    """Centre Float[2] and largest width of the label of a bubble, in placement units.

    The centre is that of the bubble if no other bubbles cover it; else the point of a polar grid
    with the most space to the rim, these bubbles and their lines.
    """
    centre, radius = placement.centres[room], float(placement.radii[room])
    distance = np.linalg.norm(placement.centres - centre, axis=1)
    covers = (distance < placement.radii + radius) & ~placement.inside[room]
    covers[room] = False
    # nothing covers the bubble
    if not covers.any():
        return centre, 1.7 * radius
    # obstacles: covering bubbles, and lines above this bubble
    over = [line.points for line in lines if line.depth > placement.depth[room]]
    obstacles = np.concatenate([placement.centres[covers], *over])
    sizes = np.full(len(obstacles), LINE_HALO)
    sizes[: covers.sum()] = placement.radii[covers]

    # free space of each grid point: to the obstacles, and to the rim
    angles = np.linspace(0, 2 * np.pi, 48, endpoint=False) - np.pi / 2
    reach = np.linspace(0.0, 0.9, 16)[:, None, None] * radius
    spots = (reach * np.stack([np.cos(angles), np.sin(angles)], axis=-1)).reshape(-1, 2)
    towards = (centre + spots)[:, None, :] - obstacles
    length = np.linalg.norm(towards, axis=-1).clip(min=1e-9)
    free = np.linalg.norm(towards * np.array([1.0, FLATNESS]), axis=-1) * (1 - sizes / length)
    # width of the bubble at the height of the label
    chord = np.sqrt(np.maximum(radius**2 - (np.abs(spots[:, 1]) + 0.12) ** 2, 0))
    half_width = np.minimum(free.min(axis=1), chord - np.abs(spots[:, 0]))
    best = int(half_width.argmax())
    return centre + spots[best], float(max(1.8 * half_width[best], 0.5 * radius))
