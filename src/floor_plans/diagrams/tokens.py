"""Bubble diagrams as token sequences, and the codes of a ``VocabConfig`` in diagrams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

from torch import Tensor

from discrete_diffusion.data import EncodedGraphs, TypedGraph, decode_graphs, encode_graphs
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig
from floor_plans.diagrams.diagram import BubbleDiagram
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


def encode(
    diagrams: Sequence[BubbleDiagram], vocab: VocabConfig = RPLAN_VOCAB_CONFIG
) -> EncodedGraphs:
    """Encode diagrams: room slots, then pairs i < j row-major; unlisted pairs are "no-edge".

    Raises ``ValueError`` for a diagram with more than ``vocab.n_max`` rooms or a room or relation
    that ``vocab`` does not have, and for a vocabulary with types that no diagram has.
    """
    codes = codes_of(vocab)
    for sample, diagram in enumerate(diagrams):
        if diagram.num_rooms > vocab.n_max:
            raise ValueError(
                f"diagram {sample} has {diagram.num_rooms} rooms, more than n_max={vocab.n_max}"
            )
    return encode_graphs([codes.graph(diagram, k) for k, diagram in enumerate(diagrams)], vocab)


def decode(tokens: Tensor, vocab: VocabConfig = RPLAN_VOCAB_CONFIG) -> list[BubbleDiagram]:
    """Decode diagrams from tokens Int[B, L]; the room count is the number of leading rooms not PAD.

    Raises ``ValueError`` for another shape or dtype, and naming sample, position and id for a MASK,
    a PAD or a foreign id at a real position, or anything but PAD elsewhere.
    """
    codes = codes_of(vocab)
    return [
        BubbleDiagram.from_checked(
            tuple([codes.rooms[k] for k in nodes]),
            tuple([(i, j, codes.relations[r]) for i, j, r in edges]),
        )
        for nodes, edges in decode_graphs(tokens, vocab)
    ]
