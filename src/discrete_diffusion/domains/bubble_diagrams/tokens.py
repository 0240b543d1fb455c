"""Bubble diagrams as token sequences."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from discrete_diffusion.data.graph_tokens import (
    EncodedGraphs,
    TypedGraph,
    decode_graphs,
    encode_graphs,
)
from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig
from discrete_diffusion.rooms import RELATIONS, ROOM_TYPES


def encode(
    diagrams: Sequence[BubbleDiagram], vocab: VocabConfig = RPLAN_VOCAB_CONFIG
) -> EncodedGraphs:
    """Room slots, then the upper triangle of pairs row-major; unlisted real pairs are "no-edge".

    Raises ``ValueError`` for a diagram with more than ``vocab.n_max`` rooms or a vocabulary whose
    types are not the room types and relations.
    """
    _check_room_vocabulary(vocab)
    for sample, diagram in enumerate(diagrams):
        if diagram.num_rooms > vocab.n_max:
            raise ValueError(
                f"diagram {sample} has {diagram.num_rooms} rooms, more than n_max={vocab.n_max}"
            )
    return encode_graphs([TypedGraph(d.rooms, d.relations) for d in diagrams], vocab)


def decode(tokens: Tensor, vocab: VocabConfig = RPLAN_VOCAB_CONFIG) -> list[BubbleDiagram]:
    """The diagrams of tokens Int[B, L]; the room count is the number of leading rooms not PAD.

    Raises ``ValueError`` for another shape or dtype, and naming sample, position and id for a MASK,
    a PAD or a foreign id at a real position, or anything but PAD elsewhere.
    """
    _check_room_vocabulary(vocab)
    return [BubbleDiagram(nodes, edges) for nodes, edges in decode_graphs(tokens, vocab)]


def _check_room_vocabulary(vocab: VocabConfig) -> None:
    if vocab.node_types != ROOM_TYPES or vocab.edge_types != RELATIONS:
        raise ValueError(
            "a bubble diagram needs the vocabulary of rooms and relations, VocabConfig(n_max=...); "
            f"got {vocab.num_node_types} node types and {vocab.num_edge_types} edge types"
        )
