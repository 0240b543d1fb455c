"""Quality over what it costs, a curve per sampler, a column per cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from discrete_diffusion.viz import LINE, add_legend, new_figure, save_figure, style_axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
MARKERS = ("o", "s", "^", "D")
"""Of the curves of one row, in order: hues that colour-blind readers tell apart (Okabe and Ito),
each with a shape of its own."""

_DASHES = (0, (3, 3))


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
