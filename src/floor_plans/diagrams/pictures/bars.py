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

from discrete_diffusion.viz import REAL, SAMPLED, add_legend, new_figure, save_figure, style_axes

_MAX_TICKS = 16


@dataclass(frozen=True)
class BarPanel:
    """Two histograms of one quantity, of ``real`` and of ``sampled`` data, each shown as shares.

    ``names``: names of the bars, one per count; None numbers them 0, 1, ... and skips leading empty
    ones. ``of``: the things that are counted, for the label of the axis.
    """

    title: str
    xlabel: str
    of: str
    real: NDArray[np.float64]
    sampled: NDArray[np.float64]
    names: Sequence[str] | None = None


def plot_bars(panels: Sequence[BarPanel], path: str | Path | None = None) -> Figure:
    """Plot panels in a row, real against sampled; write the figure to ``path`` if given.

    Raises ``ValueError`` without panels.
    """
    if not panels:
        raise ValueError("no histograms to plot: give at least one panel")
    # width of each panel by its number of bars
    longest = [max(len(panel.real), len(panel.sampled)) for panel in panels]
    counts = [len(panel.names or range(n)) for panel, n in zip(panels, longest, strict=True)]
    widths = [max(3.4, 0.3 * count + 1.0) for count in counts]
    figure = new_figure(sum(widths), 3.9)
    grid = figure.subplots(1, len(panels), squeeze=False, width_ratios=widths)[0]
    # panels, then one legend
    for axes, panel, length in zip(grid, panels, longest, strict=True):
        _plot_panel(axes, panel, length)
    handles, labels = grid[0].get_legend_handles_labels()
    add_legend(figure, handles=handles, labels=labels, loc="outside upper right", ncols=2)
    return save_figure(figure, path)


def _plot_panel(axes: Axes, panel: BarPanel, length: int) -> None:
    real, sampled = _percent(panel.real, length), _percent(panel.sampled, length)
    # skip leading empty bars
    start = 0
    if panel.names is None and (real + sampled).any():
        start = int((real + sampled).nonzero()[0][0])
    at = np.arange(start, length)
    axes.bar(at - 0.2, real[start:], width=0.38, color=REAL, label="real")
    axes.bar(at + 0.2, sampled[start:], width=0.38, color=SAMPLED, label="sampled")
    style_axes(axes, title=panel.title, xlabel=panel.xlabel, ylabel=f"share of {panel.of} (%)")
    # ticks: numbers, at most _MAX_TICKS, or names
    if panel.names is None:
        axes.set_xticks(at[:: -(-len(at) // _MAX_TICKS)])
    else:
        axes.set_xticks(at, panel.names, rotation=40, ha="right", rotation_mode="anchor")
    axes.tick_params(axis="x", length=0)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
    axes.margins(x=0.02)


def _percent(counts: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """Percentages of the sum, padded with zeros to ``length``; all 0 for an empty histogram."""
    padded = np.pad(np.asarray(counts, dtype=np.float64), (0, length - len(counts)))
    return 100 * padded / padded.sum() if padded.any() else padded
