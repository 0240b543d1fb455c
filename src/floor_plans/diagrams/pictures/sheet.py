"""``Sheet``: a page of square cards with a key below them."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch

from discrete_diffusion.runtime import atomic_write
from discrete_diffusion.viz import LINE
from floor_plans.diagrams.pictures import palette
from floor_plans.diagrams.pictures.constraints import Plan
from floor_plans.diagrams.pictures.palette import (
    LINE_STYLES,
    UNKNOWN_ROOM,
    Knowledge,
    room_style,
    shade,
)
from floor_plans.diagrams.pictures.pen import CAPTION, POINTS_PER_INCH, Pen, text_width
from floor_plans.diagrams.pictures.placement import Placement
from floor_plans.diagrams.vocabulary import ADJACENT, DOOR

MARGIN = 0.16
"""White border of a page, in inches."""
KEY_LINE, KEY_POINTS = 0.26, 8.0
"""Height of a line of the key in inches, and size of its letters in points."""


@dataclass(frozen=True)
class Entry:
    """Entry of the key: a name after a disc, or after a line if ``is_line``.

    ``shown``: style of the line; ``"unknown"`` adds a dotted line to a disc.
    """

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


def key_entries(
    plans: Iterable[Plan], *, unknown: bool = False, broken: str = ""
) -> tuple[Entry, ...]:
    """Entries of the key: room types by code, relations without direction, then others.

    ``unknown``: add an entry for unknown rooms and relations. ``broken``: name of the entry for
    violated relations, empty for none.
    """
    plans = list(plans)
    # room types
    codes = {code for plan in plans for code in plan.rooms if code is not None}
    entries = [Entry(style.name, style.colour) for style in map(room_style, sorted(codes))]
    # relations without direction
    codes = {r for plan in plans for _, _, r in plan.relations}
    if DOOR in codes:
        entries.append(Entry("Door", LINE, is_line=True))
    if ADJACENT in codes:
        entries.append(Entry("Wall", palette.WALL_LINE, "wall", is_line=True))
    if unknown:
        entries.append(Entry(UNKNOWN_ROOM.name, UNKNOWN_ROOM.colour, "unknown"))
    if broken:
        entries.append(Entry(broken, palette.BROKEN_LINE, "broken", is_line=True))
    return tuple(entries)


class Sheet:
    """A white page of ``rows`` x ``columns`` cards of side ``cell`` inches, with ``key`` below.

    ``placements``: of all diagrams, to choose a common scale. ``titled``: leave space for a title
    above each card. ``footer``: inches to leave below the cards.
    """

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
        self.key = _wrapped(key, width - 2 * MARGIN)
        height = self.bottom + KEY_LINE * len(self.key) + footer
        self.figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white")
        FigureCanvasAgg(self.figure)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, width), ylim=(height, 0))
        self.axes.set_axis_off()
        # common scale: most cards use it, smaller ones shrink
        self.middle = width / 2
        fits = [self._largest_scale(placement) for placement in placements]
        typical = float(np.quantile(fits, 0.25)) if fits else math.inf
        self.scale = min(1.35 * typical, 0.2 * cell)

    def _largest_scale(self, placement: Placement) -> float:
        """Largest scale of a placement that fits a card, in inches per placement unit."""
        return self.cell * 0.88 / max(placement.extent)

    def card(self, index: int, placement: Placement, title: str = "") -> Pen:
        """Draw an empty card and return the pen for its ``placement``."""
        left, top = self.empty_card(index, title)
        scale = min(self._largest_scale(placement), self.scale)
        return Pen(self.axes, left, top, self.cell, placement, scale)

    def empty_card(self, index: int, title: str = "") -> tuple[float, float]:
        """Draw an empty card and return its left and top on the page, in inches."""
        # position of the card in the grid
        row, column = divmod(index, self.columns)
        left = MARGIN + column * (self.cell + self.gutter)
        top = MARGIN + row * (self.header + self.cell + self.gutter) + self.header
        rounding = 0.035 * self.cell
        self.axes.add_artist(
            FancyBboxPatch(
                (left + rounding, top + rounding),
                self.cell - 2 * rounding,
                self.cell - 2 * rounding,
                boxstyle=f"round,pad={rounding},rounding_size={rounding}",
                facecolor=palette.CARD,
                edgecolor=palette.CARD_EDGE,
                linewidth=0.8,
                zorder=0,
            )
        )
        # title, as large as fits
        if title:
            width = (self.cell - 0.06) * POINTS_PER_INCH
            points = min(5.5 + 1.3 * self.cell, 12.0, width / text_width(title))
            self.axes.text(left + 0.03, top - 0.05, title, fontsize=points, **CAPTION)
        return left, top

    def finish(self, path: Path | None = None) -> Figure:
        """Add the key, write the figure to ``path`` if given, and return it."""
        # rows of the key, centred
        for number, row in enumerate(self.key):
            y = self.bottom - MARGIN / 2 + (number + 0.5) * KEY_LINE
            x = self.middle - sum(entry.width for entry in row) / 2 + 0.08
            for entry in row:
                _draw_entry(self.axes, entry, x, y)
                x += entry.width
        # without dates, so that equal pictures are equal files
        if path is not None:
            metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
            with atomic_write(path) as unfinished, _same_ids():
                self.figure.savefig(unfinished, dpi=self.figure.dpi, metadata=metadata)
        return self.figure


def svg_of(figure: Figure) -> str:
    """Convert a figure to SVG text."""
    text = io.StringIO()
    with _same_ids():
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def _same_ids() -> AbstractContextManager[None]:
    """Context in which equal pictures have equal SVG ids."""
    return rc_context({"svg.hashsalt": "discrete-diffusion"})


def checked_path(
    path: str | Path | None, suffixes: Sequence[str] = (".png", ".svg")
) -> Path | None:
    """Return the path, or None; ``ValueError`` for another suffix."""
    if path is not None and Path(path).suffix.lower() not in suffixes:
        expected = " or ".join(suffixes)
        raise ValueError(f"cannot write {Path(path).name!r}: choose a name that ends in {expected}")
    return None if path is None else Path(path)


def check_positive(**numbers: float | None) -> None:
    """Refuse the first number that is neither None nor positive, by ``ValueError``."""
    for name, value in numbers.items():
        if value is not None and not value > 0:
            raise ValueError(f"{name}={value} must be positive")


def _wrapped(entries: Sequence[Entry], width: float) -> list[list[Entry]]:
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


def _draw_entry(axes: Axes, entry: Entry, x: float, y: float) -> None:
    if entry.is_line:
        _, dashes = LINE_STYLES[entry.shown]
        axes.plot([x - 0.02, x + 0.14], [y, y], color=entry.colour, linestyle=dashes)
    else:
        edge = shade(entry.colour, 0.84)
        axes.add_patch(Circle((x + 0.06, y), 0.06, facecolor=entry.colour, edgecolor=edge))
    if entry.shown == "unknown":
        axes.plot(
            [x + 0.16, x + 0.34],
            [y, y],
            color=palette.HINT_LINE,
            linewidth=1.2,
            linestyle=palette.DOTS,
            dash_capstyle="round",
        )
    axes.text(x + entry.indent, y + 0.04, entry.name, fontsize=KEY_POINTS, **CAPTION)
