"""The JSON of the plan that a drawing was written from, beside it in its file."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from typing import Any

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError, inverse_relation
from floor_plans.diagrams.files.json_text import check_keys
from floor_plans.drawings.drawn_parts import DrawnRoom
from floor_plans.plans.door import Box
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.floors import TOLERANCE

WRITTEN = "discrete_diffusion"
"""The key of a file for the JSON of the plan that it was written from."""


def written_text(plan: FloorPlan) -> dict[str, Any]:
    """JSON that ``Drawing.written`` is read from; ``ValueError`` if JSON cannot hold the
    metadata."""
    data = plan.to_json()
    try:
        json.dumps(data, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the plan's metadata cannot be written as JSON ({error})") from error
    return data


def boxes_of(plan: FloorPlan) -> tuple[Box, ...]:
    assert plan.diagram.boxes is not None  # checked by its constructor
    return plan.diagram.boxes


def read_written(data: object) -> FloorPlan:
    try:
        if not isinstance(data, Mapping):
            raise DiagramError("", f"expected a JSON object, got {reprlib.repr(data)}")
        check_keys(data)
        plan = FloorPlan.of(BubbleDiagram.from_json(data))
    except ValueError as error:
        raise DiagramError(
            WRITTEN,
            "is not the JSON of a plan with boxes, and without it relations are measured: repair "
            f"or delete it ({error})",
        ) from error
    return plan


def type_of(room: DrawnRoom, written: FloorPlan | None) -> int:
    """Code of a room's type: of the types that it may be of, the one that was written."""
    if written is not None and 0 <= room.number < written.diagram.num_rooms:
        stated = written.diagram.rooms[room.number]
        return stated if stated in room.among else room.room
    return room.room


def where_they_were(rooms: tuple[DrawnRoom, ...], written: FloorPlan) -> dict[int, int]:
    """Room -> the number it was written with, of rooms that have neither moved nor changed size."""
    boxes = boxes_of(written)
    found: dict[int, int] = {}
    for k, room in enumerate(rooms):
        number = room.number
        if not 0 <= number < len(boxes) or number in found.values():
            continue
        shapes = [boxes[number], written.rooms[number].bounds]
        if any(are_close(room.bounds, bounds) for bounds in shapes):
            found[k] = number
    return found


def relations_between(
    same: Mapping[int, int], diagram: BubbleDiagram
) -> dict[tuple[int, int], int]:
    """Relations of the rooms that are where they were, by their present numbers."""
    now = {number: k for k, number in same.items()}
    found = {}
    for i, j, code in diagram.relations:
        if i in now and j in now:
            first, second = now[i], now[j]
            if first > second:
                first, second, code = second, first, inverse_relation(code)
            found[first, second] = code
    return found


def are_close(some: tuple[float, ...], others: tuple[float, ...]) -> bool:
    """True if each number is within ``TOLERANCE`` of its counterpart."""
    pairs = zip(some, others, strict=False)
    return len(some) == len(others) and all(abs(a - b) <= TOLERANCE for a, b in pairs)
