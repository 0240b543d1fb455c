"""Images reconstructed from maps: the map, the truth, the samples, how far apart they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from discrete_diffusion.viz import (
    DIFFERENCE_MAP,
    LABEL_POINTS,
    LINE,
    MUTED_TEXT,
    SHARE_MAP,
    TEXT,
    TITLE_POINTS,
    add_colour_bar,
    new_figure,
    save_figure,
)

Numbers = NDArray[np.floating]

MAX_SAMPLES = 5
_SPAN = 2.5
"""Colours of maps end at so many standard deviations."""
_WIDTH = 2.1
"""Width of a panel, in inches."""


@dataclass(frozen=True)
class _Panel:
    """A column: its title, an image per sample, and what their colours mean."""

    title: str
    images: Numbers
    colours: Colormap
    norm: Normalize


def plot_reconstructions(
    maps: Numbers,
    truth: Numbers,
    mean: Numbers,
    deviation: Numbers,
    path: str | Path | None = None,
    *,
    draws: int,
) -> Figure:
    """The first samples, a line of panels each: the map, the true image, the mean of the samples,
    their standard deviation if there are several, and the mean less the truth; written to ``path``
    if given.

    Colours mean the same in every line, and of truth and mean; those of the error are symmetric.
    ``maps``: Float[M, n, n], in standard deviations from the mean map. ``truth``, ``mean``,
    ``deviation``: Float[M, H, W]. ``draws``: how many images ``mean`` is of.

    Raises ``ValueError`` without a sample or for shapes that do not belong together.
    """
    same = truth.shape == mean.shape == deviation.shape
    if not same or not len(maps) == len(truth) > 0 or not truth.ndim == maps.ndim == 3:
        raise ValueError(
            f"maps {maps.shape}, truth {truth.shape}, mean {mean.shape} and deviation "
            f"{deviation.shape} do not belong together; expected (M, n, n), (M, H, W) three times, "
            "and at least one sample"
        )
    maps, truth, mean, deviation = (x[:MAX_SAMPLES] for x in (maps, truth, mean, deviation))
    error = mean - truth
    most = float(np.abs(error).max()) or 1.0
    scale = Normalize(float(truth.min()), float(truth.max()))
    panels = [
        _Panel("Map", maps, DIFFERENCE_MAP, Normalize(-_SPAN, _SPAN)),
        _Panel("True", truth, SHARE_MAP, scale),
        _Panel(f"Mean of {draws} samples" if draws > 1 else "One sample", mean, SHARE_MAP, scale),
        _Panel("Error", error, DIFFERENCE_MAP, Normalize(-most, most)),
    ]
    if draws > 1:
        spread = Normalize(0.0, float(deviation.max()) or 1.0)
        panels.insert(3, _Panel("Spread of samples", deviation, SHARE_MAP, spread))
    figure, grid = _drawn(panels, height=_WIDTH)
    for axes, x, off in zip(grid[:, -1], truth, error, strict=True):
        axes.yaxis.set_label_position("right")
        axes.set_ylabel(_relative_l2(off, x), fontsize=LABEL_POINTS, color=MUTED_TEXT)
    _add_bar(figure, grid[:, :1], panels[0], "standard deviations", extend="both")
    _add_bar(figure, grid[:, 1:3], panels[1], "conductivity", extend="both")
    if draws > 1:
        _add_bar(figure, grid[:, 3:4], panels[3], "standard deviation")
    _add_bar(figure, grid[:, -1:], panels[-1], "mean − truth" if draws > 1 else "sample − truth")
    return save_figure(figure, path)


def plot_side_by_side(
    truth: Numbers, means: Mapping[str, Numbers], path: str | Path | None = None, *, draws: int
) -> Figure:
    """The first samples, a line of panels each: the true image and what every model makes of it;
    written to ``path`` if given.

    Colours mean the same in every panel; under each image of a model stands its relative L2.
    ``truth``: Float[M, H, W]. ``means``: by model, of that shape. ``draws``: of which they are the
    mean.

    Raises ``ValueError`` without a sample or a model, or for shapes that differ.
    """
    shapes = {name: mean.shape for name, mean in means.items()}
    if truth.ndim != 3 or len(truth) == 0 or {*shapes.values()} != {truth.shape}:
        raise ValueError(
            f"truth {truth.shape} and images of models {shapes}: expected (M, H, W) of all, at "
            "least one sample and one model"
        )
    truth = truth[:MAX_SAMPLES]
    scale = Normalize(float(truth.min()), float(truth.max()))
    panels = [
        _Panel(name, images[:MAX_SAMPLES], SHARE_MAP, scale)
        for name, images in [("True", truth), *means.items()]
    ]
    figure, grid = _drawn(panels, height=_WIDTH + 0.25)
    for column, panel in zip(grid.T[1:], panels[1:], strict=True):
        for axes, x, image in zip(column, truth, panel.images, strict=True):
            axes.set_xlabel(_relative_l2(image - x, x), fontsize=LABEL_POINTS, color=MUTED_TEXT)
    of = f"mean of {draws} samples" if draws > 1 else "one sample"
    _add_bar(figure, grid, panels[0], f"conductivity; of models the {of}", extend="both")
    return save_figure(figure, path)


def _drawn(panels: Sequence[_Panel], height: float) -> tuple[Figure, NDArray[np.object_]]:
    """A figure and its axes, a column per panel and a line of ``height`` inches per sample, without
    ticks, in a faint frame: most of an image is as light as the page."""
    num = len(panels[0].images)
    figure = new_figure(_WIDTH * len(panels) + 0.4, height * num + 1.1)
    grid = figure.subplots(num, len(panels), squeeze=False)
    for column, panel in zip(grid.T, panels, strict=True):
        column[0].set_title(panel.title, loc="left", fontsize=TITLE_POINTS, color=TEXT, pad=8)
        for axes, image in zip(column, panel.images, strict=True):
            axes.imshow(image, cmap=panel.colours, norm=panel.norm, interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
            for spine in axes.spines.values():
                spine.set_color(LINE)
    return figure, grid


def _relative_l2(error: Numbers, truth: Numbers) -> str:
    value = float(np.linalg.norm(error)) / max(float(np.linalg.norm(truth)), 1e-12)
    return f"relative L2 {value:.3f}"


def _add_bar(
    figure: Figure,
    column: NDArray[np.object_],
    panel: _Panel,
    label: str,
    extend: Literal["neither", "both"] = "neither",
) -> None:
    """Under columns of panels, what their colours mean."""
    rows, width = column.shape
    add_colour_bar(
        figure,
        panel.colours,
        panel.norm,
        label,
        ax=column,
        location="bottom",
        extend=extend,
        aspect=16 * width,
        shrink=0.86 / width**0.5,
        fraction=0.03,
        pad=0.08 / rows,
    )
