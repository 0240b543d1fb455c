"""A page of graphs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.graph_types import GraphTypes
from discrete_diffusion.domains.graphs.libraries import library
from discrete_diffusion.domains.graphs.metrics.graph_set import as_networkx
from discrete_diffusion.viz.chart_style import TEXT, add_legend, new_figure, save_figure

MAX_DRAWN = 36
"""More could not be distinguished."""

GIVEN = "#d1495b"
"""Edges that were known before the graph was completed."""

_NODE = "#44608a"
_COLOURS = ("#44608a", "#ef9f4c", "#1f7a78", "#b06ab3", "#c9a227", "#7a7f87", "#d1495b", "#6fa8dc")
"""Colours of types of nodes; they begin again after the last."""
_STYLES: tuple[Literal["solid", "dashed", "dotted", "dashdot"], ...] = (
    "solid",
    "dashed",
    "dotted",
    "dashdot",
)
"""Line styles of types of edges."""

_CELL = 2.1
"""Inches of a graph's square."""

Points = NDArray[np.float64]
Pair = tuple[int, int]


def plot_graphs(
    graphs: Sequence[TypedGraph],
    path: Path,
    types: GraphTypes,
    *,
    titles: Sequence[str] | None = None,
    given: Sequence[frozenset[Pair]] | None = None,
    columns: int | None = None,
) -> None:
    """A square each, in rows of ``columns``; types of nodes are colours, types of edges dashes.
    Written as .png or .svg. ``given``: by graph, edges (i, j) that stand out."""
    columns = columns or math.ceil(math.sqrt(len(graphs)))
    rows = math.ceil(len(graphs) / columns)
    keyed = len(types.nodes) > 1 or len(types.edges) > 2
    figure = new_figure(columns * _CELL, rows * _CELL + 0.4 * keyed)
    cells = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for k, axes in enumerate(cells):
        axes.set_axis_off()
        axes.set_aspect("equal")
        if k < len(graphs):
            _draw(axes, graphs[k], frozenset() if given is None else given[k])
            if titles is not None:
                axes.set_title(titles[k], fontsize=8, color=TEXT)
    if keyed:
        key = _key(types)
        add_legend(figure, handles=key, loc="outside lower center", ncols=min(len(key), 6))
    save_figure(figure, path)


def _draw(axes: Axes, graph: TypedGraph, given: frozenset[Pair]) -> None:
    points = place(graph)
    size = 240 / (len(graph.nodes) + 8)
    for kind in sorted({kind for _, _, kind in graph.edges}):
        pairs = [(i, j) for i, j, each in graph.edges if each == kind]
        axes.add_collection(
            LineCollection(
                [(points[i], points[j]) for i, j in pairs],
                colors=[GIVEN if pair in given else "#9aa5b4" for pair in pairs],
                linewidths=[1.6 if pair in given else 0.8 for pair in pairs],
                linestyles=_STYLES[kind % len(_STYLES)],
                zorder=1,
            )
        )
    colours = [_COLOURS[kind % len(_COLOURS)] for kind in graph.nodes]
    axes.scatter(points[:, 0], points[:, 1], s=size, c=colours, linewidths=0, zorder=2)
    low, high = points.min(axis=0), points.max(axis=0)
    middle, reach = (low + high) / 2, 0.56 * max(float((high - low).max()), 1e-6)
    axes.set(
        xlim=(middle[0] - reach, middle[0] + reach), ylim=(middle[1] - reach, middle[1] + reach)
    )


def place(graph: TypedGraph) -> Points:
    """Float[N, 2], by Kamada and Kawai's springs; one that is planar starts without crossings."""
    import networkx

    linked = as_networkx(graph)
    is_planar, embedding = networkx.check_planarity(linked)
    start = None
    if is_planar and len(graph.nodes) > 2:
        found = networkx.combinatorial_embedding_to_pos(embedding)
        start = np.array([found[node] for node in linked], dtype=np.float64)
        start = len(graph.nodes) * (start - start.mean(axis=0)) / max(np.ptp(start), 1)
    same = library("igraph").Graph(n=len(graph.nodes), edges=list(linked.edges))
    layout = same.layout_kamada_kawai(seed=None if start is None else start.tolist())
    return np.array(layout.coords, dtype=np.float64).reshape(-1, 2)


def _key(types: GraphTypes) -> list[Line2D]:
    nodes = [
        Line2D([], [], marker="o", linestyle="", color=_COLOURS[k % len(_COLOURS)], label=name)
        for k, name in enumerate(types.nodes)
        if len(types.nodes) > 1
    ]
    edges = [
        Line2D([], [], color="#9aa5b4", linestyle=_STYLES[k % len(_STYLES)], label=name)
        for k, name in enumerate(types.edges[:-1])
        if len(types.edges) > 2
    ]
    return [*nodes, *edges]
