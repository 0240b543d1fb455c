"""Limits of plans from untrusted sources, and checks that rooms and doors have a size."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterator, Mapping
from typing import Any

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.plans.floor_plan import FloorPlan, Point
from floor_plans.plans.outline import check_length
from floor_plans.rules.finding import name_of, name_of_door

_LEAST = 1e-6
"""Least length of a side, metres."""

MOST_ROOMS, MOST_CORNERS = 64, 64
"""Most rooms of a plan, and most corners of its boundary."""

FARTHEST = 1e7
"""Largest coordinate, in any unit; in metres it exceeds the size of the earth."""

_MOST_NUMBERS = 2 * MOST_ROOMS * MOST_CORNERS
"""Most numbers under one key."""

_MOST_ENTRIES = {
    "rooms": MOST_ROOMS,
    "relations": MOST_ROOMS**2,
    "doors": 4 * MOST_ROOMS,
    "boundary": MOST_CORNERS,
}


def plan_within_limits(data: Mapping[str, Any]) -> FloorPlan:
    """Read a plan from an untrusted source.

    Raises ``DiagramError`` naming the key, for too many entries, too large numbers or lengths,
    before anything is computed, and for anything that ``FloorPlan.of`` refuses.
    """
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
    """Raise ``DiagramError`` for places that are further apart than a plan is long."""
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
        # a box that is a line or a point
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
