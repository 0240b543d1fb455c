"""Small graphs of tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.graph_types import GraphTypes

TYPED = GraphTypes(nodes=("a", "b"), edges=("thin", "thick", "none"))


def graph(num_nodes: int, *edges: tuple[int, int]) -> TypedGraph:
    """Without types."""
    return TypedGraph((0,) * num_nodes, tuple((i, j, 0) for i, j in sorted(edges)))


def of_networkx(found: Any) -> TypedGraph:
    number = {node: k for k, node in enumerate(found)}
    return graph(len(found), *(tuple(sorted((number[u], number[v]))) for u, v in found.edges))


def relabelled(found: TypedGraph, order: Iterable[int]) -> TypedGraph:
    """Node k becomes node ``order[k]``."""
    place = [int(k) for k in order]
    nodes = np.empty(len(place), dtype=int)
    nodes[place] = found.nodes
    edges = [(*sorted((place[i], place[j])), kind) for i, j, kind in found.edges]
    return TypedGraph(tuple(nodes.tolist()), tuple(sorted(edges)))


PATH3, TRIANGLE, STAR4 = (
    graph(3, (0, 1), (1, 2)),
    graph(3, (0, 1), (0, 2), (1, 2)),
    graph(4, (0, 1), (0, 2), (0, 3)),
)
