"""``Finding``: a violation of a rule, with the rooms and doors in words."""

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
"""Key of a plan: numbers of the rooms that were added to its diagram."""

HALL = "Hall"
"""Kind of a room that was added to a diagram to give access to others."""

ROOM_KINDS = (*ROOM_TYPES, HALL)

TOLERANCE = 0.01
"""Metres, and square metres, that a plan may miss a limit by, as its numbers are rounded."""

Parameters = Mapping[str, Any]
"""Parameters of a rule by name: numbers, kinds of rooms, or numbers by kind."""


@dataclass(frozen=True)
class Finding:
    """Violation of a rule.

    ``rooms``: numbers of the rooms concerned, empty for the plan as a whole. ``found``: the state
    and the limit; ``change``: the remedy.
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
"""Violations of a rule; empty: the plan satisfies it; None: the rule does not apply."""


def added_rooms(diagram: BubbleDiagram) -> list[int]:
    """Numbers of the rooms that were added to a diagram, by its key "added".

    Raises ``DiagramError`` if the key is not a list of numbers of rooms.
    """
    added, num = diagram.metadata.get(ADDED, []), diagram.num_rooms
    known = isinstance(added, list | tuple) and all(room in range(num) for room in added)
    if not known:
        shown = reprlib.repr(added)
        raise DiagramError(ADDED, f"expected numbers of rooms, 0 to {num - 1}, got {shown}")
    return [*added]


def kinds_of(plan: FloorPlan) -> tuple[str, ...]:
    """Kind of every room: its type, or ``HALL`` if it was added.

    Raises ``DiagramError`` as ``added_rooms`` does.
    """
    added = added_rooms(plan.diagram)
    types = [ROOM_TYPES[room] for room in plan.diagram.rooms]
    return tuple(HALL if k in added else name for k, name in enumerate(types))


def rooms_of(plan: FloorPlan, kinds: Iterable[str]) -> list[int]:
    """Numbers of the rooms of these kinds."""
    wanted = set(kinds)
    return [k for k, kind in enumerate(kinds_of(plan)) if kind in wanted]


def name_of(plan: FloorPlan, room: int) -> str:
    """Name of a room, as ``bathroom 2``. An added room is a ``hall``, numbered if there are
    several."""
    # added rooms have no type of their own
    halls = rooms_of(plan, [HALL])
    if room in halls:
        return "hall" if len(halls) == 1 else f"hall {halls.index(room) + 1}"
    return room_names(plan.diagram)[room]


def names_of(plan: FloorPlan, rooms: Iterable[int]) -> str:
    """Names of rooms: ``living room and kitchen``."""
    return " and ".join(name_of(plan, room) for room in rooms)


def rooms_of_door(door: Door) -> tuple[int, ...]:
    """Numbers of the rooms on its sides; one for a front door."""
    return tuple(room for room in door.rooms if room != FRONT_DOOR)


def name_of_door(plan: FloorPlan, door: Door) -> str:
    """Name of a door: ``the door between kitchen and bathroom``, ``the front door into
    entrance``."""
    which = "the front door into" if door.is_front else "the door between"
    return f"{which} {names_of(plan, rooms_of_door(door))}"


def sides_of(floor: BaseGeometry) -> tuple[float, float]:
    """Shorter and longer side of the box around a floor, metres; 0 for an empty floor."""
    if floor.is_empty:
        return 0.0, 0.0
    x0, y0, x1, y1 = floor.bounds
    width, height = float(x1 - x0), float(y1 - y0)
    return min(width, height), max(width, height)
