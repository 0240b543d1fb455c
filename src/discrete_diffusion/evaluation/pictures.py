"""Pictures of the scores of a model on held-out data."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from discrete_diffusion.evaluation.noise_levels import BoundByTime, Calibration
from discrete_diffusion.evaluation.sample_scores import plus_minus
from discrete_diffusion.viz.chart_style import (
    GROUP_COLOURS,
    LINE,
    MUTED_TEXT,
    TEXT,
    TICK_POINTS,
    add_colour_bar,
    add_legend,
    new_figure,
    save_figure,
    style_axes,
)

_MASKED_MAP = LinearSegmentedColormap.from_list(
    "masked", ["#f2c14e", "#e07a5f", "#a64d79", "#5b3a78", "#22223b"]
)
"""Colours of masked shares: from yellow to dark purple, monotone in lightness."""


def plot_calibration(
    calibration: Calibration, titles: Mapping[str, str], path: Path | None = None
) -> Figure:
    """Plot a reliability diagram per token group that has events, then the calibration errors.

    ``titles``: plural names of token groups; a group without an entry gets its name with an s. The
    figure is written to ``path`` if given. The masked shares are evenly spaced and increasing.
    """
    # groups that have events
    shares = calibration.shares
    measured = {
        _group_title(group, titles).capitalize(): g
        for g, group in enumerate(calibration.groups)
        if calibration.num_positions[:, g].any()
    }
    figure = new_figure(3.9 * (len(measured) + 1) + 0.9, 4.3)
    *diagrams, last = figure.subplots(1, len(measured) + 1, squeeze=False)[0]
    # colours of the masked shares
    step = (shares[-1] - shares[0]) / (len(shares) - 1) if len(shares) > 1 else 0.1
    norm = BoundaryNorm(np.array([*shares, shares[-1] + step]) - step / 2, _MASKED_MAP.N)
    # a diagram for each group
    for axes, (title, g) in zip(diagrams, measured.items(), strict=True):
        _plot_reliability(axes, calibration, g, norm)
        style_axes(
            axes,
            title=title,
            xlabel="predicted probability (%)",
            ylabel="observed frequency (%)",
            grid="both",
        )
        add_legend(axes, loc="lower right")
    # meaning of the colours
    bar = add_colour_bar(
        figure,
        _MASKED_MAP,
        norm,
        "masked share (%)",
        ax=diagrams or last,
        aspect=26,
        pad=0.02,
        shrink=0.8,
    )
    bar.set_ticks(list(shares), labels=[f"{100 * share:.0f}" for share in shares])
    bar.ax.tick_params(length=0)
    bar.ax.minorticks_off()
    # errors of all groups
    percent = 100 * np.asarray(shares)
    for colour, (title, g) in zip(cycle(GROUP_COLOURS), measured.items(), strict=False):
        error = 100 * calibration.error[:, g].numpy()
        last.plot(percent, error, color=colour, marker="o", markersize=4, label=title)
    style_axes(last, title="Calibration error", xlabel="masked share (%)", ylabel="error (points)")
    last.set_xticks(percent)
    last.set_ylim(0, None)
    if measured:
        add_legend(last)
    return save_figure(figure, path)


def _plot_reliability(axes: Axes, calibration: Calibration, g: int, norm: BoundaryNorm) -> None:
    """Plot observed frequency against predicted probability, a curve per masked share."""
    # the diagonal is calibrated
    dashes = (0, (4, 3))
    axes.plot([0, 1], [0, 1], color=LINE, linewidth=1.2, linestyle=dashes, label="calibrated")
    # curves of bins with enough events: the standard error is at most 5 points
    for s, share in enumerate(calibration.shares):
        enough = calibration.num_events[s, g] >= 100
        axes.plot(
            calibration.predicted[s, g][enough].numpy(),
            calibration.observed[s, g][enough].numpy(),
            color=_MASKED_MAP(norm(share)),
            linewidth=1.3,
            marker="o",
            markersize=3.6,
            markeredgewidth=0,
        )
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, symbol=""))


def plot_bound_by_time(
    by_time: BoundByTime,
    titles: Mapping[str, str],
    path: Path | None = None,
    *,
    token: str = "masked token",
) -> Figure:
    """Plot the integrand of the NELBO against t, and the mean cross-entropy per ``token``.

    The integrand is stacked by token group; its area is the NELBO. The figure is written to
    ``path`` if given.
    """
    figure = new_figure(9.6, 4.1)
    left, right = figure.subplots(1, 2)
    edges, standard_error = by_time.edges.numpy(), by_time.standard_error.numpy()
    middle, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    below, uniform = np.zeros(len(middle)), by_time.uniform.numpy()
    # groups stacked on each other at the left; curves and uniform guesses at the right
    for g, (group, colour) in enumerate(zip(by_time.groups, cycle(GROUP_COLOURS), strict=False)):
        integrand, title = by_time.integrand[:, g].numpy(), _group_title(group, titles)
        label = f"{title}: {(integrand * width).sum():.2f} nats"
        left.stairs(
            below + integrand,
            edges,
            baseline=below,
            fill=True,
            color=colour,
            alpha=0.85,
            label=label,
        )
        below = below + integrand
        entropy = by_time.cross_entropy[:, g].numpy()
        right.plot(middle, entropy, color=colour, marker="o", markersize=3.6, label=title)
        right.axhline(uniform[g], color=colour, linewidth=1.0, linestyle=(0, (2, 2)))
    # error of the sum
    bars: dict[str, Any] = {"ecolor": TEXT, "elinewidth": 0.9, "capsize": 1.5}
    left.errorbar(middle, below, yerr=standard_error, fmt="none", **bars)
    area = plus_minus(float((below * width).sum()), by_time.nelbo_standard_error, 2)
    xlabel = "time t (0 clean, 1 noise)"
    style_axes(
        left,
        title=f"The bound by time: area {area} nats",
        xlabel=xlabel,
        ylabel="NELBO integrand (nats per unit of t)",
    )
    left.set(xlim=(0, 1), ylim=(0, 1.22 * _highest_finite(below + standard_error)))
    add_legend(left, loc="upper center", ncols=2)
    # height of the guesses
    title = f"Mean cross-entropy per {token}"
    style_axes(right, title=title, xlabel=xlabel, ylabel="nats per token")
    guess = {"va": "bottom", "fontsize": TICK_POINTS, "color": MUTED_TEXT}
    right.text(0.01, uniform.max(), "uniform guess", **guess)
    right.set(xlim=(0, 1), ylim=(0, 1.1 * _highest_finite(by_time.cross_entropy.numpy(), uniform)))
    add_legend(right, loc="lower right")
    return save_figure(figure, path)


def _highest_finite(*values: NDArray[np.float64]) -> float:
    """Largest finite number; 1 if none is above 0."""
    joined = np.concatenate([value.ravel() for value in values])
    return float(joined[np.isfinite(joined)].max(initial=0.0)) or 1.0


def _group_title(group: str, titles: Mapping[str, str]) -> str:
    return titles.get(group, f"{group}s")
