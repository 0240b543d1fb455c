"""Pictures of bubble diagrams: ``plot_diagram`` for one, ``plot_grid`` for many.

Built on matplotlib's object interface: no pyplot, no global state, any backend.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Circle, FancyBboxPatch
from matplotlib.textpath import TextPath

from discrete_diffusion.runtime import atomic_write
from discrete_diffusion.viz import LINE, MUTED_TEXT, TEXT
from floor_plans.diagrams.geometry import Floats
from floor_plans.diagrams.pictures import bubbles
from floor_plans.diagrams.pictures.bubbles import Knowledge, Plan
from floor_plans.diagrams.pictures.placement import (
    Line,
    Placement,
    label_spot,
    place_all,
    route_lines,
)
from floor_plans.diagrams.vocabulary import ADJACENT, DOOR, NO_EDGE

POINTS_PER_INCH = 72.0
FONT = "DejaVu Sans"  # font that ships with matplotlib, so that pictures are equal on every machine
_PLAIN: dict[str, Any] = {"family": FONT, "parse_math": False}
LABEL = {**_PLAIN, "color": TEXT, "ha": "center", "va": "center_baseline"}
CAPTION = {**_PLAIN, "color": MUTED_TEXT, "ha": "left", "va": "baseline", "zorder": 4}
"""Properties of text in the middle of a bubble, and to the right of a point."""


@dataclass(frozen=True)
class Pen:
    """Pen that draws a placement in the middle of a card, ``scale`` inches per placement unit."""

    axes: Axes
    left: float
    top: float
    side: float
    placement: Placement
    scale: float

    @property
    def width(self) -> float:
        """Width of lines in points."""
        return min(0.55 + 0.13 * self.side, 1.4)

    def line(self, line: Line, known: Knowledge) -> None:
        """Draw a line just below the bubbles of its deeper end; unknown relations are lowest."""
        colour, dashes = bubbles.LINE_STYLES[known]
        zorder = (2 if known in ("known", "broken") else 1.5) + 3 * line.depth
        style: dict[str, Any] = {"linewidths": self.width, "linestyles": [dashes]}
        self._add_lines([self._on_page(line.points)], colors=colour, zorder=zorder, **style)

    def _add_lines(self, lines: Any, **style: Any) -> None:
        drawn = LineCollection(lines, **style, capstyle="round")
        self.axes.add_collection(drawn, autolim=False)

    def progress(self, share: float) -> None:
        """Draw a bar along the bottom of the card, filled from the left up to ``share`` in 0..1."""
        left, right = self.left + 0.06 * self.side, self.left + 0.94 * self.side
        y = self.top + 0.965 * self.side
        ends = [(right, bubbles.CARD_EDGE)]
        if share > 0:
            ends.append((left + share * (right - left), bubbles.PROGRESS))
        lines, colours = [[(left, y), (end, y)] for end, _ in ends], [colour for _, colour in ends]
        self._add_lines(lines, colors=colours, linewidths=2 * self.width, zorder=1)

    def room(
        self, room: int, code: int | None, spot: Floats, chord: float, known: Knowledge = "known"
    ) -> None:
        """Draw the bubble of a room of type ``code``, and its label.

        ``spot``: centre of the label, Float[2]; ``chord``: its largest width; see ``label_spot``.
        ``known``: state of its containment in the bubbles around it, shown by its rim.
        """
        # bubble, with a rim by its state
        style, depth = bubbles.room_style(code), int(self.placement.depth[room])
        edge = bubbles.shade(style.colour, 0.6 if known == "unknown" else 0.84)
        edge = bubbles.BROKEN_LINE if known == "broken" else edge
        self.axes.add_artist(
            Circle(
                tuple(self._on_page(self.placement.centres[room])),
                self.scale * self.placement.radii[room],
                facecolor=style.colour,
                edgecolor=edge,
                linewidth=self.width,
                linestyle=bubbles.LINE_STYLES[known][1],
                capstyle="round",
                zorder=3 + 3 * depth,
            )
        )
        # label, as large as fits
        x, y = self._on_page(spot)
        inch = POINTS_PER_INCH * self.scale
        points = min(inch * chord / text_width(style.label), inch * 0.31, 14.0)
        points = max(points, 1.0)  # FreeType renders no smaller letters
        self.axes.text(x, y, style.label, fontsize=points, zorder=4 + 3 * depth, **LABEL)

    def _on_page(self, points: Floats) -> Floats:
        middle = np.array([self.left, self.top]) + self.side / 2
        return middle + self.scale * points


@cache
def text_width(text: str) -> float:
    """Width of ``text`` in units of its font size."""
    outline = TextPath((0, 0), text, size=100, prop=FontProperties(family=FONT))
    return float(outline.get_extents().width) / 100


_SAME_IDS: Any = {"svg.hashsalt": "discrete-diffusion"}  # of equal pictures in SVG

MARGIN = 0.16  # white border of a page, in inches
KEY_LINE, KEY_POINTS = 0.26, 8.0
"""Height of a line of the key in inches, and size of its letters in points."""


@dataclass(frozen=True)
class Entry:
    """Entry of the key: a name after a disc, or after a line if ``is_line``. ``shown``: style of
    the line; ``"unknown"`` adds a dotted line to a disc."""

    name: str
    colour: str
    shown: Knowledge = "known"
    is_line: bool = False

    @property
    def indent(self) -> float:
        """Width of the disc and lines in inches."""
        return 0.18 + (0.2 if self.shown == "unknown" else 0.0)

    @property
    def width(self) -> float:
        """Width in inches."""
        return 0.18 + self.indent + text_width(self.name) * KEY_POINTS / POINTS_PER_INCH

    def draw(self, axes: Axes, x: float, y: float) -> None:
        """Draw the entry from (x, y) to the right."""
        if self.is_line:
            dashes = bubbles.LINE_STYLES[self.shown][1]
            axes.plot([x - 0.02, x + 0.14], [y, y], color=self.colour, linestyle=dashes)
        else:
            edge = bubbles.shade(self.colour, 0.84)
            axes.add_patch(Circle((x + 0.06, y), 0.06, facecolor=self.colour, edgecolor=edge))
        if self.shown == "unknown":
            dotted: dict[str, Any] = {"linestyle": bubbles.DOTS, "dash_capstyle": "round"}
            dotted |= {"color": bubbles.HINT_LINE, "linewidth": 1.2}
            axes.plot([x + 0.16, x + 0.34], [y, y], **dotted)
        axes.text(x + self.indent, y + 0.04, self.name, fontsize=KEY_POINTS, **CAPTION)


def key_entries(
    plans: Iterable[Plan], *, unknown: bool = False, broken: str = ""
) -> tuple[Entry, ...]:
    """Entries of the key: room types by code, relations without direction, then optional entries:
    one for ``unknown`` rooms and relations, and one named ``broken`` for violated relations."""
    plans = list(plans)
    codes = {code for plan in plans for code in plan.rooms if code is not None}
    entries = [Entry(style.name, style.colour) for style in map(bubbles.room_style, sorted(codes))]
    codes = {r for plan in plans for _, _, r in plan.relations}
    if DOOR in codes:
        entries.append(Entry("Door", LINE, is_line=True))
    if ADJACENT in codes:
        entries.append(Entry("Wall", bubbles.WALL_LINE, "wall", is_line=True))
    if unknown:
        entries.append(Entry(bubbles.UNKNOWN_ROOM.name, bubbles.UNKNOWN_ROOM.colour, "unknown"))
    if broken:
        entries.append(Entry(broken, bubbles.BROKEN_LINE, "broken", is_line=True))
    return tuple(entries)


class Sheet:
    """A white page of ``rows`` x ``columns`` cards of side ``cell`` inches, with ``key`` below.
    ``placements``: placements of all diagrams, to choose a common scale. ``titled``: leave space
    for a title above each card. ``footer``: inches to leave below the cards."""

    def __init__(
        self,
        rows: int,
        columns: int,
        placements: Sequence[Placement],
        *,
        cell: float = 2.1,
        dpi: float = 200.0,
        titled: bool = False,
        key: Sequence[Entry] = (),
        footer: float = 0.0,
    ) -> None:
        # sizes of the page, in inches
        self.columns, self.cell = columns, cell
        self.gutter = 0.05 * min(cell, 3.0)
        self.header = 0.16 + 0.035 * cell if titled else 0.0
        width = columns * (cell + self.gutter) - self.gutter + 2 * MARGIN
        self.bottom = rows * (self.header + cell + self.gutter) - self.gutter + 2 * MARGIN
        self.key = wrap_entries(key, width - 2 * MARGIN)
        height = self.bottom + KEY_LINE * len(self.key) + footer
        self.figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white")
        FigureCanvasAgg(self.figure)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, width), ylim=(height, 0))
        self.axes.set_axis_off()
        # common scale: most cards use it, smaller ones shrink
        self.middle = width / 2
        self.inner = 0.88 * cell
        fits = [self.inner / max(placement.extent) for placement in placements]
        typical = float(np.quantile(fits, 0.25)) if fits else math.inf
        self.scale = min(1.35 * typical, 0.2 * cell)

    def card(self, index: int, placement: Placement, title: str = "") -> Pen:
        """Draw the empty card number ``index``; return a pen to draw ``placement`` on it."""
        left, top = self.empty_card(index, title)
        scale = min(self.inner / max(placement.extent), self.scale)
        return Pen(self.axes, left, top, self.cell, placement, scale)

    def empty_card(self, index: int, title: str = "") -> tuple[float, float]:
        """Draw an empty card and return its left and top on the page, in inches."""
        # position of the card in the grid
        row, column = divmod(index, self.columns)
        left = MARGIN + column * (self.cell + self.gutter)
        top = MARGIN + row * (self.header + self.cell + self.gutter) + self.header
        rounding = 0.035 * self.cell
        corner, side = (left + rounding, top + rounding), self.cell - 2 * rounding
        shape = f"round,pad={rounding},rounding_size={rounding}"
        colours: dict[str, Any] = {"facecolor": bubbles.CARD, "edgecolor": bubbles.CARD_EDGE}
        card = FancyBboxPatch(corner, side, side, shape, linewidth=0.8, zorder=0, **colours)
        self.axes.add_artist(card)
        if title:
            width = (self.cell - 0.06) * POINTS_PER_INCH
            points = min(5.5 + 1.3 * self.cell, 12.0, width / text_width(title))
            self.axes.text(left + 0.03, top - 0.05, title, fontsize=points, **CAPTION)
        return left, top

    def finish(self, path: Path | None = None) -> Figure:
        """Add the key, write the figure to ``path`` if given, and return it."""
        for number, row in enumerate(self.key):
            y = self.bottom - MARGIN / 2 + (number + 0.5) * KEY_LINE
            x = self.middle - sum(entry.width for entry in row) / 2 + 0.08
            for entry in row:
                entry.draw(self.axes, x, y)
                x += entry.width
        # without dates, so that equal pictures are equal files
        if path is not None:
            metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
            with atomic_write(path) as unfinished, rc_context(_SAME_IDS):
                self.figure.savefig(unfinished, dpi=self.figure.dpi, metadata=metadata)
        return self.figure


def svg_of(figure: Figure) -> str:
    """Convert a figure to SVG text."""
    text = io.StringIO()
    with rc_context(_SAME_IDS):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def checked_path(path: str | Path | None) -> Path | None:
    """Return the path, or None if none is given; raise ``ValueError`` for another suffix."""
    if path is not None and Path(path).suffix.lower() not in (".png", ".svg"):
        name = Path(path).name
        raise ValueError(f"cannot write {name!r}: choose a name that ends in .png or .svg")
    return None if path is None else Path(path)


def wrap_entries(entries: Sequence[Entry], width: float) -> list[list[Entry]]:
    """Wrap entries into the fewest rows of at most ``width`` inches, of about equal length."""
    total = sum(entry.width for entry in entries)
    # length of rows if they were all equal
    even = total / max(1, math.ceil(total / width))
    rows: list[list[Entry]] = []
    filled = math.inf
    for entry in entries:
        if filled >= even or filled + entry.width > width:
            rows.append([])
            filled = 0.0
        rows[-1].append(entry)
        filled += entry.width
    return rows


MAX_DRAWN = 36  # most diagrams of a list that are plotted


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

    Bubbles are rooms, coloured and sized by type, in the directions of their relations; lines are
    listed relations, dashed red where they contradict others; a bubble in a bubble is a room inside
    another. ``columns``: by default the page is as square as possible. ``cell``: side in inches.

    Raises ``ValueError`` without diagrams, and for a ``path`` that ends in anything but ``.png`` or
    ``.svg``.
    """
    # check arguments before the slow placement
    path = checked_path(path)
    if not diagrams:
        raise ValueError("no diagrams to draw: a grid needs at least one")
    # place all diagrams, then draw them at a common scale
    rows, columns = grid_shape(len(diagrams), columns)
    placements = place_all(diagrams)
    key = key_of(diagrams, placements) if legend else ()
    sheet = Sheet(rows, columns, placements, cell=cell, dpi=dpi, key=key)
    for index, (diagram, placement) in enumerate(zip(diagrams, placements, strict=True)):
        draw_diagram(sheet.card(index, placement), diagram)
    return sheet.finish(path)


def svg_of_grid(diagrams: Sequence[Plan], *, legend: bool = True, cell: float = 2.1) -> str:
    """SVG text of ``plot_grid``, for notebooks."""
    return svg_of(plot_grid(diagrams, legend=legend, cell=cell))


def grid_shape(count: int, columns: int | None = None, *, aspect: float = 1.0) -> tuple[int, int]:
    """Rows and columns for ``count`` cards that are ``aspect`` times as wide as high. Without
    ``columns`` the page is as square as possible."""
    columns = min(columns or math.ceil(math.sqrt(count / aspect)), count)
    return math.ceil(count / columns), columns


def key_of(
    plans: Sequence[Plan], placements: Sequence[Placement], *, unknown: bool = False
) -> tuple[Entry, ...]:
    """Entries of the legend; ``unknown``: include unknown rooms and relations."""
    broken = "Contradicts the others" if any(p.broken for p in placements) else ""
    return key_entries(plans, unknown=unknown, broken=broken)


def draw_diagram(pen: Pen, plan: Plan) -> None:
    """Draw the lines of a diagram, then its bubbles, both from the outermost inwards."""
    placement, listed = pen.placement, [t for t in plan.relations if t[2] != NO_EDGE]
    lines = route_lines(placement, [(i, j) for i, j, _ in listed])
    for i, j, r in listed:
        if (i, j) in lines:
            known: Knowledge = "wall" if r == ADJACENT else "known"
            pen.line(lines[i, j], "broken" if (i, j, r) in placement.broken else known)
    for room, code in enumerate(plan.rooms):
        pen.room(room, code, *label_spot(placement, lines.values(), room))
