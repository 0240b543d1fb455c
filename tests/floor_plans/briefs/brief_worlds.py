"""All diagrams of a few rooms, types and relations, which can be enumerated."""

from __future__ import annotations

from itertools import product

from discrete_diffusion.layout import VocabConfig
from floor_plans import BubbleDiagram

VOCAB = VocabConfig(n_max=3)
CODES = (2, 6, 7)


def all_diagrams(num_rooms: int) -> list[BubbleDiagram]:
    pairs = [(i, j) for i in range(num_rooms) for j in range(i + 1, num_rooms)]
    return [
        BubbleDiagram(
            rooms, tuple((*pair, r) for pair, r in zip(pairs, codes, strict=True) if r is not None)
        )
        for rooms in product(range(3), repeat=num_rooms)
        for codes in product((None, *CODES), repeat=len(pairs))
    ]
