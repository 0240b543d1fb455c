"""How each room type looks: label, colour, size. One place, so that all pictures agree."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RoomStyle:
    """``label``: short name that fits a bubble; ``name``: full name for the legend.

    ``colour``: fill, ``#rrggbb``; ``radius``: of the bubble, living room = 1.
    """

    label: str
    name: str
    colour: str
    radius: float


ROOM_STYLES: tuple[RoomStyle, ...] = (
    RoomStyle("Living", "Living room", "#f9cb86", 1.00),
    RoomStyle("Master", "Master bedroom", "#9bb3ea", 0.82),
    RoomStyle("Kitchen", "Kitchen", "#f4a391", 0.70),
    RoomStyle("Bath", "Bathroom", "#86d3d6", 0.58),
    RoomStyle("Dining", "Dining room", "#f3e58f", 0.70),
    RoomStyle("Child", "Child's room", "#c8a9ea", 0.70),
    RoomStyle("Study", "Study", "#b8c596", 0.66),
    RoomStyle("Bed", "Second bedroom", "#c0dcf6", 0.72),
    RoomStyle("Guest", "Guest room", "#f2bcd6", 0.70),
    RoomStyle("Balcony", "Balcony", "#a6dfae", 0.64),
    RoomStyle("Entry", "Entrance", "#d3b69c", 0.56),
    RoomStyle("Store", "Storage", "#cfd3da", 0.56),
    RoomStyle("Wall-in", "Wall-in", "#a4acbb", 0.56),
)
"""One style per room code, in the order of ``rooms.ROOM_TYPES``."""

UNKNOWN_ROOM = RoomStyle("?", "Not known yet", "#eef0f4", 0.58)
"""A room whose type is not known."""


def room_style(code: int | None) -> RoomStyle:
    """How a room of this type looks; None: of a type that is not known."""
    return UNKNOWN_ROOM if code is None else ROOM_STYLES[code]
