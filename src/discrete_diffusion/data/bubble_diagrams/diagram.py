"""``BubbleDiagram``: rooms and the spatial relations between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from discrete_diffusion.layout import RELATIONS, ROOM_TYPES

NUM_RELATIONS = len(RELATIONS) - 1
"""Relations that join two rooms (codes 0..9); code 10, "no-edge", is their absence."""


@dataclass(frozen=True)
class BubbleDiagram:
    """A floor plan as a graph.

    ``rooms``: room type codes (``ROOM_TYPES``), one per room.
    ``relations``: triples (i, j, r) with i < j, sorted: "room i is RELATIONS[r] room j"; a pair
        that is not listed has no relation.
    ``boxes``: optional (x0, y0, x1, y1) per room, y downwards, any unit.
    ``metadata``: anything else worth keeping; ignored by equality.

    Raises ``ValueError`` naming the room or pair that is wrong.
    """

    rooms: tuple[int, ...]
    relations: tuple[tuple[int, int, int], ...]
    boxes: tuple[tuple[float, float, float, float], ...] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False, hash=False)

    def __post_init__(self) -> None:
        n = len(self.rooms)
        if n == 0:
            raise ValueError("a diagram needs at least one room")
        for k, room in enumerate(self.rooms):
            if not 0 <= room < len(ROOM_TYPES):
                raise ValueError(f"room {k}: code {room} is not in 0..{len(ROOM_TYPES) - 1}")
        seen: set[tuple[int, int]] = set()
        for i, j, r in self.relations:
            if not 0 <= i < j < n:
                raise ValueError(f"relation ({i}, {j}): expected 0 <= i < j < {n} rooms")
            if not 0 <= r < NUM_RELATIONS:
                raise ValueError(f"relation ({i}, {j}): code {r} is not in 0..{NUM_RELATIONS - 1}")
            if (i, j) in seen:
                raise ValueError(f"relation ({i}, {j}) is listed twice")
            seen.add((i, j))
        if self.boxes is not None and len(self.boxes) != n:
            raise ValueError(f"{len(self.boxes)} boxes for {n} rooms")
        object.__setattr__(self, "rooms", tuple(self.rooms))
        object.__setattr__(self, "relations", tuple(sorted(map(tuple, self.relations))))
