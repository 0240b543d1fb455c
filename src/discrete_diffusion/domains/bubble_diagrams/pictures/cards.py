"""Cards on a page: where each diagram is drawn, and how its bubbles, lines and labels are drawn.

One data unit is one inch of paper, y downwards, so that sizes and fonts follow from the geometry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import Circle, FancyBboxPatch
from numpy.typing import NDArray

from discrete_diffusion.domains.bubble_diagrams.pictures.connections import Connection
from discrete_diffusion.domains.bubble_diagrams.pictures.labels import (
    POINTS_PER_INCH,
    text_width,
    write,
)
from discrete_diffusion.domains.bubble_diagrams.pictures.palette import RoomStyle
from discrete_diffusion.domains.bubble_diagrams.pictures.placement import Placement
from discrete_diffusion.viz import palette
from discrete_diffusion.viz.palette import DASHES, DOTS, shade

MARGIN = 0.16
"""White border of a figure, inches."""
Rim = Literal["known", "unknown", "broken"]
"""Of a bubble in others: whether it is known that it lies there, or contradicted."""


@dataclass(frozen=True)
class Card:
    """The square a diagram is drawn on: its ``left``, ``top`` corner and ``side``, inches."""

    left: float
    top: float
    side: float


@dataclass(frozen=True)
class Page:
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

    def card(self, index: int) -> Card:
        row, column = divmod(index, self.columns)
        left = MARGIN + column * (self.cell + self.gutter)
        top = MARGIN + row * (self.header + self.cell + self.gutter) + self.header
        return Card(left, top, self.cell)


@dataclass(frozen=True)
class Pen:
    """Draws one placement in the middle of a ``card``, ``scale`` inches per placement unit."""

    axes: Axes
    card: Card
    scale: float

    @property
    def width(self) -> float:
        """Points."""
        return min(0.55 + 0.13 * self.card.side, 1.4)

    def line(self, line: Connection) -> None:
        """Lies just under the bubbles of its deeper end; dashed and red if it is broken."""
        self.axes.add_collection(
            LineCollection(
                [self._on_page(line.points)],
                colors=palette.BROKEN_LINE if line.broken else palette.LINE,
                linewidths=self.width,
                linestyles=[DASHES] if line.broken else "solid",
                capstyle="round",
                zorder=2 + 3 * line.depth,
            ),
            autolim=False,
        )

    def hint(self, line: Connection) -> None:
        """Faint dots just under the lines, for a pair of which nothing is known yet."""
        self.axes.add_collection(
            LineCollection(
                [self._on_page(line.points)],
                colors=palette.HINT_LINE,
                linewidths=self.width,
                linestyles=[DOTS],
                capstyle="round",
                zorder=1.5 + 3 * line.depth,
            ),
            autolim=False,
        )

    def progress(self, share: float) -> None:
        """A bar along the bottom of the card, filled from the left up to ``share`` in 0..1."""
        side = self.card.side
        left, right = self.card.left + 0.06 * side, self.card.left + 0.94 * side
        y = self.card.top + 0.965 * side
        ends = [(right, palette.CARD_EDGE)]
        if share > 0:
            ends.append((left + share * (right - left), palette.PROGRESS))
        self.axes.add_collection(
            LineCollection(
                [[(left, y), (end, y)] for end, _ in ends],
                colors=[colour for _, colour in ends],
                linewidths=2 * self.width,
                capstyle="round",
                zorder=1,
            ),
            autolim=False,
        )

    def room(
        self,
        placement: Placement,
        room: int,
        style: RoomStyle,
        spot: NDArray[np.float64],
        chord: float,
        rim: Rim = "known",
    ) -> None:
        """The bubble of a room and its label, at most ``chord`` wide with its centre on ``spot``
        Float[2], both as from ``label_spot``. ``rim``: what is known of its lying in others."""
        depth = int(placement.depth[room])
        edge, dashes = {
            "known": (shade(style.colour, 0.84), "solid"),
            "unknown": (shade(style.colour, 0.6), DOTS),
            "broken": (palette.BROKEN_LINE, DASHES),
        }[rim]
        self.axes.add_artist(
            Circle(
                tuple(self._on_page(placement.centres[room])),
                self.scale * placement.radii[room],
                facecolor=style.colour,
                edgecolor=edge,
                linewidth=self.width,
                linestyle=dashes,
                capstyle="round",
                zorder=3 + 3 * depth,
            )
        )
        x, y = self._on_page(spot)
        points = min(
            POINTS_PER_INCH * self.scale * chord / text_width(style.label),
            POINTS_PER_INCH * self.scale * 0.31,
            14.0,
        )
        write(self.axes, x, y, style.label, points, palette.TEXT, "center", zorder=4 + 3 * depth)

    def _on_page(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        middle = np.array([self.card.left, self.card.top]) + self.card.side / 2
        return middle + self.scale * points


def header_height(cell: float) -> float:
    """Inches that a title above a card of side ``cell`` takes."""
    return 0.16 + 0.035 * cell


def card_scales(placements: Sequence[Placement], cell: float) -> list[float]:
    """Inches per unit of each placement: as large as fits, but alike across the grid."""
    inner = cell * 0.88
    fits = [inner / max(placement.extent) for placement in placements]
    cap = min(1.35 * float(np.quantile(fits, 0.25)), 0.2 * cell)
    return [min(fit, cap) for fit in fits]


def draw_card(axes: Axes, card: Card, *, flag: bool = False) -> None:
    """The empty card; ``flag``: with a red frame."""
    rounding = 0.035 * card.side
    axes.add_artist(
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


def draw_title(axes: Axes, card: Card, title: str) -> None:
    """A line above the card."""
    points = min(5.5 + 1.3 * card.side, 12.0)
    write(axes, card.left + 0.03, card.top - 0.05, title, points, palette.MUTED_TEXT, "left")
