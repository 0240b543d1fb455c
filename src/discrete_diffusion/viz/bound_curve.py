"""Where in time the bound is spent: its integrand, and what a token costs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from discrete_diffusion.viz.chart_style import (
    GROUP_COLOURS,
    TICK_POINTS,
    add_legend,
    new_figure,
    save,
    style_axes,
)
from discrete_diffusion.viz.palette import MUTED_TEXT, TEXT

Array = NDArray[np.float64]


def draw_bound_by_time(
    edges: Array,
    integrand: Mapping[str, Array],
    cross_entropy: Mapping[str, Array],
    path: str | Path | None = None,
    *,
    standard_error: Array,
    uniform: Mapping[str, float],
    token: str = "masked token",
) -> Figure:
    """The integrand of the NELBO against t, stacked by token group (the area is the NELBO), and the
    mean cross-entropy per token; written to ``path`` if given.

    ``edges``: Float[T + 1], limits of the time bins. ``integrand``, ``cross_entropy``: Float[T] by
    group name, nats; NaN where there is none. ``standard_error``: Float[T], of the stacked sum.
    ``uniform``: what a uniform guess costs per token, by group. ``token``: what the second panel
    counts.
    """
    figure = new_figure(9.6, 4.1)
    left, right = figure.subplots(1, 2)
    _draw_integrand(left, edges, integrand, standard_error)
    middle = (edges[1:] + edges[:-1]) / 2
    for colour, (name, values) in zip(cycle(GROUP_COLOURS), cross_entropy.items(), strict=False):
        right.plot(middle, values, color=colour, marker="o", markersize=3.6, label=name)
        right.axhline(uniform[name], color=colour, linewidth=1.0, linestyle=(0, (2, 2)))
    style_axes(
        right,
        title=f"Mean cross-entropy per {token}",
        xlabel="time t (0 clean, 1 noise)",
        ylabel="nats per token",
    )
    guess = max(uniform.values())
    right.text(0.01, guess, "uniform guess", va="bottom", fontsize=TICK_POINTS, color=MUTED_TEXT)
    right.set(xlim=(0, 1), ylim=(0, 1.1 * _highest(guess, *cross_entropy.values())))
    add_legend(right, loc="lower right")
    return save(figure, path)


def _draw_integrand(
    axes: Axes, edges: Array, integrand: Mapping[str, Array], standard_error: Array
) -> None:
    below = np.zeros(len(edges) - 1)
    for colour, (name, values) in zip(cycle(GROUP_COLOURS), integrand.items(), strict=False):
        area = float((values * np.diff(edges)).sum())
        axes.stairs(
            below + values,
            edges,
            baseline=below,
            fill=True,
            color=colour,
            alpha=0.85,
            label=f"{name}: {area:.2f} nats",
        )
        below = below + values
    middle = (edges[1:] + edges[:-1]) / 2
    axes.errorbar(
        middle, below, yerr=standard_error, fmt="none", ecolor=TEXT, elinewidth=0.9, capsize=1.5
    )
    total = float((below * np.diff(edges)).sum())
    style_axes(
        axes,
        title=f"The bound by time: area {total:.2f} nats",
        xlabel="time t (0 clean, 1 noise)",
        ylabel="NELBO integrand (nats per unit of t)",
    )
    axes.set(xlim=(0, 1), ylim=(0, 1.22 * _highest(below + standard_error)))
    add_legend(axes, loc="upper center", ncols=2)


def _highest(*values: Array | float) -> float:
    """The largest finite one of some numbers and arrays; 1 if there is none."""
    joined = np.concatenate([np.atleast_1d(value) for value in values])
    return float(joined[np.isfinite(joined)].max(initial=0.0)) or 1.0
