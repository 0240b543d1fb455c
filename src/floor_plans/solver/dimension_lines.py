"""``DimensionLine``: what the lines of dimensions beside a drawn plan state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.solver.shapes import PlanShapes, extent

_LEAST_STEP = 0.3
"""Metres between two walls whose distance is stated."""


@dataclass(frozen=True)
class DimensionLine:
    """The ``number``-th line beside a plan, from 0 on, that runs along ``axis`` (0: x): places in
    metres whose distances it states. ``far``: below or to the right, not above or to the left."""

    axis: int
    far: bool
    number: int
    stops: tuple[float, ...]


def dimension_lines(shapes: PlanShapes, *, chained: bool) -> Iterator[DimensionLine]:
    """Width and height between the middles of walls: above and to the left, or on the other side
    where that is the front door's. ``chained``: before them the rooms on that side."""
    left, top, right, bottom = extent(shapes.plan)
    tips = [corner for arrow in shapes.arrows for corner in arrow]
    for axis, first in ((0, top), (1, left)):
        far = any(corner[1 - axis] < first for corner in tips)
        chain = wall_chain(shapes.plan, axis, far=far) if chained else []
        ends = [(left, right), (top, bottom)][axis]
        lines = [chain] if len(chain) > 2 else []
        for number, stops in enumerate([*lines, ends]):
            yield DimensionLine(axis, far, number, tuple(stops))


def wall_chain(plan: FloorPlan, axis: int, *, far: bool) -> list[float]:
    """Places where the rooms along a side of a plan begin and end on ``axis`` (0: x), from its
    first to its last wall. The side is the top or left one; ``far``: the bottom or right one."""
    boxes = [box.bounds for box in plan.boxes]
    other, sign = 1 - axis, -1 if far else 1
    edges = sorted({round(box[axis + 2 * k], 6) for box in boxes for k in (0, 1)})
    seen: list[tuple[float, int | None]] = []
    for low, high in pairwise(edges):
        over = [
            (sign * box[other + 2 * far], box[axis + 2] - box[axis], room)
            for room, box in enumerate(boxes)
            if box[axis] < (low + high) / 2 < box[axis + 2]
        ]
        seen.append((low, min(over)[-1] if over else None))
    found = [edges[0]]
    for (_, before), (at, room) in pairwise(seen):
        if room != before and at - found[-1] >= _LEAST_STEP and edges[-1] - at >= _LEAST_STEP:
            found.append(at)
    return [*found, edges[-1]]
