"""The default vocabulary of graphs: the room types and relations of RPLAN. Imports nothing."""

from __future__ import annotations

ROOM_TYPES = (
    "LivingRoom",
    "MasterRoom",
    "Kitchen",
    "Bathroom",
    "DiningRoom",
    "ChildRoom",
    "StudyRoom",
    "SecondRoom",
    "GuestRoom",
    "Balcony",
    "Entrance",
    "Storage",
    "Wall-in",
)
"""Room codes 0..12 of the Graph2Plan / RPLAN tables."""

RELATIONS = (
    "left-above",
    "left-below",
    "left-of",
    "above",
    "inside",
    "surrounding",
    "below",
    "right-of",
    "right-above",
    "right-below",
    "no-edge",
)
"""Relation codes 0..10: "room i is REL room j" for i < j. Seen from j, code r < 10 reads 9 - r."""

RELATION_X_ORDER = (-1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 0)
"""Per relation code: -1 if room i lies left of room j, 1 if right of it, 0 if neither is known."""

RELATION_Y_ORDER = (-1, 1, 0, -1, 0, 0, 1, 0, -1, 1, 0)
"""Per relation code: -1 if room i lies above room j, 1 if below it, 0 if neither is known."""
