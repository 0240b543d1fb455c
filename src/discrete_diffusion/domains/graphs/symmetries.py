"""Canonical forms of graphs, and the number of orders of their nodes: exact, by BLISS.

An order lists the nodes as they are to stand: node ``order[k]`` comes k-th.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.libraries import library

Order = tuple[int, ...]


@dataclass(frozen=True)
class Labelling:
    """``canonical``: an order that isomorphic graphs share, so that with it they are equal.
    ``log_num_orders``: log(n! / |Aut|), of the distinct graphs that its orders make."""

    canonical: Order
    log_num_orders: float


def label(graph: TypedGraph) -> Labelling:
    """Types of nodes and of edges count. Edges of several types become nodes of an own colour in
    the middle of an edge, which changes no automorphism."""
    coloured, colours = _coloured(graph)
    automorphisms = coloured.count_automorphisms(color=colours)
    log_num_orders = math.log(math.factorial(len(graph.nodes))) - math.log(automorphisms)
    return Labelling(_canonical_order(graph, coloured, colours), log_num_orders)


def canonical_key(graph: TypedGraph) -> Hashable:
    """Equal for two graphs if and only if they are isomorphic."""
    order = _canonical_order(graph, *_coloured(graph))
    rank = {node: k for k, node in enumerate(order)}
    edges = sorted((*sorted((rank[i], rank[j])), kind) for i, j, kind in graph.edges)
    return tuple(graph.nodes[node] for node in order), tuple(edges)


def breadth_first_order(graph: TypedGraph, canonical: Sequence[int]) -> Order:
    """Order from a node of the most neighbours outwards; neighbours of one node by their own number
    of neighbours, most first, and then as they stand in the ``canonical`` order. Then the same for
    the next part of the graph. (Breadth-first orders: GraphRNN, arXiv 1802.08773.)"""
    neighbours: list[list[int]] = [[] for _ in graph.nodes]
    for i, j, _ in graph.edges:
        neighbours[i].append(j)
        neighbours[j].append(i)
    rank = {node: k for k, node in enumerate(canonical)}
    key = [(-len(neighbours[node]), rank[node]) for node in range(len(neighbours))]
    found: list[int] = []
    seen: set[int] = set()
    for start in sorted(rank, key=key.__getitem__):
        queue = deque([start] if start not in seen else [])
        seen.add(start)
        while queue:
            node = queue.popleft()
            found.append(node)
            following = sorted(set(neighbours[node]) - seen, key=key.__getitem__)
            seen.update(following)
            queue.extend(following)
    return tuple(found)


def _canonical_order(graph: TypedGraph, coloured: Any, colours: list[int]) -> Order:
    """Read off the permuted graph: releases of igraph differ in which way a permutation goes."""
    coloured.vs["node"] = range(len(colours))
    permuted = coloured.permute_vertices(coloured.canonical_permutation(color=colours))
    return tuple(node for node in permuted.vs["node"] if node < len(graph.nodes))


def _coloured(graph: TypedGraph) -> tuple[Any, list[int]]:
    """An ``igraph.Graph`` whose first nodes are those of ``graph``, and a colour of each node."""
    n, kinds = len(graph.nodes), {kind for _, _, kind in graph.edges}
    colours = list(graph.nodes)
    edges = [(i, j) for i, j, _ in graph.edges]
    if len(kinds) > 1:
        first = max(colours, default=0) + 1
        colours += [first + kind for _, _, kind in graph.edges]
        ends = enumerate(edges, start=n)
        edges = [half for middle, (i, j) in ends for half in ((i, middle), (middle, j))]
    return library("igraph").Graph(n=len(colours), edges=edges), colours
