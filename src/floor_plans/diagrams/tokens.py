"""Diagrams as token sequences, and their mirror images and quarter turns as augmentation.

A mirrored plan is again a plan; its diagram has the same rooms, with "left" and "right" exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from discrete_diffusion import layout
from discrete_diffusion.config import unknown_name
from discrete_diffusion.data import EncodedGraphs, decode_graphs, encode_graphs
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.vocabulary import codes_of


def encode(
    diagrams: Sequence[BubbleDiagram], vocab: VocabConfig = RPLAN_VOCAB_CONFIG
) -> EncodedGraphs:
    """Encode diagrams: room slots, then pairs i < j row-major; unlisted pairs are "no-edge". Raises
    ``ValueError`` for a diagram with more than ``vocab.n_max`` rooms or a room or relation that
    ``vocab`` does not have, and for a vocabulary with types that no diagram has."""
    codes = codes_of(vocab)
    for sample, diagram in enumerate(diagrams):
        if (num := diagram.num_rooms) > vocab.n_max:
            raise ValueError(f"diagram {sample} has {num} rooms, more than n_max={vocab.n_max}")
    graphs = [codes.graph(each.rooms, each.relations, k) for k, each in enumerate(diagrams)]
    return encode_graphs(graphs, vocab)


def decode(tokens: Tensor, vocab: VocabConfig = RPLAN_VOCAB_CONFIG) -> list[BubbleDiagram]:
    """Decode diagrams from tokens Int[B, L]; a diagram has the leading rooms that are not PAD.
    Raises ``ValueError`` for another shape or dtype. For a MASK, a PAD or a foreign id at a real
    position, or anything but PAD elsewhere, the error names sample, position and id."""
    codes = codes_of(vocab)
    return [
        BubbleDiagram.from_checked(
            tuple([codes.rooms[k] for k in nodes]),
            tuple([(i, j, codes.relations[r]) for i, j, r in edges]),
        )
        for nodes, edges in decode_graphs(tokens, vocab)
    ]


Motion = tuple[bool, bool, bool]
"""Three flags: mirror left to right, mirror top to bottom, then exchange the two axes."""

SYMMETRIES: dict[str, tuple[Motion, ...]] = {
    "none": ((False, False, False),),
    "mirror": ((False, False, False), (True, False, False)),
    "square": tuple((x, y, s) for s in (False, True) for y in (False, True) for x in (False, True)),
}
"""Motions of each symmetry, the identity first; "square" has mirror images and quarter turns."""


def moved_relations(motion: Motion) -> tuple[int, ...]:
    """Image of each relation code 0..10 under a motion of the plan."""
    mirror_x, mirror_y, swap = motion
    directions = list(zip(layout.RELATION_X_ORDER, layout.RELATION_Y_ORDER, strict=True))

    def image(code: int) -> int:
        x, y = directions[code]
        if (x, y) == (0, 0):  # inside, surrounding, no-edge
            return code
        x, y = (-x if mirror_x else x), (-y if mirror_y else y)
        return directions.index((y, x) if swap else (x, y))

    return tuple(map(image, range(len(directions))))


def symmetric_images(diagrams: EncodedGraphs, vocab: VocabConfig, symmetry: str) -> EncodedGraphs:
    """Return the (K - 1) B images of B diagrams under a symmetry of K motions, without originals.
    Raises ``ValueError`` for an unknown symmetry, and for one of relations without direction."""
    if symmetry not in SYMMETRIES:
        raise ValueError(unknown_name("symmetry", symmetry, SYMMETRIES))
    if symmetry != "none" and not vocab.edge_directions:
        raise ValueError(
            f"data.symmetry={symmetry}: relations without direction are those of every mirror "
            "image too; leave it at none"
        )
    motions = SYMMETRIES[symmetry][1:]
    # rooms keep their slots; relations become their images
    moved, first = [diagrams.x0[:0]], vocab.edge_offset
    for motion in motions:
        ids, codes = torch.arange(vocab.vocab_size), torch.tensor(moved_relations(motion))
        ids[first : first + len(codes)] = first + codes
        rooms, relations = diagrams.x0.tensor_split([vocab.n_max], dim=1)
        moved.append(torch.cat([rooms, ids[relations]], dim=1))
    real, num_nodes = diagrams.real.repeat(len(motions), 1), diagrams.num_nodes
    return EncodedGraphs(torch.cat(moved), real, num_nodes.repeat(len(motions)))
