"""Style of every chart: colours, axes and figures.

Built on matplotlib's object interface: no pyplot, no global state, any backend.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from discrete_diffusion.runtime.atomic_files import atomic_write

TEXT = "#26303d"
MUTED_TEXT = "#67717f"
LINE = "#a3adba"
FAINT_LINE = "#e4e8ee"

REAL, SAMPLED = "#44608a", "#ef9f4c"
"""Colours of real data and samples: blue and orange, apart in hue and in lightness."""
GROUP_COLOURS = ("#1f7a78", "#b06ab3", "#c9a227", "#7a7f87")
"""Colours of token groups, in order: nodes and edges, then those of other data."""
SHARE_MAP = LinearSegmentedColormap.from_list(
    "share", ["#f6f8fb", "#c3d3e8", "#7f9fcb", "#44608a", "#22324f"]
)
"""Colours of shares, 0 to 1: light to dark."""
DIFFERENCE_MAP = LinearSegmentedColormap.from_list(
    "difference", ["#2f4a78", "#8fabd3", "#fbfbfa", "#f2b778", "#a8590f"]
)
"""Colours of differences: too few in blue, too many in orange, white where both agree."""

TITLE_POINTS, LABEL_POINTS, TICK_POINTS = 11.0, 9.5, 8.5
DPI = 160.0


def new_figure(width: float, height: float) -> Figure:
    """Make a white figure, sized in inches, that lays out its axes."""
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(w_pad=0.1, h_pad=0.1, wspace=0.04, hspace=0.06)  # type: ignore[call-arg]
    return figure


def style_axes(
    axes: Axes,
    *,
    title: str,
    xlabel: str = "",
    ylabel: str = "",
    grid: Literal["x", "y", "both"] | None = "y",
) -> None:
    """Set a title at the left, muted ticks, no box, and a faint ``grid`` across axes."""
    axes.set_title(title, loc="left", fontsize=TITLE_POINTS, color=TEXT, pad=10)
    axes.set_xlabel(xlabel, fontsize=LABEL_POINTS, color=MUTED_TEXT, labelpad=6)
    axes.set_ylabel(ylabel, fontsize=LABEL_POINTS, color=MUTED_TEXT, labelpad=6)
    axes.tick_params(labelsize=TICK_POINTS, labelcolor=MUTED_TEXT, color=LINE, length=3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(LINE)
    if grid is not None:
        axes.grid(axis=grid, color=FAINT_LINE, linewidth=0.8)


def add_legend(where: Axes | Figure, **options: Any) -> None:
    """Add a legend of labelled artists, or of ``handles``, without a frame."""
    where.legend(frameon=False, fontsize=LABEL_POINTS, labelcolor=TEXT, **options)


def add_colour_bar(
    figure: Figure,
    colours: Colormap,
    norm: Normalize,
    label: str,
    *,
    shown: Callable[[float], str] = "{:g}".format,
    **options: Any,
) -> Colorbar:
    """Add a colour bar with a ``label``; ``shown`` formats its ticks.

    ``options``: those of ``Figure.colorbar``.
    """
    bar = figure.colorbar(ScalarMappable(norm, colours), **options)
    bar.set_label(label, fontsize=LABEL_POINTS, color=MUTED_TEXT)
    bar.ax.tick_params(labelsize=TICK_POINTS, labelcolor=MUTED_TEXT, color=LINE, length=3)
    bar.formatter = FuncFormatter(lambda value, _: shown(value).replace("-", "−"))
    bar.outline.set_visible(False)
    return bar


def save_figure(figure: Figure, path: str | Path | None) -> Figure:
    """Write the figure if a path is given, ``.png`` or ``.svg``; return it."""
    if path is not None:
        with atomic_write(Path(path)) as unfinished:
            figure.savefig(unfinished, dpi=DPI)
    return figure
