"""Pictures of bubble diagrams: ``plot_diagram``, ``plot_grid``, and ``plot_completions``.

Built on matplotlib's object interface: no pyplot, no global state, any backend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from matplotlib.figure import Figure

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.partial import PartialDiagram
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


@dataclass(frozen=True)
class CompletedRow:
    """A partial diagram and completions of it, with the same room numbers."""

    title: str
    given: PartialDiagram
    completions: Sequence[BubbleDiagram]


def plot_completions(rows: Sequence[CompletedRow], path: str | Path | None = None) -> Figure:
    """Plot a row for each partial diagram, followed by its completions; see ``plot_grid``.

    The partial diagram is placed by its known relations only: a grey bubble is a room of unknown
    type, a dotted line an unknown pair.

    Raises ``ValueError`` without rows, for a row without completions, and for a path that ends in
    anything but ``.png`` or ``.svg``.
    """
    path = checked_path(path)
    if not rows or not all(row.completions for row in rows):
        raise ValueError("no completions to draw: every row needs at least one")
    # place the given diagram and all completions
    plans: list[Plan] = []
    for row in rows:
        plans += [row.given, *row.completions]
    placements = place_all(plans)
    key = key_of(plans, placements, unknown=not all(row.given.is_complete for row in rows))
    # a row of cards for each partial diagram
    columns = 1 + max(len(row.completions) for row in rows)
    sheet = Sheet(len(rows), columns, placements, titled=True, key=key)
    placed = iter(placements)
    for index, row in zip(range(0, len(rows) * columns, columns), rows, strict=True):
        given = sheet.card(index, next(placed), row.title)
        _draw_unknown_pairs(given, row.given)
        draw_on(given, row.given)
        for k, diagram in enumerate(row.completions, start=1):
            draw_on(sheet.card(index + k, next(placed), str(k)), diagram)
    return sheet.finish(path)


def _draw_unknown_pairs(pen: Pen, given: PartialDiagram) -> None:
    listed = {(i, j) for i, j, _ in given.relations}
    pairs = [pair for pair in combinations(range(given.num_rooms), 2) if pair not in listed]
    for line in route_lines(pen.placement, pairs).values():
        pen.line(line, "unknown")
