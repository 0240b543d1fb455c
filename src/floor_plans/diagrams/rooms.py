"""Codes of room types and relations, and the order of rooms that a relation implies."""

from __future__ import annotations

from discrete_diffusion.layout import RELATION_X_ORDER, RELATION_Y_ORDER, RELATIONS, ROOM_TYPES

__all__ = [
    "FORBIDDEN_INSIDE",
    "INSIDE",
    "NO_EDGE",
    "RELATIONS",
    "RELATION_X_ORDER",
    "RELATION_Y_ORDER",
    "ROOM_TYPES",
    "SURROUNDING",
]

NO_EDGE = RELATIONS.index("no-edge")
"""Code of a pair without a relation."""

INSIDE, SURROUNDING = map(RELATIONS.index, ("inside", "surrounding"))

FORBIDDEN_INSIDE: dict[int, tuple[int, ...]] = {
    0: tuple(range(1, 12)),
    1: tuple(range(2, 12)),
    2: (1, 3, 5, 6, 7, 8, 9, 10, 11),
    3: (10,),
    4: (1, 3, 5, 8, 9, 10, 11),
    5: (2, 3, 4, 9, 10, 11),
    6: (3, 9, 10),
    7: (3, 9, 10),
    8: (3, 9, 10),
    9: (2, 3, 6, 10, 11),
    10: (1, 2, 3, 4, 5, 6, 7, 8, 9, 11),
    11: (9,),
}
"""Outer room types that an inner type never lies in, 69 pairs; 99.78 % of 80,788 real plans obey
them. Master rooms inside living rooms (6.6 % of plans) are allowed."""
