"""Reliability diagrams: predicted probability against observed frequency, by masked share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from discrete_diffusion.viz.chart_style import (
    GROUP_COLOURS,
    LABEL_POINTS,
    TICK_POINTS,
    add_legend,
    new_figure,
    save,
    style_axes,
)
from discrete_diffusion.viz.palette import LINE, MUTED_TEXT

Array = NDArray[np.float64]

FEWEST_EVENTS = 100
"""A bin with fewer events says too little to be drawn: its standard error may pass 5 points."""

_MASKED_MAP = LinearSegmentedColormap.from_list(
    "masked", ["#f2c14e", "#e07a5f", "#a64d79", "#5b3a78", "#22223b"]
)
"""Little masked in yellow, much in dark purple: monotone in lightness."""


@dataclass(frozen=True)
class ReliabilityPanel:
    """One token group. ``predicted``, ``observed``, ``num_events``: Float[S, K] by masked share and
    bin; ``error``: Float[S], its calibration error."""

    name: str
    predicted: Array
    observed: Array
    num_events: Array
    error: Array


def draw_reliability(
    shares: Sequence[float],
    panels: Sequence[ReliabilityPanel],
    path: str | Path | None = None,
) -> Figure:
    """A reliability diagram per token group, then the calibration errors; written to ``path`` if
    given. ``shares``: Float[S], the masked shares, evenly spaced and increasing."""
    figure = new_figure(3.9 * (len(panels) + 1) + 0.9, 4.3)
    *axes_of_panels, last = figure.subplots(1, len(panels) + 1, squeeze=False)[0]
    step = (shares[-1] - shares[0]) / (len(shares) - 1) if len(shares) > 1 else 0.1
    norm = BoundaryNorm(np.array([*shares, shares[-1] + step]) - step / 2, _MASKED_MAP.N)
    for axes, panel in zip(axes_of_panels, panels, strict=True):
        _draw_panel(axes, shares, panel, norm)
    bar = figure.colorbar(
        ScalarMappable(norm, _MASKED_MAP),
        ax=axes_of_panels or last,
        aspect=26,
        pad=0.02,
        shrink=0.8,
    )
    bar.set_ticks(list(shares), labels=[f"{100 * share:.0f}" for share in shares])
    bar.set_label("masked share (%)", fontsize=LABEL_POINTS, color=MUTED_TEXT)
    bar.ax.tick_params(labelsize=TICK_POINTS, labelcolor=MUTED_TEXT, length=0)
    bar.ax.minorticks_off()
    bar.outline.set_visible(False)
    _draw_errors(last, shares, panels)
    return save(figure, path)


def _draw_panel(
    axes: Axes, shares: Sequence[float], panel: ReliabilityPanel, norm: BoundaryNorm
) -> None:
    dashes = (0, (4, 3))
    axes.plot([0, 1], [0, 1], color=LINE, linewidth=1.2, linestyle=dashes, label="calibrated")
    for s, share in enumerate(shares):
        enough = panel.num_events[s] >= FEWEST_EVENTS
        axes.plot(
            panel.predicted[s][enough],
            panel.observed[s][enough],
            color=_MASKED_MAP(norm(share)),
            linewidth=1.3,
            marker="o",
            markersize=3.6,
            markeredgewidth=0,
        )
    style_axes(
        axes,
        title=panel.name,
        xlabel="predicted probability (%)",
        ylabel="observed frequency (%)",
        grid="both",
    )
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, symbol=""))
    add_legend(axes, loc="lower right")


def _draw_errors(axes: Axes, shares: Sequence[float], panels: Sequence[ReliabilityPanel]) -> None:
    percent = 100 * np.asarray(shares)
    for colour, panel in zip(cycle(GROUP_COLOURS), panels, strict=False):
        axes.plot(
            percent, 100 * panel.error, color=colour, marker="o", markersize=4, label=panel.name
        )
    style_axes(axes, title="Calibration error", xlabel="masked share (%)", ylabel="error (points)")
    axes.set_xticks(percent)
    axes.set_ylim(0, None)
    if panels:
        add_legend(axes)
