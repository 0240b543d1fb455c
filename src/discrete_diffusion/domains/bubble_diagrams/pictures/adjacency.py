"""Heat maps by pair of room types: how often two such rooms are related."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from discrete_diffusion.viz.chart_style import (
    DIFFERENCE_MAP,
    LABEL_POINTS,
    SHARE_MAP,
    TICK_POINTS,
    new_figure,
    save,
    style_axes,
)
from discrete_diffusion.viz.palette import LINE, MUTED_TEXT, TEXT

Array = NDArray[np.float64]

_SMALLEST_SPAN = 0.1
"""Differences are coloured on at least -10 to 10 points, so that noise stays pale."""


def draw_adjacency(
    real: Array,
    sampled: Array,
    names: Sequence[str],
    path: str | Path | None = None,
    *,
    note: str = "",
) -> Figure:
    """Three heat maps: real, sampled, and sampled minus real; written to ``path`` if given.

    ``real``, ``sampled``: Float[K, K] symmetric shares in 0..1 of pairs that are related, NaN where
    there is nothing to say (left blank). ``names``: of the K types; a type that is blank in both is
    left out. ``note``: a line below the maps.

    Raises ``ValueError`` if the arrays are not K x K.
    """
    if not real.shape == sampled.shape == (len(names), len(names)):
        raise ValueError(
            f"{len(names)} names for arrays of shape {real.shape} and {sampled.shape}; expected "
            f"{(len(names), len(names))} twice"
        )
    known = ~(np.isnan(real) & np.isnan(sampled))
    keep = np.flatnonzero(known.any(axis=0) if known.any() else np.ones(len(names)))
    square = np.ix_(keep, keep)
    real, sampled = real[square], sampled[square]
    labels = [names[k] for k in keep.tolist()]
    side = max(3.2, 0.4 * len(labels) + 1.0)
    figure = new_figure(3 * side + 1.4, side + (0.3 if note else 0.0))
    maps = figure.subplots(1, 3)
    difference = sampled - real
    span = max(_SMALLEST_SPAN, float(np.nanmax(np.abs(difference), initial=0.0)))
    whole = Normalize(0, 1)
    _draw_map(maps[0], real, labels, "Real", SHARE_MAP, whole)
    _draw_map(maps[1], sampled, labels, "Sampled", SHARE_MAP, whole)
    signed = Normalize(-span, span)
    _draw_map(maps[2], difference, labels, "Sampled − real", DIFFERENCE_MAP, signed, signed=True)
    _add_bar(figure, list(maps[:2]), SHARE_MAP, whole, "related pairs (%)")
    _add_bar(figure, [maps[2]], DIFFERENCE_MAP, signed, "difference (points)")
    if note:
        figure.supxlabel(note, fontsize=TICK_POINTS, color=MUTED_TEXT)
    return save(figure, path)


def _draw_map(
    axes: Axes,
    values: Array,
    labels: Sequence[str],
    title: str,
    colours: Colormap,
    norm: Normalize,
    *,
    signed: bool = False,
) -> None:
    lower = np.tril(np.ones_like(values, dtype=bool))  # symmetric: the rest says the same
    shown = np.where(lower, values, np.nan)
    axes.imshow(shown, cmap=colours, norm=norm, interpolation="nearest")
    style_axes(axes, title=title, xlabel="", ylabel="", grid=None)
    ticks = np.arange(len(labels))
    axes.set_xticks(ticks, labels, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(ticks, labels)
    axes.tick_params(length=0, labelcolor=TEXT)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xticks(ticks[1:] - 0.5, minor=True)
    axes.set_yticks(ticks[1:] - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.6)
    axes.tick_params(which="minor", length=0)
    for row, column in zip(*np.nonzero(lower), strict=True):
        value = shown[row, column]
        text, ink = "·", LINE
        if not np.isnan(value):
            text = _signed(100 * value) if signed else f"{100 * value:.0f}"
            red, green, blue, _ = colours(norm(value))
            ink = "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.55 else TEXT
        cell = axes.text(column, row, text, ha="center", va="center", fontsize=7.0, color=ink)
        cell.set_in_layout(False)  # it lies inside the axes; measuring it would only take time


def _signed(points: float) -> str:
    """+3, −3 or 0."""
    return f"{round(points):+d}".replace("-", "−") if round(points) else "0"


def _add_bar(
    figure: Figure, beside: list[Axes], colours: Colormap, norm: Normalize, label: str
) -> None:
    from matplotlib.cm import ScalarMappable

    bar = figure.colorbar(
        ScalarMappable(norm, colours), ax=beside, shrink=0.62, aspect=22, pad=0.02
    )
    bar.set_label(label, fontsize=LABEL_POINTS, color=MUTED_TEXT)
    bar.ax.tick_params(labelsize=TICK_POINTS, labelcolor=MUTED_TEXT, color=LINE, length=3)
    bar.outline.set_visible(False)
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}".replace("-", "−"))
