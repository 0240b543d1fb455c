"""Heat maps of windows: the true rows, those that are observed, and the hidden ones filled in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage

from continuous_states.regions.filling import Filling
from discrete_diffusion.viz import (
    DIFFERENCE_MAP,
    LABEL_POINTS,
    MUTED_TEXT,
    TEXT,
    TICK_POINTS,
    TITLE_POINTS,
    add_colour_bar,
    new_figure,
    save_figure,
    style_axes,
)

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

MAX_WINDOWS = 3
_SPAN = 2.5
"""Colours end at so many standard deviations."""
_HIDDEN, _HATCH = "#d8d8d6", "#c4c4c1"
MOST_NAMES = 44
"""More columns than that are numbered, not named."""


def plot_region_maps(
    filling: Filling,
    path: str | Path | None = None,
    *,
    feature_names: Sequence[str],
    truth_title: str = "True",
) -> Figure:
    """The first windows, a line of three maps each: true, observed (hidden rows blank, as they are
    to the model) and filled (predicted, without a sampler), with the hidden rows marked at the
    side; written to ``path`` if given.

    Every column is in standard deviations from its mean over the true rows of all windows given;
    alike columns stand side by side. ``feature_names``: of the M columns.

    Raises ``ValueError`` without a real row or for another number of names.
    """
    truth, masked, real = (x.numpy() for x in (filling.truth, filling.masked, filling.real))
    if truth.shape[2] != len(feature_names) or not real.any():
        raise ValueError(
            f"{len(feature_names)} names for {int(real.sum())} rows of {truth.shape[2]} columns; "
            "expected one per column, and at least one real row"
        )
    drawn, title = filling.filled, "Filled"
    if drawn is None:
        drawn, title = filling.predicted, "Predicted"
    rows = truth[real]
    truth, filled = _z_scores(truth, rows), _z_scores(drawn.numpy(), rows)
    order = similar_columns(truth[real])
    names = [feature_names[k] for k in order.tolist()]
    num = min(MAX_WINDOWS, len(truth))
    figure = new_figure(11.2, 0.9 + 3.1 * num + (0.7 if len(names) <= MOST_NAMES else 0.0))
    grid = figure.subplots(num, 3, squeeze=False, sharex=True, sharey="row")
    norm = Normalize(-_SPAN, _SPAN)
    for w in range(num):
        _draw_window(grid[w], truth[w][:, order], filled[w][:, order], masked[w], real[w], norm)
        grid[w][0].set_ylabel(f"window {w + 1}: region", fontsize=LABEL_POINTS, color=MUTED_TEXT)
    _title(grid[0][0], truth_title)
    _title(grid[0][2], f"{title} (bars: hidden rows)")
    for axes in grid[-1]:
        _name_columns(axes, names)
    _add_colours(figure, grid, norm)
    return save_figure(figure, path)


def _add_colours(figure: Figure, grid: NDArray[np.object_], norm: Normalize) -> None:
    """One bar of colours for all maps of ``grid``."""
    add_colour_bar(
        figure,
        DIFFERENCE_MAP,
        norm,
        "standard deviations from the mean",
        ax=grid,
        extend="both",
        aspect=14 + 8 * len(grid),
        shrink=0.6 if len(grid) > 1 else 0.9,
        fraction=0.03,
        pad=0.015,
    )


def _draw_window(
    line: Sequence[Axes], truth: Array, filled: Array, masked: Flags, real: Flags, norm: Normalize
) -> None:
    """One window's three maps: true, observed, filled with its hidden rows marked. Values are
    Float[N, M], flags Bool[N]."""
    hidden, size = masked & real, int(np.flatnonzero(real).max(initial=-1)) + 1
    seen = np.where(hidden[:, None], np.nan, truth)
    for axes, values in zip(line, (truth, seen, filled), strict=True):
        _draw_map(axes, np.where(real[:, None], values, np.nan)[:size], norm)
    _mark_rows(line[2], hidden[:size])
    _title(line[1], f"Observed: {hidden.sum()} of {real.sum()} rows hidden")


def _z_scores(values: NDArray[np.floating], rows: NDArray[np.floating]) -> Array:
    """Float64[W, N, M] in standard deviations of Float[rows, M] from their mean; 0 in a column that
    is constant there."""
    rows = rows.astype(np.float64)
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    scale[scale <= 1e-12 * np.abs(rows).max(axis=0)] = np.inf
    return (values - mean) / scale


def similar_columns(values: Array) -> NDArray[np.intp]:
    """Int[M]: an order of the columns of Float[rows, M] in which alike ones are neighbours: the
    leaves of average linkage on Euclidean distance (of z-scores: a function of correlation)."""
    return leaves_list(linkage(values.T, method="average", optimal_ordering=True)).astype(np.intp)


def _draw_map(axes: Axes, values: Array, norm: Normalize) -> None:
    axes.patch.set(facecolor=_HIDDEN, edgecolor=_HATCH, hatch="/////", linewidth=0)
    axes.imshow(values, cmap=DIFFERENCE_MAP, norm=norm, aspect="auto", interpolation="nearest")
    style_axes(axes, title="", xlabel="", ylabel="", grid=None)
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)


def _title(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=TITLE_POINTS, color=TEXT, pad=10)


def _mark_rows(axes: Axes, hidden: Flags) -> None:
    """A bar at the right of every run of hidden rows."""
    edges = np.flatnonzero(np.diff(hidden.astype(int), prepend=0, append=0)).reshape(-1, 2)
    ends = edges.T - np.array([[0.4], [0.6]])
    axes.plot(
        np.full(ends.shape, 1.015),
        ends,
        transform=axes.get_yaxis_transform(),
        color=MUTED_TEXT,
        linewidth=2.4,
        solid_capstyle="butt",
        clip_on=False,
    )


def _name_columns(axes: Axes, names: Sequence[str]) -> None:
    if len(names) <= MOST_NAMES:
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=TICK_POINTS - 2.2)
    else:
        axes.set_xticks([])
    axes.set_xlabel(
        f"{len(names)} features, alike ones together", fontsize=LABEL_POINTS, color=MUTED_TEXT
    )
