"""Images reconstructed from maps: the map, the truth, what was drawn, how far apart they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from discrete_diffusion.viz.chart_style import (
    DIFFERENCE_MAP,
    LABEL_POINTS,
    SHARE_MAP,
    TICK_POINTS,
    TITLE_POINTS,
    new_figure,
    save,
)
from discrete_diffusion.viz.palette import LINE, MUTED_TEXT, TEXT

Numbers = NDArray[np.floating]

MAX_SAMPLES = 5
_SPAN = 2.5
"""Colours of maps end at so many standard deviations."""
_WIDTH = 2.1
"""Of a panel, in inches."""


def draw_reconstructions(
    maps: Numbers,
    truth: Numbers,
    mean: Numbers,
    deviation: Numbers,
    path: str | Path | None = None,
    *,
    draws: int,
) -> Figure:
    """The first samples, a line of panels each: the map, the true image, the mean of the draws,
    their standard deviation if there are several, and the mean less the truth; written to ``path``
    if given.

    Colours mean the same in every line, and of truth and mean; those of the error are symmetric.
    ``maps``: Float[M, n, n], in standard deviations from the mean map. ``truth``, ``mean``,
    ``deviation``: Float[M, H, W]. ``draws``: how many images ``mean`` is of.

    Raises ``ValueError`` without a sample or for shapes that do not belong together.
    """
    _check(maps, truth, mean, deviation)
    maps, truth, mean, deviation = (x[:MAX_SAMPLES] for x in (maps, truth, mean, deviation))
    error = mean - truth
    most = float(np.abs(error).max()) or 1.0
    scale = Normalize(float(truth.min()), float(truth.max()))
    panels = [
        _Panel("Map", maps, DIFFERENCE_MAP, Normalize(-_SPAN, _SPAN)),
        _Panel("True", truth, SHARE_MAP, scale),
        _Panel("One draw", mean, SHARE_MAP, scale),
        _Panel("Error", error, DIFFERENCE_MAP, Normalize(-most, most)),
    ]
    if draws > 1:
        panels[2] = replace(panels[2], title=f"Mean of {draws} draws")
        spread = Normalize(0.0, float(deviation.max()) or 1.0)
        panels.insert(3, _Panel("Spread of draws", deviation, SHARE_MAP, spread))
    figure = new_figure(_WIDTH * len(panels) + 0.4, _WIDTH * len(truth) + 1.1)
    grid = figure.subplots(len(truth), len(panels), squeeze=False)
    for column, panel in zip(grid.T, panels, strict=True):
        column[0].set_title(panel.title, loc="left", fontsize=TITLE_POINTS, color=TEXT, pad=8)
        for axes, image in zip(column, panel.images, strict=True):
            axes.imshow(image, cmap=panel.colours, norm=panel.norm, interpolation="nearest")
            _bare(axes)
    for axes, x, off in zip(grid[:, -1], truth, error, strict=True):
        relative = np.linalg.norm(off) / max(float(np.linalg.norm(x)), 1e-12)
        axes.yaxis.set_label_position("right")
        axes.set_ylabel(f"relative L2 {relative:.3f}", fontsize=LABEL_POINTS, color=MUTED_TEXT)
    _add_bar(figure, grid[:, :1], panels[0], "standard deviations", extend="both")
    _add_bar(figure, grid[:, 1:3], panels[1], "conductivity", extend="both")
    if draws > 1:
        _add_bar(figure, grid[:, 3:4], panels[3], "standard deviation")
    _add_bar(figure, grid[:, -1:], panels[-1], "mean − truth" if draws > 1 else "draw − truth")
    return save(figure, path)


def _check(maps: Numbers, truth: Numbers, mean: Numbers, deviation: Numbers) -> None:
    if not (
        len(maps) == len(truth) > 0
        and truth.ndim == maps.ndim == 3
        and truth.shape == mean.shape == deviation.shape
    ):
        raise ValueError(
            f"maps {maps.shape}, truth {truth.shape}, mean {mean.shape} and deviation "
            f"{deviation.shape} do not belong together; expected (M, n, n), (M, H, W) three times, "
            "and at least one sample"
        )


@dataclass(frozen=True)
class _Panel:
    """A column: its title, an image per sample, and what their colours mean."""

    title: str
    images: Numbers
    colours: Colormap
    norm: Normalize


def _bare(axes: Axes) -> None:
    """No ticks, a faint frame: most of an image is as light as the page."""
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(LINE)


def _add_bar(
    figure: Figure,
    column: NDArray[np.object_],
    panel: _Panel,
    label: str,
    extend: Literal["neither", "both"] = "neither",
) -> None:
    """Under columns of panels, what their colours mean."""
    rows, width = column.shape
    bar = figure.colorbar(
        ScalarMappable(panel.norm, panel.colours),
        ax=column,
        location="bottom",
        extend=extend,
        aspect=16 * width,
        shrink=0.86 / width**0.5,
        fraction=0.03,
        pad=0.08 / rows,
    )
    bar.set_label(label, fontsize=LABEL_POINTS, color=MUTED_TEXT)
    bar.ax.tick_params(labelsize=TICK_POINTS, labelcolor=MUTED_TEXT, color=LINE, length=3)
    bar.ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}".replace("-", "−"))
    bar.outline.set_visible(False)
