"""Styles of rooms, relations and cards, shared by all pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from discrete_diffusion.viz import FAINT_LINE, LINE

HINT_LINE, WALL_LINE = "#b6c1d0", "#cdd5e0"
BROKEN_LINE = "#d9546a"
PROGRESS = "#8ea2c0"
CARD, CARD_EDGE = "#fbfcfd", FAINT_LINE

Dashes = tuple[int, tuple[float, float]]
DOTS: Dashes = (0, (0.1, 2.6))
"""Dots, for lines with round caps."""
DASHES: Dashes = (0, (2.5, 2.0))

Knowledge = Literal["known", "wall", "unknown", "broken"]
"""State of a relation in a picture: stated, stated as a wall without a door, unknown, or violated
by the picture."""

LINE_STYLES: dict[Knowledge, tuple[str, Dashes | str]] = {
    "known": (LINE, "solid"),
    "wall": (WALL_LINE, "solid"),
    "unknown": (HINT_LINE, DOTS),
    "broken": (BROKEN_LINE, DASHES),
}
"""Colour and dashes of each state."""


@dataclass(frozen=True)
class RoomStyle:
    """Style of the rooms of a type.

    ``label``: short name that fits a bubble. ``name``: full name for the legend. ``colour``: fill,
    ``#rrggbb``. ``radius``: radius of the bubble, living room = 1.
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
    RoomStyle("Bed", "Bedroom", "#9bb3ea", 0.76),
    RoomStyle("Outdoor", "Outdoor", "#a6dfae", 0.70),
    RoomStyle("Garage", "Garage", "#b9b2c9", 0.70),
    RoomStyle("Other", "Other", "#e6dccb", 0.56),
)
"""Style of each room code, in the order of ``vocabulary.ROOM_TYPES``; colours within a vocabulary
are distinct."""

UNKNOWN_ROOM = RoomStyle("?", "Not known yet", "#eef0f4", 0.58)


def room_style(code: int | None) -> RoomStyle:
    """Style of a room type; None: of an unknown type."""
    return UNKNOWN_ROOM if code is None else ROOM_STYLES[code]


def shade(colour: str, factor: float) -> str:
    """Darken ``#rrggbb``: multiply every channel by ``factor`` in 0..1."""
    return "#" + "".join(f"{round(channel * factor):02x}" for channel in bytes.fromhex(colour[1:]))


def tint(colour: str, share: float) -> str:
    """Lighten ``#rrggbb``: mix it with white, ``share`` in 0..1 of the colour."""
    channels = bytes.fromhex(colour[1:])
    return "#" + "".join(f"{round(255 - share * (255 - channel)):02x}" for channel in channels)
