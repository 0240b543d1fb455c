"""What network calls buy, a curve per sampler: quality over calls, a row of panels per family
(``draw_tradeoff``); and over several costs, a column each (``draw_costs``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from discrete_diffusion.viz import (
    FAINT_LINE,
    LINE,
    TEXT,
    TICK_POINTS,
    TITLE_POINTS,
    add_legend,
    new_figure,
    save_figure,
    style_axes,
)

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
MARKERS = ("o", "s", "^", "D")
"""Of the curves of one row, in order: hues that colour-blind readers tell apart (Okabe and Ito),
each with a shape of its own."""

_STAR: dict[str, Any] = {"marker": "*", "markersize": 12, "markeredgecolor": "white"}
_DASHES = (0, (3, 3))
_CALLS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_LABEL_GAP = 0.12
"""Least distance of two labels, as a share of the axes' height."""
_LABEL_SPACE = 5.0
"""What the first panel's axis begins earlier by, as a factor of calls: space for the labels."""


@dataclass(frozen=True)
class Curve:
    """One sampler over its settings. ``calls``: network calls per sample; ``values``: by the key of
    a panel, as many as ``calls``."""

    label: str
    calls: Sequence[float]
    values: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class QualityPanel:
    """One column. ``limits``: the range to show, in the units of the values; what lies outside is
    drawn at its edge. ``is_share``: shown in percent. ``is_log``: on a log axis."""

    key: str
    title: str
    limits: tuple[float, float]
    is_share: bool = False
    is_log: bool = False
    more_is_better: bool = True

    @property
    def scale(self) -> float:
        """Units shown per unit of the values."""
        return 100.0 if self.is_share else 1.0


@dataclass(frozen=True)
class ReferencePoint:
    """The sampler to compare with. ``values``, ``intervals``: by panel key."""

    label: str
    calls: float
    values: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]


def draw_tradeoff(
    rows: Mapping[str, Sequence[Curve]],
    panels: Sequence[QualityPanel],
    path: str | Path | None = None,
    *,
    reference: ReferencePoint,
    few_calls: float,
) -> Figure:
    """A row per family of curves, a column per quality, calls on a log axis.

    The first panel of a row names its curves. The reference is in every panel, with its interval as
    a band; a vertical line stands at ``few_calls``. Raises ``ValueError`` without a row or a panel,
    or for a row of more curves than there are colours.
    """
    if not rows or not panels:
        raise ValueError("nothing to draw: give at least one row of curves and one panel")
    for title, curves in rows.items():
        if not 1 <= len(curves) <= len(COLOURS):
            raise ValueError(
                f"{title}: {len(curves)} curves; expected 1 to {len(COLOURS)} in a row"
            )
    every = [call for curves in rows.values() for curve in curves for call in curve.calls]
    least, most = min(*every, reference.calls), max(*every, reference.calls)
    widths = [1.5] + [1.0] * (len(panels) - 1)
    figure = new_figure(2.75 * sum(widths), 2.4 * len(rows) + 0.9)
    grid = figure.subplots(len(rows), len(panels), squeeze=False, sharey="col", width_ratios=widths)
    for k, (title, curves) in enumerate(rows.items()):
        for j, (axes, panel) in enumerate(zip(grid[k], panels, strict=True)):
            ends = _draw_curves(axes, panel, curves)
            _draw_reference(axes, panel, reference, few_calls)
            _set_range(axes, panel, (least / (1.15 if j else _LABEL_SPACE), 1.15 * most), least)
            unit, arrow = ", %" * panel.is_share, "↑" if panel.more_is_better else "↓"
            style_axes(
                axes,
                title=f"{panel.title}{unit} {arrow}" if k == 0 else "",
                xlabel="network calls per sample" if k == len(rows) - 1 else "",
                ylabel="" if j else title,
            )
            axes.yaxis.label.set(color=TEXT, fontsize=TITLE_POINTS)
            if j == 0:
                _name_curves(axes, ends)
    _draw_legend(figure, reference, few_calls)
    return save_figure(figure, path)


def _draw_curves(
    axes: Axes, panel: QualityPanel, curves: Sequence[Curve]
) -> list[tuple[float, float, str, str]]:
    """Draw them; the end of fewest calls of each: height, calls, label, colour."""
    ends = []
    for curve, colour, marker in zip(curves, COLOURS, MARKERS, strict=False):
        points = sorted(zip(curve.calls, curve.values[panel.key], strict=True))
        calls = [x for x, _ in points]
        heights = [panel.scale * min(max(y, panel.limits[0]), panel.limits[1]) for _, y in points]
        style: dict[str, Any] = {"marker": marker, "markersize": 4.5, "clip_on": False}
        axes.plot(calls, heights, color=colour, linewidth=1.5, **style)
        ends.append((heights[0], calls[0], curve.label, colour))
    return ends


def _draw_reference(
    axes: Axes, panel: QualityPanel, reference: ReferencePoint, few_calls: float
) -> None:
    low, high = (panel.scale * value for value in reference.intervals[panel.key])
    axes.axhspan(low, high, color=FAINT_LINE, linewidth=0, zorder=0)
    axes.axvline(few_calls, color=LINE, linewidth=1.0, linestyle=_DASHES, zorder=1)
    height = panel.scale * reference.values[panel.key]
    axes.plot([reference.calls], [height], color=TEXT, zorder=5, **_STAR)


def _set_range(
    axes: Axes, panel: QualityPanel, calls: tuple[float, float], first_tick: float
) -> None:
    axes.set(xscale="log", yscale="log" if panel.is_log else "linear", xlim=calls)
    low, high = (axes.yaxis.get_transform().transform(panel.scale * y) for y in panel.limits)
    margin = 0.04 * (high - low)
    axes.set_ylim(*axes.yaxis.get_transform().inverted().transform([low - margin, high + margin]))
    ticks = [call for call in _CALLS if first_tick / 1.15 <= call <= calls[1]]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_major_locator(
        LogLocator(subs=(1.0, 2.0, 5.0)) if panel.is_log else MaxNLocator(5)
    )
    for axis in (axes.xaxis, axes.yaxis) if panel.is_log else (axes.xaxis,):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())


def _name_curves(axes: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Names at the left of the curves' ends: (height, calls, label, colour)."""
    ends = sorted(ends)
    shares = axes.transScale + axes.transLimits  # of calls and values: 0 to 1 inside the axes
    heights = [shares.transform((end[1], end[0]))[1] for end in ends]
    heights = _apart(heights, _LABEL_GAP, 1 - _LABEL_GAP / 2)
    left = min(end[1] for end in ends)
    for (_, _, label, colour), height in zip(ends, heights, strict=True):
        name = axes.text(
            left / 1.15,
            height,
            label.replace(", ", ",\n"),
            transform=axes.get_xaxis_transform(),
            fontsize=TICK_POINTS,
            color=colour,
            ha="right",
            va="center",
            linespacing=0.95,
        )
        name.set_in_layout(False)


def _apart(values: Sequence[float], gap: float, top: float) -> list[float]:
    """Ascending ``values`` moved up until ``gap`` apart, then down to ``top`` and below."""
    up = list(accumulate(values, lambda below, value: max(value, below + gap)))
    up[-1] = min(up[-1], top)
    return list(accumulate(reversed(up), lambda above, value: min(value, above - gap)))[::-1]


def _draw_legend(figure: Figure, reference: ReferencePoint, few_calls: float) -> None:
    """Below the panels: the star, its band, the vertical line."""
    add_legend(
        figure,
        handles=[
            Line2D([], [], linestyle="none", color=TEXT, label=reference.label, **_STAR),
            Patch(color=FAINT_LINE, label="its 95 % interval over seeds"),
            Line2D([], [], color=LINE, linestyle=_DASHES, label=f"{few_calls:g} calls"),
        ],
        loc="outside lower center",
        ncols=3,
    )


@dataclass(frozen=True)
class CostPanel:
    """One column: a cost, on a log axis."""

    key: str
    title: str


@dataclass(frozen=True)
class QualityRow:
    """One row: a number of which less is better, on a log axis."""

    key: str
    title: str


@dataclass(frozen=True)
class CostPoint:
    """One setting of a sampler. ``values``: of every cost and quality, by key; ``margins``: half
    their intervals, 0 where there is none."""

    values: Mapping[str, float]
    margins: Mapping[str, float]


def draw_costs(
    curves: Mapping[str, Sequence[CostPoint]],
    costs: Sequence[CostPanel],
    rows: Sequence[QualityRow],
    path: str | Path | None = None,
    *,
    floors: Mapping[str, float],
) -> Figure:
    """A curve per sampler through its settings; a dashed line at the ``floors`` there are, by the
    key of a row. Raises ``ValueError`` without a curve, or for more than there are colours."""
    if not 1 <= len(curves) <= len(COLOURS):
        raise ValueError(f"{len(curves)} curves; expected 1 to {len(COLOURS)}")
    figure = new_figure(4.3 * len(costs), 2.7 * len(rows) + 0.7)
    grid = figure.subplots(len(rows), len(costs), squeeze=False, sharex="col", sharey="row")
    for k, row in enumerate(rows):
        for j, cost in enumerate(costs):
            axes = grid[k, j]
            _draw_by_cost(axes, curves, cost.key, row.key)
            if row.key in floors:
                axes.axhline(floors[row.key], color=LINE, linewidth=1.0, linestyle=_DASHES)
            last = k == len(rows) - 1
            title = "" if j else f"{row.title} ↓"
            style_axes(axes, title=title, xlabel=cost.title if last else "", grid="both")
    handles = [
        Line2D([], [], color=colour, marker=marker, markersize=5, label=name)
        for name, colour, marker in zip(curves, COLOURS, MARKERS, strict=False)
    ]
    if floors:
        handles.append(Line2D([], [], color=LINE, linestyle=_DASHES, label="real plans"))
    add_legend(figure, handles=handles, loc="outside lower center", ncols=3)
    return save_figure(figure, path)


def _draw_by_cost(axes: Axes, curves: Mapping[str, Sequence[CostPoint]], x: str, y: str) -> None:
    axes.set(xscale="log", yscale="log")
    for points, colour, marker in zip(curves.values(), COLOURS, MARKERS, strict=False):
        line = sorted(points, key=lambda point: point.values[x])
        heights = [point.values[y] for point in line]
        margins = [min(point.margins[y], 0.9 * point.values[y]) for point in line]
        axes.errorbar(
            *([point.values[x] for point in line], heights),
            yerr=margins,
            color=colour,
            marker=marker,
            markersize=5,
            linewidth=1.5,
            elinewidth=1.0,
        )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
