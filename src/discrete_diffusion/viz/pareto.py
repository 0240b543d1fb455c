"""Figure of compared models: differences of their bounds, and quality against network calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from discrete_diffusion.viz.chart_style import (
    LABEL_POINTS,
    LINE,
    MUTED_TEXT,
    REAL,
    SAMPLED,
    TEXT,
    TITLE_POINTS,
    add_legend,
    new_figure,
    save_figure,
    style_axes,
)

_FAINT = 0.5
"""Opacity of a doubtful difference."""
_LABEL_GAP = 0.062
"""Least distance of two labels, as a share of the axes' height."""


@dataclass(frozen=True)
class ModelPoint:
    """One model of the figure; NaN for missing numbers.

    ``difference``: difference of the bound, or of another number, to the reference, with its
    standard ``error``; ``calls``: network calls per sample; ``quality``: quality of samples, a
    number or a share of 1, with the standard error ``quality_error``. ``replaced``: True if another
    backbone stands in. ``is_reference``: True if differences are measured against this model.
    ``is_doubtful``: True if a few noise samples dominate the difference and its error.
    """

    label: str
    difference: float
    error: float
    calls: float
    quality: float
    quality_error: float = math.nan
    replaced: bool = False
    is_reference: bool = False
    is_doubtful: bool = False


@dataclass(frozen=True)
class QualityAxis:
    """Axis of the quality of samples, called ``name``; in percent if it is a share."""

    name: str = ""
    is_share: bool = False
    more_is_better: bool = True


def plot_pareto(
    points: Sequence[ModelPoint],
    path: str | Path | None = None,
    *,
    quantity: str,
    quality: QualityAxis,
    measure: str = "Bound",
    title: str = "",
) -> Figure:
    """Plot differences of the bound, or of another ``measure``, and ``quality`` against calls.

    Error bars show one standard error. A single point has no difference. Of three or more models a
    line joins those that no other model beats in both calls and quality. ``quantity``: the unit of
    the measure. The second panel is left out if no quality is known. Raises ``ValueError`` for an
    empty list, or nothing to plot.
    """
    # what is measured
    if not points:
        raise ValueError("no models to plot: give at least one point")
    shown = [p for p in points if math.isfinite(p.calls) and math.isfinite(p.quality)]
    if quality.is_share:
        shown = [
            replace(
                p, quality=100 * min(max(p.quality, 0.0), 1.0), quality_error=100 * p.quality_error
            )
            for p in shown
        ]
    num_panels = (len(points) > 1) + bool(shown)
    if num_panels == 0:
        raise ValueError("nothing to plot: one model without samples; give another, or samples")
    front = _front(shown, quality.more_is_better) if len(shown) > 2 else []
    # differences at the left, quality at the right
    figure = new_figure(10.4 if num_panels == 2 else 6.2, max(3.6, 0.42 * len(points) + 2.2))
    panels = figure.subplots(1, num_panels, squeeze=False)[0]
    if len(points) > 1:
        _plot_differences(panels[0], [p for p in points if math.isfinite(p.difference)])
        style_axes(
            panels[0],
            title=f"{measure}, difference to {_references(points)}",
            xlabel=f"{quantity}, ± one standard error (left is better)",
            grid="x",
        )
        panels[0].tick_params(axis="y", length=0, labelcolor=TEXT, labelsize=LABEL_POINTS)
        panels[0].spines["left"].set_visible(False)
    if shown:
        _plot_quality(panels[-1], shown, front)
        _style_quality(panels[-1], quality)
        _label(panels[-1], shown)
    # title and legend
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=TITLE_POINTS, color=MUTED_TEXT)
    if handles := _legend(points, has_front=len(front) > 1):
        add_legend(figure, handles=handles, loc="outside lower center", ncols=len(handles))
    return save_figure(figure, path)


def _legend(points: Sequence[ModelPoint], *, has_front: bool) -> list[Line2D]:
    """Legend of the reference, stand-ins, doubtful differences and the front, if there are any."""
    # markers
    marker: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 6}
    hollow = {**marker, "markerfacecolor": "white", "markeredgewidth": 1.6}
    handles = []
    # entries that occur
    if len(points) > 1:
        label = f"{_references(points)}, the reference"
        handles.append(Line2D([], [], color=SAMPLED, label=label, **marker))
    if any(point.replaced for point in points):
        handles.append(Line2D([], [], color=REAL, label="another backbone in place", **hollow))
    if any(point.is_doubtful for point in points):
        cross = {**marker, "marker": "X", "alpha": _FAINT}
        handles.append(Line2D([], [], color=REAL, label="carried by a few noise samples", **cross))
    if has_front:
        label = "front: no model is both better and cheaper"
        handles.append(Line2D([], [], color=LINE, linewidth=1.6, label=label))
    return handles


def _references(points: Sequence[ModelPoint]) -> str:
    """Labels of the models that differences are measured against."""
    return " or ".join(point.label for point in points if point.is_reference)


def _colours(points: Sequence[ModelPoint]) -> tuple[list[str], list[str]]:
    """Colours of edges and faces of the points; stand-ins are hollow."""
    edges = [SAMPLED if point.is_reference else REAL for point in points]
    faces = ["white" if p.replaced else edge for p, edge in zip(points, edges, strict=True)]
    return edges, faces


def _plot_differences(axes: Axes, points: Sequence[ModelPoint]) -> None:
    # the reference is at 0
    axes.axvline(0, color=SAMPLED, linewidth=1.2, zorder=1)
    colours = zip(*_colours(points), strict=True)
    # a row per model, with its error
    for k, (point, (edge, face)) in enumerate(zip(points, colours, strict=True)):
        axes.errorbar(
            [point.difference],
            [k],
            xerr=[point.error if math.isfinite(point.error) else 0.0],
            fmt="X" if point.is_doubtful else "o",
            markersize=5,
            alpha=_FAINT if point.is_doubtful else None,
            color=edge,
            markerfacecolor=face,
            markeredgewidth=1.4,
            ecolor=TEXT,
            elinewidth=1.2,
            capsize=0 if point.is_reference else 5,
            zorder=3,
        )
    # first model at the top
    axes.set_yticks(range(len(points)), [point.label for point in points])
    axes.set_ylim(len(points) - 0.4, -0.6)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.margins(x=0.08)


def _plot_quality(axes: Axes, points: Sequence[ModelPoint], front: Sequence[ModelPoint]) -> None:
    axes.plot(
        [p.calls for p in front], [p.quality for p in front], color=LINE, linewidth=1.6, zorder=1
    )
    edges, faces = _colours(points)
    axes.scatter(
        [p.calls for p in points],
        [p.quality for p in points],
        s=42,
        color=faces,
        edgecolors=edges,
        linewidths=1.6,
        clip_on=False,
        zorder=3,
    )
    # error bars below the points
    axes.errorbar(
        [p.calls for p in points],
        [p.quality for p in points],
        yerr=[p.quality_error if math.isfinite(p.quality_error) else 0.0 for p in points],
        fmt="none",
        ecolor=TEXT,
        elinewidth=1.2,
        capsize=3,
        zorder=2,
    )
    # calls on a log scale
    axes.set_xscale("log")
    axes.margins(x=0.12, y=0.16)
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.2, high * max(high / low, 2.0) ** 0.55 * 1.25)  # space for labels
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _style_quality(axes: Axes, quality: QualityAxis) -> None:
    # shares stay within 0 and 100 %
    if quality.is_share:
        bottom, top = axes.get_ylim()
        axes.set_ylim(max(bottom, 0.0), min(top, 100.0))
    unit = f"{quality.name}, %" if quality.is_share else quality.name
    better = "up" if quality.more_is_better else "down"
    style_axes(
        axes,
        title=f"Samples and their cost: {quality.name}",
        xlabel="network calls per sample, log scale (left is better)",
        ylabel=f"{unit}, ± one standard error ({better} is better)",
        grid="both",
    )


def _front(points: Sequence[ModelPoint], more_is_better: bool) -> list[ModelPoint]:
    """Points that no other point beats in both quality and calls, sorted by calls."""
    sign = 1 if more_is_better else -1
    front: list[ModelPoint] = []
    # better than all cheaper ones
    for point in sorted(points, key=lambda p: (p.calls, -sign * p.quality)):
        if not front or sign * point.quality > sign * front[-1].quality:
            front.append(point)
    return front


def _label(axes: Axes, points: Sequence[ModelPoint]) -> None:
    """Write names to the right of points; names within a factor of 1.8 in calls are moved apart."""
    # columns of points with similar numbers of calls
    columns: list[list[ModelPoint]] = []
    for point in sorted(points, key=lambda p: p.calls):
        if columns and point.calls < 1.8 * columns[-1][0].calls:
            columns[-1].append(point)
        else:
            columns.append([point])
    # labels of each, apart in height
    for column in columns:
        column.sort(key=lambda p: p.quality)
        heights = _spread([point.quality for point in column], axes.get_ylim())
        for point, height in zip(column, heights, strict=True):
            axes.annotate(
                point.label,
                (point.calls, point.quality),
                (point.calls * 1.13, height),
                fontsize=LABEL_POINTS,
                color=TEXT,
                va="center",
                zorder=4,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6},
                arrowprops={"arrowstyle": "-", "color": MUTED_TEXT, "linewidth": 0.6, "shrinkB": 4},
            )


def _spread(values: Sequence[float], limits: tuple[float, float]) -> list[float]:
    """Move ascending ``values`` apart by the height of a label, within ``limits``."""
    bottom, top = limits
    # a label's height
    gap = _LABEL_GAP * (top - bottom)
    moved = list(accumulate(values, lambda below, value: max(value, below + gap)))
    # back to the mean, within the limits
    shift = sum(values) / len(values) - sum(moved) / len(moved)
    shift = max(min(shift, top - gap / 2 - moved[-1]), bottom + gap / 2 - moved[0])
    return [value + shift for value in moved]
