"""Scores of graphs of rooms and doors: distance to a requested graph, and space syntax."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import networkx

SECONDS = 10.0
"""Longest search for an edit distance."""

Pair = tuple[int, int]


@dataclass(frozen=True)
class RoomGraph:
    """Undirected graph of rooms. ``types``: type of each room, by its number; ``pairs``: connected
    rooms. The outside is a number of its own, with a type, if front doors count."""

    types: Mapping[int, str]
    pairs: frozenset[Pair]

    @classmethod
    def of(cls, types: Mapping[int, str], pairs: Iterable[Sequence[int]]) -> RoomGraph:
        return cls(types, frozenset((min(pair), max(pair)) for pair in pairs))

    def to_networkx(self) -> networkx.Graph:
        graph = networkx.Graph(self.pairs)
        graph.add_nodes_from((room, {"type": name}) for room, name in self.types.items())
        return graph


def wrong_pairs(wanted: RoomGraph, found: RoomGraph) -> int:
    """Pairs of just one of two graphs of the same numbered rooms: the compatibility of House-GAN++
    (arXiv 2103.02574) and HouseDiffusion (arXiv 2211.13287)."""
    return len(wanted.pairs ^ found.pairs)


def edit_distance(wanted: RoomGraph, found: RoomGraph, *, seconds: float = SECONDS) -> float:
    """Count the least edits from one graph to the other: adding or removing a room or a pair,
    changing a type. Room numbers do not matter. An upper bound if ``seconds`` do not suffice."""
    # edits that keep the numbers are enough, and often few
    bound = len(wanted.types.items() ^ found.types.items()) + wrong_pairs(wanted, found)
    if not bound:
        return 0.0
    distance = networkx.graph_edit_distance(
        wanted.to_networkx(),
        found.to_networkx(),
        node_match=lambda one, other: one["type"] == other["type"],
        upper_bound=bound,
        timeout=seconds,
    )
    return float(bound if distance is None else distance)


def space_syntax(graph: RoomGraph, entrance: int) -> dict[int, dict[str, float | None]]:
    """Measure depth and integration of each of n nodes.

    ``depth``: from the entrance. ``mean_depth``: of all other nodes from it. ``integration``:
    Hillier and Hanson, The Social Logic of Space, 1984.

    RA = 2 (MD - 1) / (n - 2) for the mean depth MD; integration is D_n / RA, where
    D_n = 2 (n (log2((n + 2) / 3) - 1) + 1) / ((n - 1) (n - 2)) is the RA of a diamond. A value is
    None if not all nodes are connected, and integration if n < 3 or all others are next to a node.
    """
    steps = dict(networkx.all_pairs_shortest_path_length(graph.to_networkx()))
    n, found = len(graph.types), {}
    for room in graph.types:
        mean = integration = None
        if len(steps[room]) == n > 1:
            mean = sum(steps[room].values()) / (n - 1)
            if n > 2 and mean > 1:
                diamond = (n * (math.log2((n + 2) / 3) - 1) + 1) / (n - 1)
                integration = diamond / (mean - 1)
        depth = steps[room].get(entrance)
        found[room] = {"depth": depth, "mean_depth": mean, "integration": integration}
    return found
