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

TEXT = "#26303d"
MUTED_TEXT = "#67717f"
LINE = "#a3adba"
BROKEN_LINE = "#d9546a"
HINT_LINE = "#b6c1d0"
PROGRESS = "#8ea2c0"
CARD = "#fbfcfd"
CARD_EDGE = "#e4e8ee"
FLAG_EDGE = "#e07b86"
FLAG_CARD = "#fef8f8"

Dashes = tuple[int, tuple[float, float]]
DOTS: Dashes = (0, (0.1, 2.6))
"""Line style of what is not known; with round caps."""
DASHES: Dashes = (0, (2.5, 2.0))
"""Line style of what is contradicted."""


def room_style(code: int | None) -> RoomStyle:
    """How a room of this type looks; None: of a type that is not known."""
    return UNKNOWN_ROOM if code is None else ROOM_STYLES[code]


def shade(colour: str, factor: float) -> str:
    """``#rrggbb`` with every channel multiplied by ``factor`` in 0..1: darker, same hue."""
    channels = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return "#" + "".join(f"{round(channel * factor):02x}" for channel in channels)
