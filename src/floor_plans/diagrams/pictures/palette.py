"""Looks of rooms, relations and cards: one place, so that all pictures agree."""

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
"""With round caps."""
DASHES: Dashes = (0, (2.5, 2.0))

Knowledge = Literal["known", "wall", "unknown", "broken"]
"""State of a relation: that a plan says it, that it says there is a wall and no door, that it says
nothing, that the picture contradicts it."""

LINE_STYLES: dict[Knowledge, tuple[str, Dashes | str]] = {
    "known": (LINE, "solid"),
    "wall": (WALL_LINE, "solid"),
    "unknown": (HINT_LINE, DOTS),
    "broken": (BROKEN_LINE, DASHES),
}
"""Colour and dashes."""


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
    RoomStyle("Bed", "Bedroom", "#9bb3ea", 0.76),
    RoomStyle("Outdoor", "Outdoor", "#a6dfae", 0.70),
    RoomStyle("Garage", "Garage", "#b9b2c9", 0.70),
    RoomStyle("Other", "Other", "#e6dccb", 0.56),
)
"""One style per room code, in the order of ``vocabulary.ROOM_TYPES``; no vocabulary has two of one
colour."""

UNKNOWN_ROOM = RoomStyle("?", "Not known yet", "#eef0f4", 0.58)


def room_style(code: int | None) -> RoomStyle:
    """Look of a room of this type; None: of a type that is not known."""
    return UNKNOWN_ROOM if code is None else ROOM_STYLES[code]


def shade(colour: str, factor: float) -> str:
    """``#rrggbb`` with every channel multiplied by ``factor`` in 0..1: darker, same hue."""
    return "#" + "".join(f"{round(channel * factor):02x}" for channel in bytes.fromhex(colour[1:]))


def tint(colour: str, share: float) -> str:
    """``#rrggbb`` mixed with white: ``share`` in 0..1 of the colour, same hue."""
    channels = bytes.fromhex(colour[1:])
    return "#" + "".join(f"{round(255 - share * (255 - channel)):02x}" for channel in channels)
