"""How every chart looks: colours, axes, and the page they are drawn on.

Built on matplotlib's object interface: no pyplot, no global state, any backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from discrete_diffusion.viz.palette import CARD_EDGE, LINE, MUTED_TEXT, TEXT

REAL, SAMPLED = "#44608a", "#ef9f4c"
"""Real data and samples: blue and orange, apart in hue and in lightness."""
GROUP_COLOURS = ("#1f7a78", "#b06ab3", "#c9a227", "#7a7f87")
"""Token groups, in order: nodes and edges, then those of other data."""
SHARE_MAP = LinearSegmentedColormap.from_list(
    "share", ["#f6f8fb", "#c3d3e8", "#7f9fcb", "#44608a", "#22324f"]
)
"""0 to 1, light to dark."""
DIFFERENCE_MAP = LinearSegmentedColormap.from_list(
    "difference", ["#2f4a78", "#8fabd3", "#fbfbfa", "#f2b778", "#a8590f"]
)
"""Too few in blue, too many in orange, white where both agree."""

TITLE_POINTS, LABEL_POINTS, TICK_POINTS = 11.0, 9.5, 8.5
DPI = 160.0

Grid = Literal["x", "y", "both"]


def new_figure(width: float, height: float) -> Figure:
    """A white page, in inches, that lays out its own axes."""
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(w_pad=0.1, h_pad=0.1, wspace=0.04, hspace=0.06)  # type: ignore[call-arg]
    return figure


def style_axes(
    axes: Axes, *, title: str, xlabel: str, ylabel: str, grid: Grid | None = "y"
) -> None:
    """Title at the left, muted ticks, no box, a faint ``grid`` across one axis, both or none."""
    axes.set_title(title, loc="left", fontsize=TITLE_POINTS, color=TEXT, pad=10)
    axes.set_xlabel(xlabel, fontsize=LABEL_POINTS, color=MUTED_TEXT, labelpad=6)
    axes.set_ylabel(ylabel, fontsize=LABEL_POINTS, color=MUTED_TEXT, labelpad=6)
    axes.tick_params(labelsize=TICK_POINTS, labelcolor=MUTED_TEXT, color=LINE, length=3)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        axes.spines[side].set_color(LINE)
    if grid is not None:
        axes.grid(axis=grid, color=CARD_EDGE, linewidth=0.8)


def add_legend(axes: Axes, **options: Any) -> None:
    """The axes' labelled artists, without a frame."""
    axes.legend(frameon=False, fontsize=LABEL_POINTS, labelcolor=TEXT, **options)


def save(figure: Figure, path: str | Path | None) -> Figure:
    """Write the figure if there is a path: ``.png`` or ``.svg``; return it."""
    if path is not None:
        figure.savefig(path, dpi=DPI)
    return figure


def shares(counts: Sequence[float] | np.ndarray, length: int | None = None) -> np.ndarray:
    """Counts as percentages of their sum, padded with zeros to ``length``; zeros if all are 0."""
    counts = np.asarray(counts, dtype=np.float64)
    padded = np.pad(counts, (0, max((length or 0) - len(counts), 0)))
    return 100 * padded / padded.sum() if padded.any() else padded
