"""Partial diagrams beside their completions: ``draw_completions``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from discrete_diffusion.rooms import RELATIONS
from discrete_diffusion.viz.cards import (
    MARGIN,
    Page,
    Pen,
    blank_page,
    card_scales,
    draw_card,
    draw_title,
    header_height,
)
from discrete_diffusion.viz.connections import connect
from discrete_diffusion.viz.drawing import checked_path
from discrete_diffusion.viz.labels import label_spot
from discrete_diffusion.viz.legend import Entry, Legend, legend_entries
from discrete_diffusion.viz.palette import ROOM_STYLES, UNKNOWN_ROOM
from discrete_diffusion.viz.placement import Placement, place_all

if TYPE_CHECKING:
    from discrete_diffusion.data.bubble_diagrams.diagram import BubbleDiagram
    from discrete_diffusion.data.bubble_diagrams.partial import PartialDiagram

NO_EDGE = RELATIONS.index("no-edge")


@dataclass(frozen=True)
class CompletedRow:
    """A partial diagram and some diagrams that complete it, with the same numbers of its rooms."""

    title: str
    given: PartialDiagram
    completions: tuple[BubbleDiagram, ...]


def draw_completions(
    rows: Sequence[CompletedRow],
    path: str | Path | None = None,
    *,
    legend: bool = True,
    cell: float = 2.1,
    dpi: float = 200.0,
) -> Figure:
    """A row for each partial diagram: what is given, then its completions; see ``draw_grid``.

    What is given stands where the first completion has it: a grey bubble is a room of unknown type,
    a dotted line a pair of which nothing is said.

    Raises ``ValueError`` if there is no row, a row has no completions, or ``path`` ends in anything
    but ``.png`` or ``.svg``.
    """
    path = None if path is None else checked_path(path)
    if not rows or not all(row.completions for row in rows):
        raise ValueError("no completions to draw: every row needs at least one")
    columns = 1 + max(len(row.completions) for row in rows)
    page = Page(len(rows), columns, cell, header_height(cell))
    placements = place_all([diagram for row in rows for diagram in row.completions])
    key = Legend.wrap(_entries(rows, placements) if legend else (), page.width - 2 * MARGIN)
    figure, axes = blank_page(page.width, page.height + key.height, dpi)
    placed = iter(zip(placements, card_scales(placements, cell), strict=True))
    for number, row in enumerate(rows):
        for column, diagram in enumerate(row.completions, start=1):
            placement, scale = next(placed)
            if column == 1:
                card = page.card(number * columns)
                draw_card(axes, card)
                draw_title(axes, card, row.title)
                _draw_hints(Pen(axes, card, scale), row.given, placement)
                _draw(Pen(axes, card, scale), row.given, placement)
            card = page.card(number * columns + column)
            draw_card(axes, card)
            draw_title(axes, card, str(column))
            _draw(Pen(axes, card, scale), diagram, placement)
    key.draw(axes, top=page.height - MARGIN / 2, centre=page.width / 2)
    if path is not None:
        figure.savefig(path, dpi=dpi)
    return figure


def _entries(rows: Sequence[CompletedRow], placements: Sequence[Placement]) -> tuple[Entry, ...]:
    rooms = {code for row in rows for diagram in row.completions for code in diagram.rooms}
    given = {code for row in rows for code in row.given.rooms}
    broken = "Contradicts the others" if any(p.broken for p in placements) else ""
    return legend_entries(rooms | given, broken=broken)


def _draw_hints(pen: Pen, given: PartialDiagram, placement: Placement) -> None:
    known = {(i, j) for i, j, _ in given.relations}
    unknown = [pair for pair in combinations(range(given.num_rooms), 2) if pair not in known]
    pen.hints([line for i, j in unknown for line in connect(placement, ((i, j, 0),))])


def _draw(pen: Pen, diagram: PartialDiagram | BubbleDiagram, placement: Placement) -> None:
    lines = connect(placement, tuple(t for t in diagram.relations if t[2] != NO_EDGE))
    for line in lines:
        pen.line(line)
    for room, code in enumerate(diagram.rooms):
        style = UNKNOWN_ROOM if code is None else ROOM_STYLES[code]
        pen.room(placement, room, style, *label_spot(placement, lines, room))
