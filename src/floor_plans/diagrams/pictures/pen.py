"""``Pen``: drawing of a placement on a card.

One data unit is one inch of paper, y downwards, so that sizes and fonts follow from the geometry.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Circle
from matplotlib.textpath import TextPath
from numpy.typing import NDArray

from discrete_diffusion.viz import MUTED_TEXT, TEXT
from floor_plans.diagrams.pictures import palette
from floor_plans.diagrams.pictures.palette import LINE_STYLES, Knowledge, room_style, shade
from floor_plans.diagrams.pictures.placement import Placement
from floor_plans.diagrams.pictures.routing import Line

Array = NDArray[np.float64]

POINTS_PER_INCH = 72.0
FONT = "DejaVu Sans"
"""Font that ships with matplotlib, so that pictures are equal on every machine."""
_PLAIN: dict[str, Any] = {"family": FONT, "parse_math": False}
LABEL = {**_PLAIN, "color": TEXT, "ha": "center", "va": "center_baseline"}
CAPTION = {**_PLAIN, "color": MUTED_TEXT, "ha": "left", "va": "baseline", "zorder": 4}
"""Properties of text in the middle of a bubble, and to the right of a point."""


@dataclass(frozen=True)
class Pen:
    """Draws a placement in the middle of a card, at ``scale`` inches per placement unit."""

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
        """Draw a line just below the bubbles of its deeper end, unknown ones lowest."""
        # certain lines are above uncertain ones of the same depth
        colour, dashes = LINE_STYLES[known]
        self.axes.add_collection(
            LineCollection(
                [self._on_page(line.points)],
                colors=colour,
                linewidths=self.width,
                linestyles=[dashes],
                capstyle="round",
                zorder=(2 if known in ("known", "broken") else 1.5) + 3 * line.depth,
            ),
            autolim=False,
        )

    def progress(self, share: float) -> None:
        """Draw a bar along the bottom of the card, filled from the left up to ``share`` in 0..1."""
        left, right = self.left + 0.06 * self.side, self.left + 0.94 * self.side
        y = self.top + 0.965 * self.side
        # the empty bar, and the filled part
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
        room: int,
        code: int | None,
        spot: Array,
        chord: float,
        known: Knowledge = "known",
    ) -> None:
        """Draw the bubble of a room of type ``code``, and its label.

        ``spot``: centre of the label, Float[2]; ``chord``: its largest width; see ``label_spot``.
        ``known``: state of its containment in the bubbles around it, shown by its rim.
        """
        # bubble, with a rim by its state
        style, depth = room_style(code), int(self.placement.depth[room])
        edge = {
            "known": shade(style.colour, 0.84),
            "wall": shade(style.colour, 0.84),
            "unknown": shade(style.colour, 0.6),
            "broken": palette.BROKEN_LINE,
        }[known]
        self.axes.add_artist(
            Circle(
                tuple(self._on_page(self.placement.centres[room])),
                self.scale * self.placement.radii[room],
                facecolor=style.colour,
                edgecolor=edge,
                linewidth=self.width,
                linestyle=LINE_STYLES[known][1],
                capstyle="round",
                zorder=3 + 3 * depth,
            )
        )
        # label, as large as fits
        x, y = self._on_page(spot)
        points = min(
            POINTS_PER_INCH * self.scale * chord / text_width(style.label),
            POINTS_PER_INCH * self.scale * 0.31,
            14.0,
        )
        points = max(points, 1.0)  # FreeType renders no smaller letters
        self.axes.text(x, y, style.label, fontsize=points, zorder=4 + 3 * depth, **LABEL)

    def _on_page(self, points: Array) -> Array:
        middle = np.array([self.left, self.top]) + self.side / 2
        return middle + self.scale * points


@cache
def text_width(text: str) -> float:
    """Width of ``text`` in units of its font size."""
    outline = TextPath((0, 0), text, size=100, prop=FontProperties(family=FONT))
    return float(outline.get_extents().width) / 100
