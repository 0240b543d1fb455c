"""Pictures of an evaluation: histograms and heat maps of real and of sampled diagrams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from discrete_diffusion import viz
from floor_plans.diagrams.geometry import Floats
from floor_plans.diagrams.metrics.diagram_set import Diagrams, DiagramSet
from floor_plans.diagrams.pictures.bubbles import room_style
from floor_plans.diagrams.vocabulary import ROOM_TYPES

_MAX_TICKS = 16


@dataclass(frozen=True)
class BarPanel:
    """Two histograms of one quantity, of ``real`` and of ``sampled`` data, each shown as shares.
    ``names``: names of the bars, one per count; None numbers them 0, 1, ... and skips leading empty
    ones. ``of``: the things that are counted, for the label of the axis."""

    title: str
    xlabel: str
    of: str
    real: NDArray[Any]
    sampled: NDArray[Any]
    names: Sequence[str] | None = None


def plot_bars(panels: Sequence[BarPanel], path: str | Path | None = None) -> Figure:
    """Plot panels in a row, real against sampled; write the figure to ``path`` if given."""
    # width of each panel by its number of bars
    longest = [max(len(panel.real), len(panel.sampled)) for panel in panels]
    counts = [len(panel.names or range(n)) for panel, n in zip(panels, longest, strict=True)]
    widths = [max(3.4, 0.3 * count + 1.0) for count in counts]
    figure = viz.new_figure(sum(widths), 3.9)
    grid = figure.subplots(1, len(panels), squeeze=False, width_ratios=widths)[0]
    # panels, then one legend
    for axes, panel, length in zip(grid, panels, longest, strict=True):
        real, sampled = _percent(panel.real, length), _percent(panel.sampled, length)
        # skip leading empty bars
        start = 0
        if panel.names is None and (real + sampled).any():
            start = int((real + sampled).nonzero()[0][0])
        at = np.arange(start, length)
        axes.bar(at - 0.2, real[start:], width=0.38, color=viz.REAL, label="real")
        axes.bar(at + 0.2, sampled[start:], width=0.38, color=viz.SAMPLED, label="sampled")
        of = f"share of {panel.of} (%)"
        viz.style_axes(axes, title=panel.title, xlabel=panel.xlabel, ylabel=of)
        # ticks: numbers, at most _MAX_TICKS, or names
        if panel.names is None:
            axes.set_xticks(at[:: -(-len(at) // _MAX_TICKS)])
        else:
            axes.set_xticks(at, panel.names, rotation=40, ha="right", rotation_mode="anchor")
        axes.tick_params(axis="x", length=0)
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
        axes.margins(x=0.02)
    handles, labels = grid[0].get_legend_handles_labels()
    viz.add_legend(figure, handles=handles, labels=labels, loc="outside upper right", ncols=2)
    return viz.save_figure(figure, path)


def _percent(counts: NDArray[Any], length: int) -> Floats:
    """Percentages of the sum, padded with zeros to ``length``; all 0 for an empty histogram."""
    padded = np.pad(np.asarray(counts, dtype=np.float64), (0, length - len(counts)))
    return 100 * padded / padded.sum() if padded.any() else padded


FEWEST_PAIRS = 50  # least number of pairs of two room types to appear in the heat maps
SMALLEST_SPAN = 0.1  # least range of the colours of differences, so that noise stays pale


def plot_samples(samples: Diagrams, reference: Diagrams, folder: Path) -> None:
    """Plot ``adjacency.png``, ``histograms.png`` and ``relations.png``, real against sampled."""
    real = DiagramSet.of(reference)
    sampled = DiagramSet.of(samples, real.vocabulary)
    names = [room_style(ROOM_TYPES.index(name)).name for name in real.vocabulary.room_types]
    # shares of related pairs by room types
    plot_adjacency(
        real.share_related(FEWEST_PAIRS),
        sampled.share_related(FEWEST_PAIRS),
        names,
        folder / "adjacency.png",
        note="How often two rooms of one diagram are related, by their types. "
        f"A dot: fewer than {FEWEST_PAIRS} such pairs.",
    )

    def panel(
        title: str, xlabel: str, of: str, count: Callable[[DiagramSet], NDArray[Any]], *names: Any
    ) -> BarPanel:
        return BarPanel(title, xlabel, of, count(real), count(sampled), *names)

    # sizes of diagrams, then types of rooms and relations
    sizes = [
        panel("Rooms per diagram", "rooms", "diagrams", lambda each: np.bincount(each.num_rooms)),
        panel("Relations per room", "relations", "rooms", lambda each: each.degree_counts),
        panel(
            "Relations per diagram",
            "relations",
            "diagrams",
            lambda each: np.bincount(each.num_relations),
        ),
    ]
    plot_bars(sizes, folder / "histograms.png")
    seen, words = "seen from the room whose type comes first", real.vocabulary.relations
    kinds = [
        panel("Room types", "", "rooms", lambda each: each.room_counts.sum(axis=0), names),
        panel("Relations", seen, "relations", lambda each: each.relation_counts, words),
    ]
    plot_bars(kinds, folder / "relations.png")


def plot_adjacency(
    real: Floats,
    sampled: Floats,
    names: Sequence[str],
    path: str | Path | None = None,
    *,
    note: str = "",
) -> Figure:
    """Plot three heat maps: real, sampled, and their difference; write them to ``path`` if given.
    ``real``, ``sampled``: shares of related pairs in 0..1, Float[K, K], symmetric, NaN where
    unknown; types that are unknown in both are left out. ``note``: a line below the maps."""
    known = ~(np.isnan(real) & np.isnan(sampled))
    keep = np.flatnonzero(known.any(axis=0) if known.any() else np.ones(len(names)))
    real, sampled = (shares[np.ix_(keep, keep)] for shares in (real, sampled))
    difference, labels = sampled - real, [names[k] for k in keep.tolist()]
    # three maps, two colour scales
    side = max(3.2, 0.4 * len(labels) + 1.0)
    figure = viz.new_figure(3 * side + 1.4, side + (0.3 if note else 0.0))
    maps = figure.subplots(1, 3)
    span = max(SMALLEST_SPAN, float(np.nanmax(np.abs(difference), initial=0.0)))
    whole, signed = Normalize(0, 1), Normalize(-span, span)
    for axes, title, shares, colours, norm in (
        (maps[0], "Real", real, viz.SHARE_MAP, whole),
        (maps[1], "Sampled", sampled, viz.SHARE_MAP, whole),
        (maps[2], "Sampled − real", difference, viz.DIFFERENCE_MAP, signed),
    ):
        _draw_map(axes, shares, labels, title, colours, norm)
    bar: dict[str, Any] = {"shown": lambda share: f"{100 * share:.0f}", "shrink": 0.62}
    bar |= {"aspect": 22, "pad": 0.02}
    viz.add_colour_bar(figure, viz.SHARE_MAP, whole, "related pairs (%)", ax=[*maps[:2]], **bar)
    signed_bar = bar | {"ax": [maps[2]]}
    viz.add_colour_bar(figure, viz.DIFFERENCE_MAP, signed, "difference (points)", **signed_bar)
    if note:
        figure.supxlabel(note, fontsize=viz.TICK_POINTS, color=viz.MUTED_TEXT)
    return viz.save_figure(figure, path)


def _draw_map(
    axes: Axes, shares: Floats, names: Sequence[str], title: str, colours: Colormap, norm: Normalize
) -> None:
    """Draw the lower triangle of a symmetric array, with its values as text."""
    lower = np.tril(np.ones_like(shares, dtype=bool))
    # colours, with names at the sides
    axes.imshow(np.where(lower, shares, np.nan), cmap=colours, norm=norm, interpolation="nearest")
    viz.style_axes(axes, title=title, grid=None)
    ticks = np.arange(len(names))
    axes.set_xticks(ticks, names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(ticks, names)
    axes.tick_params(length=0, labelcolor=viz.TEXT)
    axes.spines[:].set_visible(False)
    # white lines between cells
    axes.set_xticks(ticks[1:] - 0.5, minor=True)
    axes.set_yticks(ticks[1:] - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.6)
    axes.tick_params(which="minor", length=0)
    # value of each cell, in a legible colour
    for row, column in zip(*np.nonzero(lower), strict=True):
        share = shares[row, column]
        text, ink = "·", viz.LINE
        if not np.isnan(share):
            points = round(100 * share)
            is_signed = norm.vmin != 0 and points != 0
            text = f"{points:+d}".replace("-", "−") if is_signed else f"{points}"
            red, green, blue, _ = colours(norm(share))
            ink = "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.55 else viz.TEXT
        cell = axes.text(column, row, text, ha="center", va="center", fontsize=7.0, color=ink)
        cell.set_in_layout(False)  # it lies inside the axes; measuring it would only take time
