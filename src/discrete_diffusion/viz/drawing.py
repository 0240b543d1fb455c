"""Pictures of bubble diagrams: ``draw_diagram`` for one, ``draw_grid`` for many.

Built on matplotlib's object interface: no pyplot, no global state, any backend.
One data unit is one inch of paper, y downwards, so that sizes and fonts follow from the geometry.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch

from discrete_diffusion.viz import palette
from discrete_diffusion.viz.connections import connect
from discrete_diffusion.viz.labels import POINTS_PER_INCH, label_spot, text_width, write
from discrete_diffusion.viz.legend import Legend, legend_entries
from discrete_diffusion.viz.palette import ROOM_STYLES, shade
from discrete_diffusion.viz.placement import Placement, place_all

if TYPE_CHECKING:
    from discrete_diffusion.data.bubble_diagrams.diagram import BubbleDiagram

SUFFIXES = (".png", ".svg")
MARGIN = 0.16
"""White border of a figure, inches."""


@dataclass(frozen=True)
class _Card:
    """The square a diagram is drawn on: its ``left``, ``top`` corner and ``side``, inches."""

    left: float
    top: float
    side: float


@dataclass(frozen=True)
class _Page:
    """Cards of side ``cell`` in rows and columns, each under a ``header``; all in inches."""

    rows: int
    columns: int
    cell: float
    header: float

    @property
    def gutter(self) -> float:
        return 0.05 * min(self.cell, 3.0)

    @property
    def width(self) -> float:
        return self.columns * (self.cell + self.gutter) - self.gutter + 2 * MARGIN

    @property
    def height(self) -> float:
        row = self.header + self.cell + self.gutter
        return self.rows * row - self.gutter + 2 * MARGIN

    def card(self, index: int) -> _Card:
        row, column = divmod(index, self.columns)
        left = MARGIN + column * (self.cell + self.gutter)
        top = MARGIN + row * (self.header + self.cell + self.gutter) + self.header
        return _Card(left, top, self.cell)


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
    path = None if path is None else _checked_path(path)
    _check_grid(len(diagrams), columns, titles, flags, cell, dpi)
    columns = min(columns or math.ceil(math.sqrt(len(diagrams))), len(diagrams))
    header = 0.0 if titles is None else 0.16 + 0.035 * cell
    page = _Page(math.ceil(len(diagrams) / columns), columns, cell, header)
    placements = place_all(diagrams)
    entries = legend_entries(diagrams, placements) if legend else ()
    key = Legend.wrap(entries, page.width - 2 * MARGIN)
    figure, axes = _blank(page.width, page.height + key.height, dpi)
    scales = _scales(placements, cell)
    for index, (diagram, placement) in enumerate(zip(diagrams, placements, strict=True)):
        card = page.card(index)
        _draw_card(axes, card, flag=flags is not None and bool(flags[index]))
        if titles is not None:
            _draw_title(axes, card, titles[index])
        _draw_placement(axes, card, diagram, placement, scales[index])
    key.draw(axes, top=page.height - MARGIN / 2, centre=page.width / 2)
    if path is not None:
        figure.savefig(path, dpi=dpi)
    return figure


def _checked_path(path: str | Path) -> Path:
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"cannot write {path.name!r}: choose a name that ends in .png or .svg")
    return path


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


def _blank(width: float, height: float, dpi: float) -> tuple[Figure, Axes]:
    """An empty white page of width x height inches whose data units are inches, y downwards."""
    figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    return figure, axes


def _scales(placements: Sequence[Placement], cell: float) -> list[float]:
    """Inches per unit of each placement: as large as fits, but alike across the grid."""
    inner = cell * 0.88
    fits = [inner / max(placement.extent) for placement in placements]
    cap = min(1.35 * float(np.quantile(fits, 0.25)), 0.2 * cell)
    return [min(fit, cap) for fit in fits]


def _draw_card(axes: Axes, card: _Card, *, flag: bool) -> None:
    rounding = 0.035 * card.side
    axes.add_patch(
        FancyBboxPatch(
            (card.left + rounding, card.top + rounding),
            card.side - 2 * rounding,
            card.side - 2 * rounding,
            boxstyle=f"round,pad={rounding},rounding_size={rounding}",
            facecolor=palette.FLAG_CARD if flag else palette.CARD,
            edgecolor=palette.FLAG_EDGE if flag else palette.CARD_EDGE,
            linewidth=1.3 if flag else 0.8,
            zorder=0,
        )
    )


def _draw_title(axes: Axes, card: _Card, title: str) -> None:
    points = min(5.5 + 1.3 * card.side, 12.0)
    write(axes, card.left + 0.03, card.top - 0.05, title, points, palette.MUTED_TEXT, "left")


def _draw_placement(
    axes: Axes, card: _Card, diagram: BubbleDiagram, placement: Placement, scale: float
) -> None:
    """Bubbles by depth, outermost first; a line lies just under the bubbles of its deeper end."""
    middle = np.array([card.left, card.top]) + card.side / 2
    pen = min(0.55 + 0.13 * card.side, 1.4)
    lines = connect(placement, diagram.relations)
    for line in lines:
        axes.add_collection(
            LineCollection(
                [middle + scale * line.points],
                colors=palette.BROKEN_LINE if line.broken else palette.LINE,
                linewidths=pen,
                linestyles=[(0, (2.5, 2.0))] if line.broken else "solid",
                capstyle="round",
                zorder=2 + 3 * line.depth,
            ),
            autolim=False,
        )
    for room, code in enumerate(diagram.rooms):
        style, depth = ROOM_STYLES[code], int(placement.depth[room])
        axes.add_patch(
            Circle(
                tuple(middle + scale * placement.centres[room]),
                scale * placement.radii[room],
                facecolor=style.colour,
                edgecolor=shade(style.colour, 0.84),
                linewidth=pen,
                zorder=3 + 3 * depth,
            )
        )
        spot, chord = label_spot(placement, lines, room)
        x, y = middle + scale * spot
        points = min(
            POINTS_PER_INCH * scale * chord / text_width(style.label),
            POINTS_PER_INCH * scale * 0.31,
            14.0,
        )
        write(axes, x, y, style.label, points, palette.TEXT, "center", zorder=4 + 3 * depth)
