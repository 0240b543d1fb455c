"""Pictures of bubble diagrams: ``draw_diagram`` for one, ``draw_grid`` for many.

Built on matplotlib's object interface: no pyplot, no global state, any backend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from discrete_diffusion.domains.bubble_diagrams.pictures.labels import label_spot
from discrete_diffusion.domains.bubble_diagrams.pictures.legend import legend_entries
from discrete_diffusion.domains.bubble_diagrams.pictures.palette import room_style
from discrete_diffusion.domains.bubble_diagrams.pictures.placement import Placement, place_all
from discrete_diffusion.domains.bubble_diagrams.pictures.sheet import Sheet, checked_path

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram


def draw_diagram(
    diagram: BubbleDiagram,
    path: str | Path | None = None,
    *,
    title: str | None = None,
    flag: bool = False,
    legend: bool = False,
    size: float = 5.0,
    dpi: float = 200.0,
) -> Figure:
    """One diagram as a picture; written to ``path`` if given.

    ``title``: a line above the diagram. ``flag``: a red frame, e.g. for an invalid diagram.
    ``legend``: colours with the full room names below. ``size``: side of the drawing, inches;
    ``dpi``: pixels per inch of a ``.png``.

    Raises ``ValueError`` if ``path`` ends in anything but ``.png`` or ``.svg``.
    """
    titles = None if title is None else [title]
    return draw_grid(
        [diagram], path, titles=titles, flags=[flag], legend=legend, cell=size, dpi=dpi
    )


def draw_grid(
    diagrams: Sequence[BubbleDiagram],
    path: str | Path | None = None,
    *,
    columns: int | None = None,
    titles: Sequence[str] | None = None,
    flags: Sequence[bool] | None = None,
    legend: bool = True,
    cell: float = 2.1,
    dpi: float = 200.0,
) -> Figure:
    """Many diagrams side by side, row by row; written to ``path`` if given.

    Bubbles are rooms, coloured and sized by type; lines are listed relations; a bubble in a bubble
    is a room inside another. Left and right, above and below on the page are those of the
    relations. A dashed red line is a relation that this picture gives up because it contradicts the
    others.

    ``columns``: per row, by default as square as possible. ``titles``: one per diagram.
    ``flags``: True draws a red frame, e.g. around an invalid diagram. ``legend``: colours with the
    full room names, once, at the bottom. ``cell``: side of a cell in inches; ``dpi``: pixels per
    inch of a ``.png``.

    Raises ``ValueError`` if there is no diagram, if ``titles`` or ``flags`` are not one per
    diagram, if ``columns``, ``cell`` or ``dpi`` is not positive, or if ``path`` ends in anything
    but ``.png`` or ``.svg``.
    """
    path = checked_path(path)
    _check_grid(len(diagrams), columns, titles, flags, cell, dpi)
    columns = min(columns or math.ceil(math.sqrt(len(diagrams))), len(diagrams))
    header = 0.0 if titles is None else header_height(cell)
    page = Page(math.ceil(len(diagrams) / columns), columns, cell, header)
    placements = place_all(diagrams)
    rooms = [code for diagram in diagrams for code in diagram.rooms]
    broken = "Contradicts the others" if any(p.broken for p in placements) else ""
    sheet = Sheet.blank(page, legend_entries(rooms, broken=broken) if legend else (), dpi)
    scales = card_scales(placements, cell)
    for index, (diagram, placement) in enumerate(zip(diagrams, placements, strict=True)):
        title = None if titles is None else titles[index]
        flag = flags is not None and bool(flags[index])
        draw_placed(sheet.card(index, scales[index], title=title, flag=flag), diagram, placement)
    return sheet.finish(path)


def _check_grid(
    count: int,
    columns: int | None,
    titles: Sequence[str] | None,
    flags: Sequence[bool] | None,
    cell: float,
    dpi: float,
) -> None:
    if count == 0:
        raise ValueError("no diagrams to draw: a grid needs at least one")
    for name, given in (("titles", titles), ("flags", flags)):
        if given is not None and len(given) != count:
            raise ValueError(f"{len(given)} {name} for {count} diagrams; give one per diagram")
    for name, value in (("columns", columns), ("cell", cell), ("dpi", dpi)):
        if value is not None and value <= 0:
            raise ValueError(f"{name}={value} must be positive")


def draw_placed(pen: Pen, diagram: Plan, placement: Placement) -> None:
    """Lines, then bubbles; both lie on the page by depth, outermost first."""
    lines = connect(placement, diagram.relations)
    for line in lines:
        pen.line(line)
    for room, code in enumerate(diagram.rooms):
        pen.room(placement, room, room_style(code), *label_spot(placement, lines, room))
