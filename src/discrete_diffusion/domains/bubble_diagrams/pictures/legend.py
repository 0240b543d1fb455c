"""The key at the bottom of a grid: colours and full room names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patches import Circle

from discrete_diffusion.domains.bubble_diagrams.pictures.labels import (
    POINTS_PER_INCH,
    text_width,
    write,
)
from discrete_diffusion.domains.bubble_diagrams.pictures.palette import ROOM_STYLES, UNKNOWN_ROOM
from discrete_diffusion.viz import palette
from discrete_diffusion.viz.palette import DASHES, DOTS, shade

LINE_HEIGHT, FONT_POINTS = 0.26, 8.0


@dataclass(frozen=True)
class Entry:
    """One name in its colour; ``dashed``: shown by a dashed line instead of a disc; ``dotted``: by
    a disc and a dotted line."""

    name: str
    colour: str
    dashed: bool = False
    dotted: bool = False

    @property
    def tail(self) -> float:
        """Inches that the dotted line takes."""
        return 0.2 if self.dotted else 0.0

    @property
    def width(self) -> float:
        """Inches."""
        return 0.36 + self.tail + text_width(self.name) * FONT_POINTS / POINTS_PER_INCH


def legend_entries(rooms: Iterable[int | None], *, broken: str = "") -> tuple[Entry, ...]:
    """The room types among ``rooms``, by code, then what is unknown if None is among them; and the
    dashed line of a relation that is not kept, called ``broken``, if that is not empty."""
    codes = set(rooms)
    styles = [ROOM_STYLES[code] for code in sorted(code for code in codes if code is not None)]
    entries = [Entry(style.name, style.colour) for style in styles]
    if None in codes:
        entries.append(Entry(UNKNOWN_ROOM.name, UNKNOWN_ROOM.colour, dotted=True))
    if broken:
        entries.append(Entry(broken, palette.BROKEN_LINE, dashed=True))
    return tuple(entries)


@dataclass(frozen=True)
class Legend:
    """Entries in centred rows."""

    rows: tuple[tuple[Entry, ...], ...]

    @classmethod
    def wrap(cls, entries: Sequence[Entry], width: float) -> Legend:
        """As few rows of at most ``width`` inches as it takes, of about equal length."""
        total = sum(entry.width for entry in entries)
        even = total / max(1, math.ceil(total / width))
        rows: list[list[Entry]] = [[]]
        filled = 0.0
        for entry in entries:
            if rows[-1] and (filled >= even or filled + entry.width > width):
                rows.append([])
                filled = 0.0
            rows[-1].append(entry)
            filled += entry.width
        return cls(tuple(tuple(row) for row in rows if row))

    @property
    def height(self) -> float:
        """Inches."""
        return LINE_HEIGHT * len(self.rows)

    def draw(self, axes: Axes, *, top: float, centre: float) -> None:
        """Draw the rows from ``top`` down, centred on x = ``centre`` (inches)."""
        for number, row in enumerate(self.rows):
            y = top + (number + 0.5) * LINE_HEIGHT
            x = centre - sum(entry.width for entry in row) / 2 + 0.08
            for entry in row:
                _draw_entry(axes, entry, x, y)
                x += entry.width


def _draw_entry(axes: Axes, entry: Entry, x: float, y: float) -> None:
    if entry.dashed:
        axes.plot([x - 0.02, x + 0.14], [y, y], color=entry.colour, linestyle=DASHES)
    else:
        edge = shade(entry.colour, 0.84)
        axes.add_patch(Circle((x + 0.06, y), 0.06, facecolor=entry.colour, edgecolor=edge))
    if entry.dotted:
        (line,) = axes.plot([x + 0.16, x + 0.34], [y, y], color=palette.HINT_LINE, linewidth=1.2)
        line.set(linestyle=DOTS, dash_capstyle="round")
    write(
        axes, x + 0.18 + entry.tail, y + 0.04, entry.name, FONT_POINTS, palette.MUTED_TEXT, "left"
    )
