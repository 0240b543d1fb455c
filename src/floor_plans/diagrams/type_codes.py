"""``Codes``: what the node and edge types of a ``VocabConfig`` are in diagrams."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

from discrete_diffusion.data import TypedGraph
from discrete_diffusion.layout import VocabConfig
from floor_plans.diagrams.rooms import NO_EDGE
from floor_plans.diagrams.vocabulary import RELATIONS, ROOM_TYPES


class Graph(Protocol):
    """Parts of a diagram that are encoded; see ``BubbleDiagram``."""

    @property
    def rooms(self) -> tuple[int, ...]: ...

    @property
    def relations(self) -> tuple[tuple[int, int, int], ...]: ...


@dataclass(frozen=True)
class Codes:
    """Codes of the types of a ``VocabConfig``.

    ``rooms``: room code of each node type. ``relations``: relation code of each edge type.
    """

    rooms: tuple[int, ...]
    relations: tuple[int, ...]

    @cached_property
    def node_types(self) -> dict[int, int]:
        """Index of the node type of each room code."""
        return {code: k for k, code in enumerate(self.rooms)}

    @cached_property
    def edge_types(self) -> dict[int, int]:
        """Index of the edge type of each relation code."""
        return {code: k for k, code in enumerate(self.relations)}

    def graph(self, diagram: Graph, number: int) -> TypedGraph:
        """Convert a diagram to types; ``ValueError`` with its number for an unknown type."""
        nodes, edges = self.node_types, self.edge_types
        try:
            return TypedGraph(
                tuple(nodes[room] for room in diagram.rooms),
                tuple((i, j, edges[r]) for i, j, r in diagram.relations),
            )
        except KeyError:
            # name all types that the vocabulary lacks
            names = {ROOM_TYPES[room] for room in {*diagram.rooms} - {*nodes}}
            names |= {RELATIONS[r] for r in {r for _, _, r in diagram.relations} - {*edges}}
            raise ValueError(
                f"diagram {number} has {', '.join(sorted(names))}; the vocabulary has "
                f"{', '.join(ROOM_TYPES[code] for code in self.rooms)} and "
                f"{', '.join(RELATIONS[code] for code in self.relations)}"
            ) from None


@lru_cache
def codes_of(vocab: VocabConfig) -> Codes:
    """Codes of a vocabulary, cached; ``ValueError`` if it has types that no diagram has."""
    # all types are those of diagrams, "no-edge" is last
    known = {*vocab.node_types} <= {*ROOM_TYPES} and {*vocab.edge_types} <= {*RELATIONS}
    if not known or vocab.edge_types[-1] != RELATIONS[NO_EDGE]:
        raise ValueError(
            "a bubble diagram needs the vocabulary of rooms and relations, VocabConfig(n_max=...); "
            f"got {vocab.num_node_types} node types and {vocab.num_edge_types} edge types"
        )
    return Codes(
        tuple(map(ROOM_TYPES.index, vocab.node_types)),
        tuple(map(RELATIONS.index, vocab.edge_types)),
    )
