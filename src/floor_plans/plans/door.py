"""``Door``: an opening between two rooms, or to the outside."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from floor_plans.diagrams.files.fields import (
    DiagramError,
    checked_box,
    checked_integer,
    finite_number,
)
from floor_plans.diagrams.geometry import boxes_in_metres

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

Point = tuple[float, float]
"""x, y in metres, y downwards."""

Box = tuple[float, float, float, float]

FRONT_DOOR = -1
"""Number that stands for the outside among the rooms of a door."""

_OUTSIDE = "outside"
"""Name of ``FRONT_DOOR`` in JSON."""

_AROUND = 0.1
"""Metres around a door within which the areas of rooms are compared to find the rooms it joins."""


@dataclass(frozen=True)
class Door:
    """Opening in the wall between two rooms, or a front door, from ``start`` to ``end``.

    ``rooms``: numbers of the rooms, the smaller first; (room, ``FRONT_DOOR``) leads outside.
    ``thickness``: of its wall; 0 if boxes of rooms end in the middle of walls.
    """

    rooms: tuple[int, int]
    start: Point
    end: Point
    thickness: float = 0.0

    @property
    def is_front(self) -> bool:
        return self.rooms[1] == FRONT_DOOR

    @property
    def ends(self) -> tuple[float, ...]:
        return (*self.start, *self.end)

    def box(self, thickness: float) -> Box:
        """Box (x0, y0, x1, y1) of the opening. ``thickness``: of its wall, if it states none."""
        (x0, x1), (y0, y1) = (sorted(pair) for pair in zip(self.start, self.end, strict=True))
        half = (self.thickness or thickness) / 2
        if x1 - x0 >= y1 - y0:
            return x0, y0 - half, x1, y1 + half
        return x0 - half, y0, x1 + half, y1

    @classmethod
    def from_box(cls, rooms: tuple[int, int], box: Box) -> Door:
        """Inverse of ``box``: the door is as wide as the longer side."""
        x0, y0, x1, y1 = box
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        if x1 - x0 >= y1 - y0:
            return cls(rooms, (x0, y), (x1, y), y1 - y0)
        return cls(rooms, (x, y0), (x, y1), x1 - x0)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "rooms": rooms_to_json(self.rooms),
            "from": list(self.start),
            "to": list(self.end),
        }
        return data | ({"thickness": self.thickness} if self.thickness else {})

    @classmethod
    def from_json(cls, data: Any, num_rooms: int) -> Door:
        """Read a door. Raises ``DiagramError`` naming what is wrong."""
        # two ends of two coordinates
        ends: list[Any] = []
        if isinstance(data, Mapping):
            ends = [data.get(key) for key in ("from", "to")]
        if not (ends and all(isinstance(end, list | tuple) and len(end) == 2 for end in ends)):
            raise DiagramError(
                "doors",
                'expected {"rooms": [i, j or "outside"], "from": [x, y], "to": [x, y]}, got '
                f"{reprlib.repr(data)}",
            )
        start, end = ((finite_number(x, "doors"), finite_number(y, "doors")) for x, y in ends)
        thickness = finite_number(data.get("thickness", 0.0), "doors")
        return cls(rooms_from_json(data.get("rooms"), num_rooms), start, end, thickness)


def read_door(data: object, floors: Sequence[BaseGeometry], unit: str) -> Door:
    """Read a door of a plan with these floors.

    Accepts what ``Door.to_json`` writes, in metres, and {"type": "front-door" or "interior-door",
    "box": [x0, y0, x1, y1], "rooms": [i, j]} in ``unit``. Without "rooms" the door joins the
    nearest rooms.
    """
    if not isinstance(data, Mapping) or "box" not in data:
        return Door.from_json(data, len(floors))
    (box,) = boxes_in_metres([checked_box(data["box"], "doors")], unit)
    if "rooms" in data:
        return Door.from_box(rooms_from_json(data["rooms"], len(floors)), box)
    return Door.from_box(
        adjacent_rooms(box, floors, is_front=data.get("type") == "front-door"), box
    )


def adjacent_rooms(
    box: Box, floors: Sequence[BaseGeometry], *, is_front: bool = False
) -> tuple[int, int]:
    """Rooms that a door joins: the two nearest, or the nearest and the outside. Among rooms at the
    same distance, to a centimetre, those with most area around the door."""
    import shapely

    opening = shapely.box(*box)
    around = opening.buffer(_AROUND)

    def nearness(room: int) -> tuple[float, float]:
        return round(opening.distance(floors[room]), 2), -around.intersection(floors[room]).area

    # by distance, then by area around the door
    nearest = sorted(range(len(floors)), key=nearness)
    if is_front or len(nearest) == 1:
        return nearest[0], FRONT_DOOR
    return ordered(nearest[0], nearest[1])


def ordered(first: int, second: int) -> tuple[int, int]:
    """Order the rooms of a door: the smaller first, ``FRONT_DOOR`` last."""
    in_order = second == FRONT_DOOR or FRONT_DOOR < first < second
    return (first, second) if in_order else (second, first)


def rooms_to_json(rooms: tuple[int, int]) -> list[int | str]:
    """Return [i, j], or [i, "outside"]."""
    return [rooms[0], _OUTSIDE if rooms[1] == FRONT_DOOR else rooms[1]]


def rooms_from_json(value: object, num_rooms: float) -> tuple[int, int]:
    """Inverse of ``rooms_to_json``, for rooms in any order. Raises ``DiagramError`` for anything
    else."""
    given = list(value) if isinstance(value, list | tuple) and len(value) == 2 else []
    # each entry is a number of a room, or the outside
    numbers = [
        FRONT_DOOR if room == _OUTSIDE else checked_integer(room, "doors", "a room number")
        for room in given
    ]
    known = all(room == FRONT_DOOR or 0 <= room < num_rooms for room in numbers)
    if not known or len(set(numbers)) != 2:
        raise DiagramError(
            "doors",
            f'expected the rooms [i, j or "outside"] of a plan with {num_rooms} rooms, got '
            f"{reprlib.repr(value)}",
        )
    return ordered(numbers[0], numbers[1])
