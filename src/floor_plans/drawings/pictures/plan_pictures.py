"""Pictures of dimensioned plans: ``plot_plan`` for one, ``plot_plans`` for a sheet.

Built on matplotlib's object interface: no pyplot, no global state, any backend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from discrete_diffusion.runtime import install_command

try:
    import shapely  # noqa: F401  (what is imported below needs it)
except ImportError as error:
    raise ImportError(f"plans are drawn with shapely: {install_command('plans')}") from error
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle

from floor_plans.diagrams.pictures import palette
from floor_plans.diagrams.pictures.diagram_pictures import draw_on, grid_shape
from floor_plans.diagrams.pictures.pen import CAPTION, POINTS_PER_INCH, text_width
from floor_plans.diagrams.pictures.placement import place_all
from floor_plans.diagrams.pictures.sheet import MARGIN, Sheet, check_positive, checked_path
from floor_plans.drawings.pictures.dimensions import plot_dimensions
from floor_plans.drawings.pictures.plan_pen import FRONT_DOOR, SMALL, WALL, PlanPen
from floor_plans.solver.shapes import OUTER_WALL, extent

if TYPE_CHECKING:
    from floor_plans.plans.floor_plan import FloorPlan

SCALES = (50, 75, 100, 125, 150, 200, 250, 300, 400, 500, 750, 1000, 1500, 2000, 2500, 5000)
"""Metres of a plan per metre of paper: those of an architect's rule."""

_PADDING, _CHAIN = 0.95, 0.5
"""Inches of a card that a plan leaves to dimensions, on two sides together, and that those of the
rooms take beside."""
_LEAST_CELL = 3.2
_FOOTER = 0.34
_METRES_PER_INCH = 0.0254
_SPECK = 0.2
"""Square metres that are not worth a word."""


def plot_plan(
    plan: FloorPlan, path: str | Path | None = None, *, scale: int | None = None
) -> Figure:
    """One plan as a picture, with the dimensions of the rooms on two sides; see ``plot_plans``."""
    path = checked_path(path)
    check_positive(scale=scale)
    return _draw([plan], scale, _SheetStyle(cell=7.5, chained=True)).finish(path)


def plot_plans(
    plans: Sequence[FloorPlan | None],
    path: str | Path | None = None,
    *,
    columns: int | None = None,
    beside: bool = True,
    titles: Sequence[str] = (),
    scale: int | None = None,
    cell: float = 4.6,
    dpi: float = 200.0,
) -> Figure:
    """Many plans on one sheet, row by row, all to one scale; written to ``path`` if given.

    Walls are plotted to scale, the thick ones against the outside, with doors and their swing; a
    triangle points into the front door. Every room has its name and area; where there is no space
    for both, the line below the plan says the area of the room, or of its number. Dimensions are in
    metres, between the middles of walls. Hatched is what lies inside the outline and belongs to no
    room.

    None in the place of a plan leaves its card empty.

    ``columns``: plans per row, by default so that the page is as square as possible. ``beside``:
    show the bubble diagram to the left of each plan. ``titles``: a line above each plan.
    ``scale``: 200 stands for 1 : 200, on paper; by default the largest of ``SCALES`` by which every
    plan fits a card of ``cell`` inches. ``dpi``: pixels per inch of a ``.png``.

    Raises ``ValueError`` if there is no plan, if a number is not positive, if there are titles, but
    not one for each plan, or if ``path`` ends in anything but ``.png`` or ``.svg``; ``ImportError``
    without shapely.
    """
    path = checked_path(path)
    check_positive(columns=columns, scale=scale, cell=cell, dpi=dpi)
    if not any(plans):
        raise ValueError("no plans to draw: a sheet needs at least one")
    if titles and len(titles) != len(plans):
        raise ValueError(f"{len(titles)} titles for {len(plans)} plans: give one for each, or none")
    style = _SheetStyle(cell=cell, columns=columns, beside=beside, titles=titles, dpi=dpi)
    return _draw(plans, scale, style).finish(path)


@dataclass(frozen=True, kw_only=True)
class _SheetStyle:
    """How plans stand on a sheet; as for ``plot_plans``. ``chained``: with the dimensions of the
    rooms on two sides."""

    cell: float
    columns: int | None = None
    beside: bool = False
    titles: Sequence[str] = ()
    dpi: float = 200.0
    chained: bool = False


def _draw(cards: Sequence[FloorPlan | None], scale: int | None, style: _SheetStyle) -> Sheet:
    beside, titles = style.beside, style.titles
    plans = [plan for plan in cards if plan is not None]
    padding = _PADDING + (_CHAIN if style.chained else 0.0)
    scale = scale or _largest_scale(plans, style.cell - padding)
    per_metre = 1 / (scale * _METRES_PER_INCH)
    cell = max(max(map(_longest, plans)) * per_metre + padding, _LEAST_CELL)
    shown = 2 if beside else 1
    rows, columns = grid_shape(len(cards), style.columns, aspect=shown)
    placements = place_all([plan.diagram for plan in plans]) if beside else []
    placed = iter(placements)
    sheet = Sheet(
        rows,
        shown * columns,
        placements,
        cell=cell,
        dpi=style.dpi,
        titled=bool(titles),
        footer=_FOOTER,
    )
    pens = []
    for index, plan in enumerate(cards):
        if plan is None:
            continue
        title = titles[index] if titles else ""
        if beside:
            draw_on(sheet.card(shown * index, next(placed), title), plan.diagram)
            title = ""
        corner = sheet.empty_card(shown * (index + 1) - 1, title)
        pens.append(PlanPen(sheet.axes, *corner, cell, plan, per_metre, f"plan-{index}"))
        pens[-1].draw()
        plot_dimensions(pens[-1], chained=style.chained)
    front = any(pen.shapes.arrows for pen in pens)
    dead = any(pen.shapes.dead.area > _SPECK for pen in pens)
    _draw_footer(sheet, scale, per_metre, front=front, dead=dead)
    return sheet


def _longest(plan: FloorPlan) -> float:
    """The longer side of what is plotted of a plan, in metres."""
    left, top, right, bottom = extent(plan)
    return max(right - left, bottom - top) + OUTER_WALL


def _largest_scale(plans: Sequence[FloorPlan], inches: float) -> int:
    metres = max(map(_longest, plans))
    fitting = [scale for scale in SCALES if metres <= inches * scale * _METRES_PER_INCH]
    return fitting[0] if fitting else SCALES[-1]


def _draw_footer(sheet: Sheet, scale: int, per_metre: float, *, front: bool, dead: bool) -> None:
    """Below the cards: a scale bar, the scale, and what the marks for a front door and for dead
    area mean."""
    axes, y = sheet.axes, sheet.bottom + 0.03
    metres = min((1, 2, 5, 10, 20, 50), key=lambda m: abs(math.log(m * per_metre / 1.2)))
    steps = metres if metres <= 5 else 5
    x, length = MARGIN + 0.05, metres * per_metre / steps
    for k in range(steps):
        colour = WALL if k % 2 == 0 else "white"
        bar = Rectangle((x + k * length, y), length, 0.06, facecolor=colour)
        bar.set(edgecolor=WALL, linewidth=0.6)
        axes.add_artist(bar)
    x += steps * length
    marks: list[tuple[str, str]] = [(f"{metres} m", ""), (f"1 : {scale}", "")]
    marks += [("Front door", "front")] * front + [("Dead area", "dead")] * dead
    for text, mark in marks:
        x += 0.1 if text.endswith(" m") else 0.3
        if mark == "front":
            corners = [(x - 0.06, y + 0.09), (x + 0.06, y + 0.09), (x, y - 0.03)]
            axes.add_artist(Polygon(corners, facecolor=FRONT_DOOR))
        elif mark:
            lines = [[(x - 0.17 + d, y + 0.09), (x - 0.05 + d, y - 0.03)] for d in (0, 0.06, 0.12)]
            axes.add_collection(
                LineCollection(lines, colors=palette.HINT_LINE, linewidths=0.5), autolim=False
            )
        x += 0.12 if mark else 0.0
        axes.text(x, y + 0.065, text, fontsize=SMALL, **CAPTION)
        x += text_width(text) * SMALL / POINTS_PER_INCH
