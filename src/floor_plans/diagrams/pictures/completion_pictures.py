"""Pictures of partial diagrams with their completions: ``plot_completions``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from matplotlib.figure import Figure

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.partial import PartialDiagram
from floor_plans.diagrams.pictures.constraints import Plan
from floor_plans.diagrams.pictures.diagram_pictures import draw_on, key_of
from floor_plans.diagrams.pictures.pen import Pen
from floor_plans.diagrams.pictures.placement import place_all
from floor_plans.diagrams.pictures.routing import route_lines
from floor_plans.diagrams.pictures.sheet import Sheet, checked_path


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
