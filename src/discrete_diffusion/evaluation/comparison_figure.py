"""Figure of compared models: differences of their bounds, and quality against network calls."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from discrete_diffusion.evaluation.comparison import Column, Comparison
from discrete_diffusion.evaluation.comparison_table import is_doubtful
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


def plot_comparison(
    comparison: Comparison, axes: Sequence[Column], path: Path, setting: str
) -> list[str]:
    """Plot a comparison, if there is anything to show; return the names of the written files.

    ``axes``: candidates for the quality axis, of which the first measured is shown; ``setting``:
    title.
    """
    # quality of samples
    models, measure = comparison.models, comparison.measures[0]
    means = {each: [comparison.mean(model, each.name) for model in models] for each in axes}
    quality = next((each for each in axes if any(map(math.isfinite, means[each]))), None)
    if len(models) == 1 and quality is None:
        path.unlink(missing_ok=True)
        return []
    # a point for each model
    points = []
    for model, label in zip(models, comparison.short_names(), strict=True):
        base = comparison.base(model, measure)
        apart, none = comparison.difference(model, measure), 0.0 if base is model else math.nan
        mean = error = math.nan
        if quality is not None:
            mean = comparison.mean(model, quality.name)
            value = comparison.value(model, quality.name) or model.estimate(quality)
            error = value.standard_error
        points.append(
            ModelPoint(
                label=label,
                difference=none if apart is None else apart.mean,
                error=none if apart is None else apart.standard_error,
                calls=model.mean("network_calls"),
                quality=mean,
                quality_error=error,
                replaced=model.instead_of is not None,
                is_reference=base is model,
                is_doubtful=is_doubtful(model, base, measure=measure),
            )
        )
    title = comparison.measured[measure].title.removeprefix("the ")
    plot_pareto(
        points,
        path,
        measure=title[:1].upper() + title[1:],
        quantity=str(comparison.quantity) if measure == "nelbo" else title,
        quality=quality,
        title=textwrap.fill(setting, 78, break_on_hyphens=False),
    )
    return [path.name]


def plot_pareto(
    points: Sequence[ModelPoint],
    path: str | Path | None = None,
    *,
    quantity: str,
    quality: Column | None,
    measure: str = "Bound",
    title: str = "",
) -> Figure:
    """Plot differences of the bound, or of another ``measure``, and ``quality`` against calls.

    Error bars show one standard error. A single point has no difference. Of three or more models a
    line joins those that no other model beats in both calls and quality. ``quantity``: the unit of
    the measure. The second panel is left out if no quality is known. Raises ``ValueError`` for an
    empty list, or nothing to plot.
    """
    # what is measured, shares as percent
    if not points:
        raise ValueError("no models to plot: give at least one point")
    shown = [p for p in points if math.isfinite(p.calls) and math.isfinite(p.quality)]
    if quality is not None and quality.share:
        percent = [100 * min(max(p.quality, 0.0), 1.0) for p in shown]
        shown = [
            replace(p, quality=each, quality_error=100 * p.quality_error)
            for p, each in zip(shown, percent, strict=True)
        ]
    num_panels = (len(points) > 1) + bool(shown)
    if num_panels == 0:
        raise ValueError("nothing to plot: one model without samples; give another, or samples")
    # points that no other one beats in both quality and calls, by calls
    front: list[ModelPoint] = []
    sign = 1 if quality is not None and quality.up else -1
    for p in sorted(shown, key=lambda p: (p.calls, -sign * p.quality)) if len(shown) > 2 else ():
        if not front or sign * p.quality > sign * front[-1].quality:
            front.append(p)
    # differences at the left, quality at the right
    figure = new_figure(10.4 if num_panels == 2 else 6.2, max(3.6, 0.42 * len(points) + 2.2))
    panels = figure.subplots(1, num_panels, squeeze=False)[0]
    references = " or ".join(point.label for point in points if point.is_reference)
    if len(points) > 1:
        _plot_differences(panels[0], [p for p in points if math.isfinite(p.difference)])
        style_axes(
            panels[0],
            title=f"{measure}, difference to {references}",
            xlabel=f"{quantity}, ± one standard error (left is better)",
            grid="x",
        )
        panels[0].tick_params(axis="y", length=0, labelcolor=TEXT, labelsize=LABEL_POINTS)
        panels[0].spines["left"].set_visible(False)
    if quality is not None and shown:
        _plot_quality(panels[-1], shown, front, quality)
    # title and legend
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=TITLE_POINTS, color=MUTED_TEXT)
    if handles := _legend(points, references, has_front=len(front) > 1):
        add_legend(figure, handles=handles, loc="outside lower center", ncols=len(handles))
    return save_figure(figure, path)


def _legend(points: Sequence[ModelPoint], references: str, *, has_front: bool) -> list[Line2D]:
    """Legend of the reference, stand-ins, doubtful differences and the front, if there are any."""
    marker: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 6}
    hollow = {**marker, "markerfacecolor": "white", "markeredgewidth": 1.6}
    handles = []
    # entries that occur
    if len(points) > 1:
        label = f"{references}, the reference"
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


def _plot_quality(
    axes: Axes, points: Sequence[ModelPoint], front: Sequence[ModelPoint], quality: Column
) -> None:
    axes.plot(
        [p.calls for p in front], [p.quality for p in front], color=LINE, linewidth=1.6, zorder=1
    )
    # points with error bars below them
    calls, heights = [p.calls for p in points], [p.quality for p in points]
    edges, faces = _colours(points)
    style: dict[str, Any] = {"color": faces, "edgecolors": edges, "linewidths": 1.6}
    axes.scatter(calls, heights, s=42, clip_on=False, zorder=3, **style)
    errors = [p.quality_error if math.isfinite(p.quality_error) else 0.0 for p in points]
    bars: dict[str, Any] = {"ecolor": TEXT, "elinewidth": 1.2, "capsize": 3}
    axes.errorbar(calls, heights, yerr=errors, fmt="none", zorder=2, **bars)
    # calls on a log scale
    axes.set_xscale("log")
    axes.margins(x=0.12, y=0.16)
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.2, high * max(high / low, 2.0) ** 0.55 * 1.25)  # space for labels
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    # shares stay within 0 and 100 %
    if quality.share:
        bottom, top = axes.get_ylim()
        axes.set_ylim(max(bottom, 0.0), min(top, 100.0))
    unit = f"{quality.head}, %" if quality.share else quality.head
    style_axes(
        axes,
        title=f"Samples and their cost: {quality.head}",
        xlabel="network calls per sample, log scale (left is better)",
        ylabel=f"{unit}, ± one standard error ({'up' if quality.up else 'down'} is better)",
        grid="both",
    )
    _write_labels(axes, points)


def _write_labels(axes: Axes, points: Sequence[ModelPoint]) -> None:
    """Write names to the right of points; names within a factor of 1.8 in calls are moved apart."""
    # columns of points with similar numbers of calls
    columns: list[list[ModelPoint]] = []
    for point in sorted(points, key=lambda p: p.calls):
        if columns and point.calls < 1.8 * columns[-1][0].calls:
            columns[-1].append(point)
        else:
            columns.append([point])
    # labels of each, a label's height apart, back to their mean within the axes
    bottom, top = axes.get_ylim()
    gap = 0.062 * (top - bottom)
    for column in columns:
        column.sort(key=lambda p: p.quality)
        values = [point.quality for point in column]
        moved = list(accumulate(values, lambda below, value: max(value, below + gap)))
        shift = sum(values) / len(values) - sum(moved) / len(moved)
        shift = max(min(shift, top - gap / 2 - moved[-1]), bottom + gap / 2 - moved[0])
        for point, height in zip(column, moved, strict=True):
            axes.annotate(
                point.label,
                (point.calls, point.quality),
                (point.calls * 1.13, height + shift),
                fontsize=LABEL_POINTS,
                color=TEXT,
                va="center",
                zorder=4,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6},
                arrowprops={"arrowstyle": "-", "color": MUTED_TEXT, "linewidth": 0.6, "shrinkB": 4},
            )
