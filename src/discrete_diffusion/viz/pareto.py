"""Models side by side: how far their bounds are apart, and what their samples cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from discrete_diffusion.viz.chart_style import (
    LABEL_POINTS,
    REAL,
    SAMPLED,
    new_figure,
    save,
    style_axes,
)
from discrete_diffusion.viz.palette import LINE, MUTED_TEXT, TEXT

_LABEL_GAP = 0.062
"""Least distance of two labels, as a share of the axes' height."""


@dataclass(frozen=True)
class ModelPoint:
    """One model. ``difference``: of its bound to the first model's, with its standard ``error``;
    ``calls``: network calls per sample; ``quality``: of samples. NaN where there is none."""

    label: str
    difference: float
    error: float
    calls: float
    quality: float


def draw_pareto(
    points: Sequence[ModelPoint],
    path: str | Path | None = None,
    *,
    quantity: str,
    quality: str,
    more_is_better: bool = True,
) -> Figure:
    """Differences of the bound with error bars, and ``quality`` against network calls.

    The first point is the one that differences are to. Models that no other beats both in calls and
    in quality are joined by a line. ``quantity``: unit of the bound. Without any quality the second
    panel is left out. Raises ``ValueError`` without a point.
    """
    if not points:
        raise ValueError("no models to draw: give at least one point")
    shown = [p for p in points if math.isfinite(p.calls) and math.isfinite(p.quality)]
    height = max(3.2, 0.42 * len(points) + 1.5)
    figure = new_figure(10.4 if shown else 5.6, height)
    panels = figure.subplots(1, 2 if shown else 1, squeeze=False)[0]
    _draw_differences(panels[0], points, quantity)
    if shown:
        _draw_quality(panels[1], points, quality, more_is_better)
    return save(figure, path)


def _draw_differences(axes: Axes, points: Sequence[ModelPoint], quantity: str) -> None:
    axes.axvline(0, color=SAMPLED, linewidth=1.2, zorder=1)
    for k, point in enumerate(points):
        error = point.error if math.isfinite(point.error) else 0.0
        axes.errorbar(
            [point.difference],
            [k],
            xerr=[error],
            fmt="o",
            markersize=6,
            color=SAMPLED if k == 0 else REAL,
            elinewidth=1.4,
            capsize=3,
            zorder=3,
        )
    style_axes(
        axes,
        title=f"Bound, difference to {points[0].label}",
        xlabel=f"{quantity}, ± standard error (left is better)",
        ylabel="",
        grid="x",
    )
    axes.set_yticks(range(len(points)), [point.label for point in points])
    axes.tick_params(axis="y", length=0, labelcolor=TEXT, labelsize=LABEL_POINTS)
    axes.set_ylim(len(points) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.margins(x=0.08)


def _draw_quality(
    axes: Axes, points: Sequence[ModelPoint], quality: str, more_is_better: bool
) -> None:
    finite = [p for p in points if math.isfinite(p.calls) and math.isfinite(p.quality)]
    front = _front(finite, more_is_better)
    axes.plot(
        [p.calls for p in front], [p.quality for p in front], color=LINE, linewidth=1.6, zorder=1
    )
    colours = [SAMPLED if point is points[0] else REAL for point in finite]
    axes.scatter(
        [p.calls for p in finite], [p.quality for p in finite], s=42, color=colours, zorder=3
    )
    axes.set_xscale("log")
    axes.margins(x=0.12, y=0.16)
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.15, high * (high / low) ** 0.55 * 1.25)  # room for labels at the right
    style_axes(
        axes,
        title=f"Samples: {quality} against cost",
        xlabel="network calls per sample",
        ylabel=f"{quality} ({'up' if more_is_better else 'down'} is better)",
        grid="both",
    )
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    _label(axes, finite)


def _front(points: Sequence[ModelPoint], more_is_better: bool) -> list[ModelPoint]:
    """Those that no other beats in both, by calls."""
    sign = 1 if more_is_better else -1
    front: list[ModelPoint] = []
    for point in sorted(points, key=lambda p: (p.calls, -sign * p.quality)):
        if not front or sign * point.quality > sign * front[-1].quality:
            front.append(point)
    return front


def _label(axes: Axes, points: Sequence[ModelPoint]) -> None:
    """Names at the right of their points, moved apart where points lie close together."""
    bottom, top = axes.get_ylim()
    gap = _LABEL_GAP * (top - bottom)
    for column in _columns(points):
        heights = _spread([point.quality for point in column], gap)
        for point, height in zip(column, heights, strict=True):
            axes.annotate(
                point.label,
                (point.calls, point.quality),
                (point.calls * 1.13, height),
                fontsize=LABEL_POINTS,
                color=TEXT,
                va="center",
                arrowprops={"arrowstyle": "-", "color": MUTED_TEXT, "linewidth": 0.6, "shrinkB": 4},
            )


def _columns(points: Sequence[ModelPoint]) -> list[list[ModelPoint]]:
    """Points whose labels would share a place: within a factor of 1.8 of calls, by quality."""
    columns: list[list[ModelPoint]] = []
    for point in sorted(points, key=lambda p: p.calls):
        if columns and point.calls < 1.8 * columns[-1][0].calls:
            columns[-1].append(point)
        else:
            columns.append([point])
    return [sorted(column, key=lambda p: p.quality) for column in columns]


def _spread(values: Sequence[float], gap: float) -> list[float]:
    """Ascending ``values`` moved as little as a sweep needs to be ``gap`` apart, mean kept."""
    moved: list[float] = []
    for value in values:
        moved.append(max(value, moved[-1] + gap) if moved else value)
    shift = sum(values) / len(values) - sum(moved) / len(moved)
    return [value + shift for value in moved]
