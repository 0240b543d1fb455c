"""Charts of the accuracy of hidden rows: by column, and by how much is hidden."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from continuous_states.regions.region_maps import MOST_NAMES
from continuous_states.regions.row_scores import FillingScores
from discrete_diffusion.viz import (
    GROUP_COLOURS,
    LINE,
    MUTED_TEXT,
    REAL,
    SAMPLED,
    TEXT,
    TICK_POINTS,
    add_legend,
    new_figure,
    save_figure,
    style_axes,
)

_LOOKS: dict[str, dict[str, Any]] = {
    "model": {"color": SAMPLED, "marker": "o"},
    "neighbour_mean": {"color": REAL, "marker": "s"},
    "oracle": {"color": GROUP_COLOURS[0], "marker": "D"},
}
"""Predictions that are plotted, and how."""


def plot_row_scores(
    scores: FillingScores,
    by_rate: Sequence[FillingScores],
    feature_names: Sequence[str],
    path: str | Path | None = None,
) -> Figure:
    """Pearson's r of every column, highest of the model first, and its mean against the mask rate;
    of the model, the neighbour mean and, where it is known, the oracle; written to ``path`` if
    given. A column that was dropped is left out. ``feature_names``: of the M columns."""
    figure = new_figure(11.0, 4.3)
    columns, rates = figure.subplots(1, 2, width_ratios=[1.8, 1])
    _plot_columns(columns, scores, feature_names)
    _plot_rates(rates, by_rate)
    return save_figure(figure, path)


def _plot_columns(axes: Axes, scores: FillingScores, names: Sequence[str]) -> None:
    found = scores.by_name
    model = found["model"].r.numpy()
    order = [int(k) for k in np.argsort(-model, kind="stable") if not np.isnan(model[k])]
    at = np.arange(len(order))
    shown = [name for name in _LOOKS if name in found]
    stacked = np.stack([found[name].r.numpy()[order] for name in shown])
    axes.vlines(at, stacked.min(axis=0), stacked.max(axis=0), color=LINE, linewidth=0.8, zorder=1)
    for name, values in zip(shown, stacked, strict=True):
        label = name.replace("_", " ")
        axes.plot(
            at,
            values,
            linestyle="none",
            markersize=4.6 if len(order) <= MOST_NAMES else 2.2,
            markeredgewidth=0,
            label=f"{label}: mean {values.mean():.3f}" if order else label,
            **_LOOKS[name],
        )
    style_axes(axes, title="By feature", xlabel="", ylabel="correlation with the truth, r")
    if len(order) <= MOST_NAMES:
        axes.set_xticks(at, [names[k] for k in order], rotation=90, fontsize=TICK_POINTS - 1.5)
        axes.tick_params(axis="x", length=0, labelcolor=TEXT)
    else:
        axes.set_xlabel(f"{len(order)} features, best predicted first", color=MUTED_TEXT)
        axes.set_xticks([])
    axes.axhline(0.0, color=LINE, linewidth=1.0, zorder=0)
    axes.margins(x=0.02)
    add_legend(axes, loc="best")


def _plot_rates(axes: Axes, by_rate: Sequence[FillingScores]) -> None:
    percent = [100 * scores.mask_rate for scores in by_rate]
    for name in by_rate[0].by_name:
        r = [scores.by_name[name].per_motif_r for scores in by_rate]
        axes.plot(percent, r, markersize=4.6, label=name.replace("_", " "), **_LOOKS[name])
    style_axes(axes, title="By mask rate", xlabel="hidden rows (%)", ylabel="mean r over features")
    axes.set_xticks(percent, [f"{value:g}" for value in percent])
    axes.set_xlim(0, 100)
    axes.set_ylim(min(0.0, *axes.get_ylim()), None)
    add_legend(axes, loc="best")
