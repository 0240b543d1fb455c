"""The dimensions beside a floor plan: its width and height, and those of the rooms along a side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.collections import LineCollection

from discrete_diffusion.viz import MUTED_TEXT
from floor_plans.diagrams.pictures.pen import LABEL, POINTS_PER_INCH, text_width
from floor_plans.drawings.pictures.plan_pen import SMALL, PlanPen
from floor_plans.solver.shapes import dimension_lines, extent

_TICK = 0.035
"""Inches; half a tick."""
_FROM_PLAN, _FROM_LINE = 0.22, 0.26
"""Inches from a plan to its first line of dimensions, and from one line to the next."""


def plot_dimensions(pen: PlanPen, *, chained: bool) -> None:
    """Width and height in metres, between the middles of walls: above and to the left, or on the
    other side where that is the front door's. ``chained``: those of the rooms on that side too."""
    left, top, right, bottom = extent(pen.plan)
    for line in dimension_lines(pen.shapes, chained=chained):
        axis = line.axis
        away = (_FROM_PLAN + line.number * _FROM_LINE) * (1 if line.far else -1)
        at = pen.page([(right, bottom) if line.far else (left, top)])[0][1 - axis] + away
        origin = pen.page([(left, top)])[0][axis] - (left, top)[axis] * pen.per_metre
        marks = [origin + stop * pen.per_metre for stop in line.stops]
        _draw_line(pen, axis, at, marks, line.stops)


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
