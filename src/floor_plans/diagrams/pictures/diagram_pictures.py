"""Pictures of bubble diagrams: ``plot_diagram`` for one, ``plot_grid`` for many.

Built on matplotlib's object interface: no pyplot, no global state, any backend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from floor_plans.diagrams.pictures.constraints import Plan
from floor_plans.diagrams.pictures.palette import Knowledge
from floor_plans.diagrams.pictures.pen import Pen
from floor_plans.diagrams.pictures.placement import Placement, place_all
from floor_plans.diagrams.pictures.routing import label_spot, route_lines
from floor_plans.diagrams.pictures.sheet import (
    Entry,
    Sheet,
    check_positive,
    checked_path,
    key_entries,
    svg_of,
)
from floor_plans.diagrams.rooms import NO_EDGE
from floor_plans.diagrams.vocabulary import ADJACENT

MAX_DRAWN = 36
"""Most diagrams of a list that are plotted."""


def plot_diagram(diagram: Plan, path: str | Path | None = None) -> Figure:
    """Plot one diagram without a legend; see ``plot_grid``."""
    return plot_grid([diagram], path, legend=False, cell=5.0)


def plot_grid(
    diagrams: Sequence[Plan],
    path: str | Path | None = None,
    *,
    columns: int | None = None,
    legend: bool = True,
    cell: float = 2.1,
    dpi: float = 200.0,
) -> Figure:
    """Plot diagrams in a grid, row by row; write the figure to ``path`` if given.

    Bubbles are rooms, coloured and sized by type; lines are listed relations; a bubble in a bubble
    is a room inside another. Directions on the page are those of the relations. A dashed red line
    is a relation that the picture violates because it contradicts others.

    ``columns``: number of columns, by default as square as possible. ``legend``: add a legend of
    colours and room names at the bottom. ``cell``: side of a cell in inches. ``dpi``: pixels per
    inch of a ``.png``.

    Raises ``ValueError`` without diagrams, if ``columns``, ``cell`` or ``dpi`` is not
    positive, or if ``path`` ends in anything but ``.png`` or ``.svg``.
    """
    # check arguments before the slow placement
    path = checked_path(path)
    check_positive(columns=columns, cell=cell, dpi=dpi)
    if not diagrams:
        raise ValueError("no diagrams to draw: a grid needs at least one")
    # place all diagrams, then draw them at a common scale
    rows, columns = grid_shape(len(diagrams), columns)
    placements = place_all(diagrams)
    key = key_of(diagrams, placements) if legend else ()
    sheet = Sheet(rows, columns, placements, cell=cell, dpi=dpi, key=key)
    for index, (diagram, placement) in enumerate(zip(diagrams, placements, strict=True)):
        draw_on(sheet.card(index, placement), diagram)
    return sheet.finish(path)


def svg_of_grid(diagrams: Sequence[Plan], *, legend: bool = True, cell: float = 2.1) -> str:
    """SVG text of ``plot_grid``, for notebooks."""
    return svg_of(plot_grid(diagrams, legend=legend, cell=cell))


def grid_shape(count: int, columns: int | None = None, *, aspect: float = 1.0) -> tuple[int, int]:
    """Rows and columns for ``count`` cards that are ``aspect`` times as wide as high.

    Without ``columns`` the page is as square as possible.
    """
    columns = min(columns or math.ceil(math.sqrt(count / aspect)), count)
    return math.ceil(count / columns), columns


def key_of(
    plans: Sequence[Plan], placements: Sequence[Placement], *, unknown: bool = False
) -> tuple[Entry, ...]:
    """Entries of the legend; ``unknown``: include unknown rooms and relations."""
    broken = "Contradicts the others" if any(p.broken for p in placements) else ""
    return key_entries(plans, unknown=unknown, broken=broken)


def draw_on(pen: Pen, plan: Plan) -> None:
    """Draw the lines of a diagram, then its bubbles, both from the outermost inwards."""
    placement, listed = pen.placement, [t for t in plan.relations if t[2] != NO_EDGE]
    # lines below bubbles
    lines = route_lines(placement, [(i, j) for i, j, _ in listed])
    for i, j, r in listed:
        if (i, j) in lines:
            known: Knowledge = "wall" if r == ADJACENT else "known"
            pen.line(lines[i, j], "broken" if (i, j, r) in placement.broken else known)
    # bubbles with labels
    for room, code in enumerate(plan.rooms):
        pen.room(room, code, *label_spot(placement, lines.values(), room))
