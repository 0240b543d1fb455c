"""How well hidden rows are predicted: by column, and by how much is hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from discrete_diffusion.viz.chart_style import (
    GROUP_COLOURS,
    LINE,
    MUTED_TEXT,
    REAL,
    SAMPLED,
    TEXT,
    TICK_POINTS,
    add_legend,
    new_figure,
    save,
    style_axes,
)

Array = NDArray[np.float64]

_MOST_NAMES = 44
_MARKERS = ("o", "s", "D", "^", "v")


def draw_row_scores(
    r: Mapping[str, Array],
    feature_names: Sequence[str],
    path: str | Path | None = None,
    *,
    rates: Sequence[float] = (),
    r_by_rate: Mapping[str, Sequence[float]] | None = None,
) -> Figure:
    """Pearson's r of every column, highest of the model first, and its mean against the mask rate
    if that is given; written to ``path`` if given.

    ``r``: Float[M] by who predicts, the model first; a column that is NaN to the model is left out.
    ``feature_names``: of the M columns. ``r_by_rate``: by who predicts, one mean per mask rate of
    ``rates`` in (0, 1).

    Raises ``ValueError`` for lengths that do not belong together, or if nobody predicts.
    """
    if not r or any(len(values) != len(feature_names) for values in r.values()):
        raise ValueError(
            f"{len(feature_names)} names for scores of lengths "
            f"{ {name: len(values) for name, values in r.items()} }; expected one per name"
        )
    r_by_rate = r_by_rate or {}
    if any(len(values) != len(rates) for values in r_by_rate.values()):
        raise ValueError(
            f"{len(rates)} mask rates for scores of lengths "
            f"{ {name: len(values) for name, values in r_by_rate.items()} }; expected one per rate"
        )
    looks = _looks([*r, *r_by_rate])
    figure = new_figure(11.0 if r_by_rate else 7.4, 4.3)
    panels = figure.subplots(
        1, 2 if r_by_rate else 1, squeeze=False, width_ratios=[1.8, 1] if r_by_rate else [1]
    )[0]
    _draw_columns(panels[0], r, feature_names, looks)
    if r_by_rate:
        _draw_rates(panels[1], rates, r_by_rate, looks)
    return save(figure, path)


def _looks(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Colour and marker by name, the first the model's."""
    colours = (SAMPLED, REAL, GROUP_COLOURS[0], GROUP_COLOURS[1], GROUP_COLOURS[3])
    distinct = list(dict.fromkeys(names))
    return {
        name: (colours[k % len(colours)], _MARKERS[k % len(_MARKERS)])
        for k, name in enumerate(distinct)
    }


def _draw_columns(
    axes: Axes,
    r: Mapping[str, Array],
    names: Sequence[str],
    looks: Mapping[str, tuple[str, str]],
) -> None:
    first = next(iter(r.values()))
    order = [int(k) for k in np.argsort(-first, kind="stable") if not np.isnan(first[k])]
    at = np.arange(len(order))
    sizes = 4.6 if len(order) <= _MOST_NAMES else 2.2
    stacked = np.stack([values[order] for values in r.values()])
    axes.vlines(at, stacked.min(axis=0), stacked.max(axis=0), color=LINE, linewidth=0.8, zorder=1)
    for name, values in r.items():
        colour, marker = looks[name]
        label = f"{name}: mean {np.nanmean(values[order]):.3f}" if order else name
        axes.plot(
            at,
            values[order],
            linestyle="none",
            color=colour,
            marker=marker,
            markersize=sizes,
            markeredgewidth=0,
            label=label,
        )
    style_axes(axes, title="By feature", xlabel="", ylabel="correlation with the truth, r")
    if len(order) <= _MOST_NAMES:
        axes.set_xticks(at, [names[k] for k in order], rotation=90, fontsize=TICK_POINTS - 1.5)
        axes.tick_params(axis="x", length=0, labelcolor=TEXT)
    else:
        axes.set_xlabel(f"{len(order)} features, best predicted first", color=MUTED_TEXT)
        axes.set_xticks([])
    axes.axhline(0.0, color=LINE, linewidth=1.0, zorder=0)
    axes.margins(x=0.02)
    add_legend(axes, loc="best")


def _draw_rates(
    axes: Axes,
    rates: Sequence[float],
    r_by_rate: Mapping[str, Sequence[float]],
    looks: Mapping[str, tuple[str, str]],
) -> None:
    percent = 100 * np.asarray(rates)
    for name, values in r_by_rate.items():
        colour, marker = looks[name]
        axes.plot(percent, values, color=colour, marker=marker, markersize=4.6, label=name)
    style_axes(axes, title="By mask rate", xlabel="hidden rows (%)", ylabel="mean r over features")
    axes.set_xticks(percent, [f"{value:g}" for value in percent])
    axes.set_xlim(0, 100)
    axes.set_ylim(min(0.0, *axes.get_ylim()), None)
    add_legend(axes, loc="best")
