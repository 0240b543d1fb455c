"""``Finding``: a violation of a rule; names of rooms and doors in words; limits of plans."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from discrete_diffusion.layout import ROOM_TYPES
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.plans.contradiction import room_names
from floor_plans.plans.floor_plan import FRONT_DOOR, Door, FloorPlan, Point
from floor_plans.plans.outline import check_length

ADDED = "added"  # key of a plan: numbers of the rooms that were added to its diagram
HALL = "Hall"  # kind of a room that was added to a diagram to give access to others

ROOM_KINDS = (*ROOM_TYPES, HALL)

TOLERANCE = 0.01
"""Metres, and square metres, that a plan may miss a limit by, as its numbers are rounded."""

Parameters = Mapping[str, Any]
"""Parameters of a rule by name: numbers, kinds of rooms, or numbers by kind."""

MOST_ROOMS, MOST_CORNERS = 64, 64
"""Most rooms of a plan from an untrusted source, and most corners of its boundary."""

FARTHEST = 1e7  # largest coordinate, in any unit; in metres it exceeds the size of the earth
_LEAST = 1e-6  # least length of a side, metres
_MOST_NUMBERS = 2 * MOST_ROOMS * MOST_CORNERS  # most numbers under one key

_MOST_ENTRIES = {
    "rooms": MOST_ROOMS,
    "relations": MOST_ROOMS**2,
    "doors": 4 * MOST_ROOMS,
    "boundary": MOST_CORNERS,
}


@dataclass(frozen=True)
class Finding:
    """Violation of a rule. ``rooms``: numbers of the rooms concerned, empty for the plan as a
    whole. ``found``: the state and the limit; ``change``: the remedy."""

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
    """Numbers of the rooms that were added to a diagram, by its key "added". Raises
    ``DiagramError`` if the key is not a list of numbers of rooms."""
    added, num = diagram.metadata.get(ADDED, []), diagram.num_rooms
    if not (isinstance(added, list | tuple) and all(room in range(num) for room in added)):
        shown = reprlib.repr(added)
        raise DiagramError(ADDED, f"expected numbers of rooms, 0 to {num - 1}, got {shown}")
    return [*added]


def remove_halls(diagram: BubbleDiagram) -> BubbleDiagram:
    """Remove the boxes and the ``added_rooms`` of a diagram, with the areas of these rooms."""
    added = added_rooms(diagram)
    own = [room for room in range(diagram.num_rooms) if room not in added]
    number = {room: k for k, room in enumerate(own)}
    metadata = {key: value for key, value in diagram.metadata.items() if key != ADDED}
    areas = metadata.get("areas")
    if added and isinstance(areas, list) and len(areas) == diagram.num_rooms:
        metadata["areas"] = [areas[room] for room in own]
    kept = [(i, j, code) for i, j, code in diagram.relations if i in number and j in number]
    relations = tuple((number[i], number[j], code) for i, j, code in kept)
    rooms = tuple(diagram.rooms[room] for room in own)
    return replace(diagram, rooms=rooms, relations=relations, boxes=None, metadata=metadata)


def kinds_of(plan: FloorPlan) -> tuple[str, ...]:
    """Kind of every room: its type, or ``HALL`` if it is one of the ``added_rooms``."""
    added, rooms = added_rooms(plan.diagram), enumerate(plan.diagram.rooms)
    return tuple(HALL if k in added else ROOM_TYPES[room] for k, room in rooms)


def limits_of(plan: FloorPlan, limits: Mapping[str, Any]) -> list[tuple[int, str, Any]]:
    """Rooms whose kinds have a limit, with kind and limit."""
    kinds = enumerate(kinds_of(plan))
    return [(k, kind, limits[kind]) for k, kind in kinds if kind in limits]


def rooms_of(plan: FloorPlan, kinds: Iterable[str]) -> list[int]:
    """Numbers of the rooms of these kinds."""
    wanted = set(kinds)
    return [k for k, kind in enumerate(kinds_of(plan)) if kind in wanted]


def name_of(plan: FloorPlan, room: int) -> str:
    """Name of a room, as ``bathroom 2``, or ``hall 2`` of added rooms."""
    halls = rooms_of(plan, [HALL])
    if room in halls:
        return "hall" if len(halls) == 1 else f"hall {halls.index(room) + 1}"
    return room_names(plan.diagram)[room]


def names_of(plan: FloorPlan, rooms: Iterable[int]) -> str:
    """Names of rooms: ``living room and kitchen``."""
    return " and ".join(name_of(plan, room) for room in rooms)


def rooms_of_door(door: Door) -> tuple[int, ...]:
    """Numbers of the rooms on both sides of a door; a front door has one."""
    return tuple(room for room in door.rooms if room != FRONT_DOOR)


def name_of_door(plan: FloorPlan, door: Door) -> str:
    """Name of a door: ``the door between kitchen and bathroom``, ``the front door into
    entrance``."""
    which = "the front door into" if door.is_front else "the door between"
    return f"{which} {names_of(plan, rooms_of_door(door))}"


def plan_within_limits(data: Mapping[str, Any]) -> FloorPlan:
    """Read a plan from an untrusted source. Raises ``DiagramError`` naming the key for too many
    entries, too large numbers or lengths, and what ``FloorPlan.of`` refuses."""
    # numbers of entries
    for key, most in _MOST_ENTRIES.items():
        if isinstance(data.get(key), list) and len(data[key]) > most:
            raise DiagramError(key, f"{len(data[key])} entries; expected at most {most}")
    # numbers, at any depth
    for key in ("boxes", "areas", "doors", "boundary", "floors"):
        numbers = [*_numbers(data.get(key))]
        if len(numbers) > _MOST_NUMBERS:
            raise DiagramError(key, f"{len(numbers)} numbers; expected at most {_MOST_NUMBERS}")
        for number in numbers:
            if not abs(number) <= FARTHEST:  # NaN is not
                raise DiagramError(key, f"{reprlib.repr(number)} is not within {FARTHEST:g} of 0")
    # lengths of the plan as a whole
    plan = FloorPlan.of(BubbleDiagram.from_json(data))
    places = corners_of_boxes(plan)
    check_within("boxes", places)
    check_within("boundary", [*places, *(plan.boundary or ())])
    for door in plan.doors:
        x0, y0, x1, y1 = door.box(0)
        check_within("doors", [*places, (x0, y0), (x1, y1)])
    return plan


def corners_of_boxes(plan: FloorPlan) -> list[Point]:
    """Two opposite corners of the box of every room."""
    boxes = plan.diagram.boxes or ()
    return [corner for x0, y0, x1, y1 in boxes for corner in ((x0, y0), (x1, y1))]


def check_within(key: str, places: list[Point]) -> None:
    """Raise ``DiagramError`` for places further apart than the greatest length of a plan."""
    width, height = (max(axis) - min(axis) for axis in zip(*places, strict=True))
    check_length(key, width, height)


def _numbers(value: Any) -> Iterator[float]:
    """Numbers in nested lists and objects."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, int | float):
            yield value
        elif isinstance(value, list | dict):
            pending.extend(value.values() if isinstance(value, dict) else value)


def check_rooms(plan: FloorPlan) -> None:
    """Raise ``DiagramError`` naming a room whose box is a line or a point."""
    for k, (x0, y0, x1, y1) in enumerate(plan.diagram.boxes or ()):
        if min(x1 - x0, y1 - y0) < _LEAST:
            sides = f"{x1 - x0:g} x {y1 - y0:g} m"
            reason = f"{name_of(plan, k)} has no area ({sides}); give its box a width and a height"
            raise DiagramError(f"boxes[{k}]", reason)


def check_extents(plan: FloorPlan) -> None:
    """Raise ``DiagramError`` naming a room without area, or a door without width."""
    check_rooms(plan)
    for k, door in enumerate(plan.doors):
        if math.dist(door.start, door.end) < _LEAST:
            name = name_of_door(plan, door)
            raise DiagramError(f"doors[{k}]", f"{name} has no width; widen it, or leave it out")
