"""Pictures of bubble diagrams: ``draw_diagram`` for one, ``draw_grid`` for many, and
``draw_completions`` for partial ones beside what completes them.

Built on matplotlib's object interface: no pyplot, no global state, any backend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from discrete_diffusion.domains.bubble_diagrams.pictures.constraints import Plan
from discrete_diffusion.domains.bubble_diagrams.pictures.palette import Knowledge
from discrete_diffusion.domains.bubble_diagrams.pictures.pen import Pen
from discrete_diffusion.domains.bubble_diagrams.pictures.placement import Placement, place_all
from discrete_diffusion.domains.bubble_diagrams.pictures.routing import label_spot, route_lines
from discrete_diffusion.domains.bubble_diagrams.pictures.sheet import (
    Entry,
    Sheet,
    check_positive,
    checked_path,
    key_entries,
)
from discrete_diffusion.domains.bubble_diagrams.rooms import NO_EDGE
from discrete_diffusion.domains.bubble_diagrams.vocabulary import ADJACENT

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
    from discrete_diffusion.domains.bubble_diagrams.partial import PartialDiagram

MAX_DRAWN = 36
"""Samples, or diagrams of a list, that are drawn: the first ones."""


def draw_diagram(diagram: BubbleDiagram, path: str | Path | None = None) -> Figure:
    """One diagram as a picture without a legend; see ``draw_grid``."""
    return draw_grid([diagram], path, legend=False, cell=5.0)


def draw_grid(
    diagrams: Sequence[BubbleDiagram],
    path: str | Path | None = None,
    *,
    columns: int | None = None,
    legend: bool = True,
    cell: float = 2.1,
    dpi: float = 200.0,
) -> Figure:
    """Many diagrams side by side, row by row; written to ``path`` if given.

    Bubbles are rooms, coloured and sized by type; lines are listed relations; a bubble in a bubble
    is a room inside another. Left and right, above and below on the page are those of the
    relations. A dashed red line is a relation that this picture gives up because it contradicts the
    others.

    ``columns``: per row, by default as square as possible. ``legend``: colours with the full room
    names, once, at the bottom. ``cell``: side of a cell in inches; ``dpi``: pixels per inch of a
    ``.png``.

    Raises ``ValueError`` if there is no diagram, if ``columns``, ``cell`` or ``dpi`` is not
    positive, or if ``path`` ends in anything but ``.png`` or ``.svg``.
    """
    path = checked_path(path)
    check_positive(columns=columns, cell=cell, dpi=dpi)
    if not diagrams:
        raise ValueError("no diagrams to draw: a grid needs at least one")
    rows, columns = grid_shape(len(diagrams), columns)
    placements = place_all(diagrams)
    key = _key(diagrams, placements) if legend else ()
    sheet = Sheet(rows, columns, placements, cell=cell, dpi=dpi, key=key)
    for index, (diagram, placement) in enumerate(zip(diagrams, placements, strict=True)):
        draw_on(sheet.card(index, placement), diagram)
    return sheet.finish(path)


@dataclass(frozen=True)
class CompletedRow:
    """A partial diagram and some diagrams that complete it, with the same numbers of its rooms."""

    title: str
    given: PartialDiagram
    completions: Sequence[BubbleDiagram]


def draw_completions(rows: Sequence[CompletedRow], path: str | Path | None = None) -> Figure:
    """A row for each partial diagram: what is given, then its completions; see ``draw_grid``.

    What is given is placed by what is known of it alone: a grey bubble is a room of unknown type,
    a dotted line a pair of which nothing is said.

    Raises ``ValueError`` if there is no row, a row has no completions, or ``path`` ends in anything
    but ``.png`` or ``.svg``.
    """
    path = checked_path(path)
    if not rows or not all(row.completions for row in rows):
        raise ValueError("no completions to draw: every row needs at least one")
    plans: list[Plan] = []
    for row in rows:
        plans += [row.given, *row.completions]
    placements = place_all(plans)
    key = _key(plans, placements, unknown=not all(row.given.is_complete for row in rows))
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


def grid_shape(count: int, columns: int | None = None, *, aspect: float = 1.0) -> tuple[int, int]:
    """Rows and columns for ``count`` cards, ``aspect`` times as wide as high: the page as square as
    possible if nobody says ``columns``."""
    columns = min(columns or math.ceil(math.sqrt(count / aspect)), count)
    return math.ceil(count / columns), columns


def _key(
    plans: Sequence[Plan], placements: Sequence[Placement], *, unknown: bool = False
) -> tuple[Entry, ...]:
    broken = "Contradicts the others" if any(p.broken for p in placements) else ""
    return key_entries(plans, unknown=unknown, broken=broken)


def draw_on(pen: Pen, plan: Plan) -> None:
    """The lines of a diagram, then its bubbles; both lie on the page by depth, outermost first."""
    placement, listed = pen.placement, [t for t in plan.relations if t[2] != NO_EDGE]
    lines = route_lines(placement, [(i, j) for i, j, _ in listed])
    for i, j, r in listed:
        if (i, j) in lines:
            known: Knowledge = "wall" if r == ADJACENT else "known"
            pen.line(lines[i, j], "broken" if (i, j, r) in placement.broken else known)
    for room, code in enumerate(plan.rooms):
        pen.room(room, code, *label_spot(placement, lines.values(), room))


def _draw_unknown_pairs(pen: Pen, given: PartialDiagram) -> None:
    said = {(i, j) for i, j, _ in given.relations}
    pairs = [pair for pair in combinations(range(given.num_rooms), 2) if pair not in said]
    for line in route_lines(pen.placement, pairs).values():
        pen.line(line, "unknown")
