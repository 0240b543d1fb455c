"""Histograms of real data and of samples, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from discrete_diffusion.viz.chart_style import (
    LABEL_POINTS,
    REAL,
    SAMPLED,
    new_figure,
    save,
    shares,
    style_axes,
)
from discrete_diffusion.viz.palette import TEXT

Array = NDArray[np.float64]

_MAX_TICKS = 16


@dataclass(frozen=True)
class BarPanel:
    """One histogram twice: counts of ``real`` and of ``sampled``, each shown as its own shares.

    ``names``: of the bars, one per count; None numbers them 0, 1, ... and leaves out the empty ones
    before the first. ``title``, ``xlabel``; ``of``: what the shares are shares of.
    """

    title: str
    xlabel: str
    of: str
    real: Array
    sampled: Array
    names: Sequence[str] | None = None


def draw_bars(panels: Sequence[BarPanel], path: str | Path | None = None) -> Figure:
    """Panels in a row, real against sampled; written to ``path`` if given.

    Raises ``ValueError`` if there is no panel.
    """
    if not panels:
        raise ValueError("no histograms to draw: give at least one panel")
    widths = [_width(panel) for panel in panels]
    figure = new_figure(sum(widths), 3.9)
    grid = figure.add_gridspec(1, len(panels), width_ratios=widths)
    for k, panel in enumerate(panels):
        axes = figure.add_subplot(grid[0, k])
        _draw_panel(axes, panel)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside upper right",
        ncols=2,
        frameon=False,
        fontsize=LABEL_POINTS,
        labelcolor=TEXT,
    )
    return save(figure, path)


def _width(panel: BarPanel) -> float:
    """Inches."""
    count = len(panel.names) if panel.names else max(len(panel.real), len(panel.sampled))
    return max(3.4, 0.3 * count + 1.0)


def _draw_panel(axes: Axes, panel: BarPanel) -> None:
    length = max(len(panel.real), len(panel.sampled))
    real, sampled = shares(panel.real, length), shares(panel.sampled, length)
    start = 0
    if panel.names is None:
        start = int(np.flatnonzero(real + sampled)[0]) if (real + sampled).any() else 0
    at = np.arange(start, length)
    axes.bar(at - 0.2, real[start:], width=0.38, color=REAL, label="real")
    axes.bar(at + 0.2, sampled[start:], width=0.38, color=SAMPLED, label="sampled")
    style_axes(axes, title=panel.title, xlabel=panel.xlabel, ylabel=f"share of {panel.of} (%)")
    if panel.names is None:
        step = -(-len(at) // _MAX_TICKS)
        axes.set_xticks(at[::step])
    else:
        axes.set_xticks(at, panel.names, rotation=40, ha="right", rotation_mode="anchor")
    axes.tick_params(axis="x", length=0)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
    axes.margins(x=0.02)
