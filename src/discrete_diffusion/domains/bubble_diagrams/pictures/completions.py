"""Partial diagrams beside their completions: ``draw_completions``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from discrete_diffusion.domains.bubble_diagrams.pictures.cards import (
    Page,
    Pen,
    card_scales,
    header_height,
)
from discrete_diffusion.domains.bubble_diagrams.pictures.connections import connect
from discrete_diffusion.domains.bubble_diagrams.pictures.constraints import Plan
from discrete_diffusion.domains.bubble_diagrams.pictures.drawing import draw_placed
from discrete_diffusion.domains.bubble_diagrams.pictures.legend import Entry, legend_entries
from discrete_diffusion.domains.bubble_diagrams.pictures.placement import Placement, place_all
from discrete_diffusion.domains.bubble_diagrams.pictures.sheet import Sheet, checked_path

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
    from discrete_diffusion.domains.bubble_diagrams.partial import PartialDiagram


@dataclass(frozen=True)
class CompletedRow:
    """A partial diagram and some diagrams that complete it, with the same numbers of its rooms."""

    title: str
    given: PartialDiagram
    completions: tuple[BubbleDiagram, ...]

    @property
    def plans(self) -> tuple[Plan, ...]:
        """What is given, then its completions."""
        return self.given, *self.completions


def draw_completions(
    rows: Sequence[CompletedRow],
    path: str | Path | None = None,
    *,
    legend: bool = True,
    cell: float = 2.1,
    dpi: float = 200.0,
) -> Figure:
    """A row for each partial diagram: what is given, then its completions; see ``draw_grid``.

    What is given is placed by what is known of it alone: a grey bubble is a room of unknown type,
    a dotted line a pair of which nothing is said.

    Raises ``ValueError`` if there is no row, a row has no completions, or ``path`` ends in anything
    but ``.png`` or ``.svg``.
    """
    path = checked_path(path)
    if not rows or not all(row.completions for row in rows):
        raise ValueError("no completions to draw: every row needs at least one")
    columns = 1 + max(len(row.completions) for row in rows)
    page = Page(len(rows), columns, cell, header_height(cell))
    placements = place_all([plan for row in rows for plan in row.plans])
    sheet = Sheet.blank(page, _entries(rows, placements) if legend else (), dpi)
    placed = iter(zip(placements, card_scales(placements, cell), strict=True))
    for number, row in enumerate(rows):
        for column, plan in enumerate(row.plans):
            placement, scale = next(placed)
            title = str(column) if column else row.title
            pen = sheet.card(number * columns + column, scale, title=title)
            if column == 0:
                _draw_hints(pen, row.given, placement)
            draw_placed(pen, plan, placement)
    return sheet.finish(path)


def _entries(rows: Sequence[CompletedRow], placements: Sequence[Placement]) -> tuple[Entry, ...]:
    rooms = {code for row in rows for plan in row.plans for code in plan.rooms}
    unknown = set() if all(row.given.is_complete for row in rows) else {None}
    broken = "Contradicts the others" if any(p.broken for p in placements) else ""
    return legend_entries(rooms | unknown, broken=broken)


def _draw_hints(pen: Pen, given: PartialDiagram, placement: Placement) -> None:
    known = {(i, j) for i, j, _ in given.relations}
    unknown = [pair for pair in combinations(range(given.num_rooms), 2) if pair not in known]
    for line in connect(placement, [(i, j, 0) for i, j in unknown]):
        pen.hint(line)
