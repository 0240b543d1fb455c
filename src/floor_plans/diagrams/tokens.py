"""Bubble diagrams as token sequences."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from discrete_diffusion.data import EncodedGraphs, decode_graphs, encode_graphs
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.type_codes import codes_of


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
