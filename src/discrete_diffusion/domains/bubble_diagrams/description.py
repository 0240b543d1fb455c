"""What is in a set of diagrams, in counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from discrete_diffusion.domains.bubble_diagrams.dataset import distinct_keys
from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.files.fields import NUM_RELATIONS
from discrete_diffusion.domains.bubble_diagrams.tokens import encode
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.rooms import RELATIONS, ROOM_TYPES


@dataclass(frozen=True)
class Description:
    """Counts over a set of diagrams.

    ``num_distinct``: diagrams that differ by more than the order of their rooms.
    ``rooms``, ``relations``: number of rooms (relations) of a diagram -> diagrams that have it.
    ``room_types``: type -> rooms of it; ``diagrams_with``: type -> diagrams with one or more.
    ``relation_types``: relation -> how often it is listed; read from the other room it is another.
    """

    num_diagrams: int
    num_distinct: int
    rooms: dict[int, int]
    relations: dict[int, int]
    room_types: dict[str, int]
    diagrams_with: dict[str, int]
    relation_types: dict[str, int]


def describe(diagrams: Sequence[BubbleDiagram]) -> Description:
    """Count; ``ValueError`` for an empty set."""
    if not diagrams:
        raise ValueError("there is no diagram to describe")
    vocab = VocabConfig(n_max=max(diagram.num_rooms for diagram in diagrams))
    types = Counter(room for diagram in diagrams for room in diagram.rooms)
    holders = Counter(room for diagram in diagrams for room in set(diagram.rooms))
    listed = Counter(r for diagram in diagrams for _, _, r in diagram.relations)
    return Description(
        num_diagrams=len(diagrams),
        num_distinct=int(distinct_keys(encode(diagrams, vocab), vocab).max()) + 1,
        rooms=_sorted(Counter(diagram.num_rooms for diagram in diagrams)),
        relations=_sorted(Counter(len(diagram.relations) for diagram in diagrams)),
        room_types={name: types[code] for code, name in enumerate(ROOM_TYPES)},
        diagrams_with={name: holders[code] for code, name in enumerate(ROOM_TYPES)},
        relation_types={name: listed[r] for r, name in enumerate(RELATIONS[:NUM_RELATIONS])},
    )


def _sorted(counts: Counter[int]) -> dict[int, int]:
    return dict(sorted(counts.items()))
