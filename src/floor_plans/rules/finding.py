"""``Finding``: what a rule finds wrong with a plan; the kinds of rooms that rules speak of."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.diagrams.rooms import ROOM_TYPES
from floor_plans.plans.contradiction import room_names
from floor_plans.plans.floor_plan import FRONT_DOOR, Door, FloorPlan

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

ADDED = "added"
"""Key of a plan: numbers of the rooms that were added."""

HALL = "Hall"
"""The kind of a room that was added to a diagram so that others are reached from it."""

ROOM_KINDS = (*ROOM_TYPES, HALL)

TOLERANCE = 0.01
"""Metres, and square metres, by which a plan may miss a number: it is written rounded."""

Parameters = Mapping[str, Any]
"""Parameters of a rule by name: numbers, names of room kinds, or numbers by room kind."""


@dataclass(frozen=True)
class Finding:
    """One thing that a rule finds wrong.

    ``rooms``: numbers of the rooms that it is about, empty if it is about the plan as a whole.
    ``found``: what is there and what is demanded; ``change``: what would mend it.
    """

    rooms: tuple[int, ...]
    found: str
    change: str

    def sentence(self) -> str:
        """``bathroom is 1.10 m wide, at least 1.30 m; make it 0.20 m wider``"""
        return f"{self.found}; {self.change}"

    def to_json(self) -> dict[str, Any]:
        return {"rooms": list(self.rooms), "found": self.found, "change": self.change}


Findings = tuple[Finding, ...] | None
"""None: the rule does not apply to the plan; empty: the plan keeps it."""


def added_rooms(diagram: BubbleDiagram) -> list[int]:
    """Numbers of the rooms that were added, by the key "added".

    Raises ``DiagramError`` if that is no list of such numbers.
    """
    added, num = diagram.metadata.get(ADDED, []), diagram.num_rooms
    known = isinstance(added, list | tuple) and all(room in range(num) for room in added)
    if not known:
        shown = reprlib.repr(added)
        raise DiagramError(ADDED, f"expected numbers of rooms, 0 to {num - 1}, got {shown}")
    return [*added]


def kinds_of(plan: FloorPlan) -> tuple[str, ...]:
    """The kind of every room: its type, or ``HALL`` if it was added.

    Raises ``DiagramError`` as ``added_rooms`` does.
    """
    added = added_rooms(plan.diagram)
    types = [ROOM_TYPES[room] for room in plan.diagram.rooms]
    return tuple(HALL if k in added else name for k, name in enumerate(types))


def rooms_of(plan: FloorPlan, kinds: Iterable[str]) -> list[int]:
    """Numbers of the rooms that are of one of these kinds."""
    wanted = set(kinds)
    return [k for k, kind in enumerate(kinds_of(plan)) if kind in wanted]


def name_of(plan: FloorPlan, room: int) -> str:
    """``bathroom 2``; a room that was added is a ``hall``, with its number if there are several."""
    halls = rooms_of(plan, [HALL])
    if room in halls:
        return "hall" if len(halls) == 1 else f"hall {halls.index(room) + 1}"
    return room_names(plan.diagram)[room]


def names_of(plan: FloorPlan, rooms: Iterable[int]) -> str:
    """``living room and kitchen``"""
    return " and ".join(name_of(plan, room) for room in rooms)


def rooms_of_door(door: Door) -> tuple[int, ...]:
    """Numbers of the rooms on its sides; one of a front door."""
    return tuple(room for room in door.rooms if room != FRONT_DOOR)


def name_of_door(plan: FloorPlan, door: Door) -> str:
    """``the door between kitchen and bathroom``, ``the front door into entrance``"""
    which = "the front door into" if door.is_front else "the door between"
    return f"{which} {names_of(plan, rooms_of_door(door))}"


def sides_of(floor: BaseGeometry) -> tuple[float, float]:
    """Shorter and longer side of the box around a floor, metres; 0 of an empty one."""
    if floor.is_empty:
        return 0.0, 0.0
    x0, y0, x1, y1 = floor.bounds
    width, height = float(x1 - x0), float(y1 - y0)
    return min(width, height), max(width, height)
