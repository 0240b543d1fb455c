"""The dimensions beside a floor plan: its width and height, and those of the rooms along a side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from matplotlib.collections import LineCollection

from discrete_diffusion.domains.bubble_diagrams.pictures.pen import (
    LABEL,
    POINTS_PER_INCH,
    text_width,
)
from discrete_diffusion.domains.bubble_diagrams.plans.pictures.plan_pen import SMALL, PlanPen
from discrete_diffusion.domains.bubble_diagrams.plans.shapes import extent
from discrete_diffusion.viz.chart_style import MUTED_TEXT

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams.plans.floor_plan import FloorPlan

_TICK = 0.035
"""Inches; half a tick."""
_FROM_PLAN, _FROM_LINE = 0.22, 0.26
"""Inches from a plan to its first line of dimensions, and from one line to the next."""
_LEAST_STEP = 0.3
"""Metres between two walls whose distance is stated."""


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


def plot_dimensions(pen: PlanPen, *, chained: bool) -> None:
    """Width and height in metres, between the middles of walls: above and to the left, or on the
    other side where that is the front door's. ``chained``: those of the rooms on that side too."""
    left, top, right, bottom = extent(pen.plan)
    tips = [corner for arrow in pen.shapes.arrows for corner in arrow]
    for axis, first in ((0, top), (1, left)):
        far = any(corner[1 - axis] < first for corner in tips)
        chain = wall_chain(pen.plan, axis, far=far) if chained else []
        ends = [(left, right), (top, bottom)][axis]
        lines = [chain] if len(chain) > 2 else []
        for number, stops in enumerate([*lines, ends]):
            away = (_FROM_PLAN + number * _FROM_LINE) * (1 if far else -1)
            corner = pen.page([(left, top)])[0][axis], pen.page([(right, bottom)])[0]
            at = pen.page([(right, bottom) if far else (left, top)])[0][1 - axis] + away
            origin = corner[0] - ends[0] * pen.per_metre
            _draw_line(pen, axis, at, [origin + stop * pen.per_metre for stop in stops], stops)


def _draw_line(
    pen: PlanPen, axis: int, at: float, marks: Sequence[float], metres: Sequence[float]
) -> None:
    """A line with a tick at each mark and the metres between two of them."""
    lines = [[(marks[0], at), (marks[-1], at)]]
    for mark in marks:
        lines.append([(mark - _TICK, at + _TICK), (mark + _TICK, at - _TICK)])
        lines.append([(mark, at - 2 * _TICK), (mark, at + 2 * _TICK)])
    if axis == 1:
        lines = [[(y, x) for x, y in line] for line in lines]
    pen.axes.add_collection(
        LineCollection(lines, colors=MUTED_TEXT, linewidths=0.6, zorder=3), autolim=False
    )
    style = LABEL | {"color": MUTED_TEXT, "rotation": 90 * axis, "rotation_mode": "anchor"}
    for (first, low), (last, high) in pairwise(zip(marks, metres, strict=True)):
        text, middle = f"{high - low:.2f}", (first + last) / 2
        points = min(SMALL, 0.92 * (last - first) * POINTS_PER_INCH / text_width(text))
        x, y = (middle, at - 0.08) if axis == 0 else (at - 0.08, middle)
        pen.axes.text(x, y, text, fontsize=points, zorder=3, **style)
