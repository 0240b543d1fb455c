"""Added halls, and plans of the solver's boxes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.geometry import relations_from_boxes, threshold_of
from floor_plans.diagrams.rooms import NO_EDGE
from floor_plans.plans.box_model import Boxes
from floor_plans.plans.door import Box
from floor_plans.plans.door_placement import find_doors
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.outline import PER_METRE
from floor_plans.rules.finding import ADDED, added_rooms
from floor_plans.solver.room_model import HALL_TYPE, PlanSpec

if TYPE_CHECKING:
    from floor_plans.plans.floor_plan import FloorPlan

AUTO, NEVER = HALLS = ("auto", "never")
"""Options for halls: "auto" adds one if the solver then satisfies more; "never"."""

CIRCULATION_RULES = ("front", "access", "bath")
"""Rules that a hall is added for."""


def with_hall(diagram: BubbleDiagram, boxes: tuple[Box, ...]) -> BubbleDiagram:
    """Return the diagram with these boxes, in metres. A box more than there are rooms is that of a
    hall.

    The hall is the last room, of the type of an entrance. Its number is in "added", and its
    relations are measured.
    """
    hall = diagram.num_rooms
    if len(boxes) == hall:
        return replace(diagram, boxes=boxes)
    # the relations of the hall are those of its box
    codes = relations_from_boxes(np.array(boxes), threshold_of("metres", None))
    read = [(i, hall, int(codes[i, hall])) for i in range(hall) if codes[i, hall] != NO_EDGE]
    return BubbleDiagram(
        (*diagram.rooms, HALL_TYPE),
        tuple(sorted((*diagram.relations, *read))),
        boxes,
        {**diagram.metadata, ADDED: [hall]},
    )


def remove_halls(diagram: BubbleDiagram) -> BubbleDiagram:
    """Return the diagram, and its key "areas", without boxes and added rooms.

    Raises ``DiagramError`` if its key "added" is wrong.
    """
    added = added_rooms(diagram)
    own = [room for room in range(diagram.num_rooms) if room not in added]
    # new numbers of the other rooms
    number = {room: k for k, room in enumerate(own)}
    metadata = {key: value for key, value in diagram.metadata.items() if key != ADDED}
    areas = metadata.get("areas")
    if added and isinstance(areas, list) and len(areas) == diagram.num_rooms:
        metadata["areas"] = [areas[room] for room in own]
    relations = (
        (number[i], number[j], code)
        for i, j, code in diagram.relations
        if i in number and j in number
    )
    rooms = tuple(diagram.rooms[room] for room in own)
    return replace(diagram, rooms=rooms, relations=tuple(relations), boxes=None, metadata=metadata)


def halls_connect(plan: FloorPlan) -> bool:
    """Return True if every added room has at least two doors."""
    return all(
        sum(room in door.rooms for door in plan.doors) >= 2 for room in added_rooms(plan.diagram)
    )


def plan_of(
    diagram: BubbleDiagram, spec: PlanSpec, boxes: Boxes, *, stays: bool = False
) -> FloorPlan:
    """Return the plan of boxes in metres, with the doors that its walls have room for. A free
    outline begins at 0, unless it ``stays``."""
    x, y = spec.outline.origin
    if spec.outline.boundary is None and not stays:
        left, top = min(box[0] for box in boxes), min(box[1] for box in boxes)
        boxes = tuple((x0 - left, y0 - top, x1 - left, y1 - top) for x0, y0, x1, y1 in boxes)
    # from grid units to metres
    metres = [
        (x + x0 / PER_METRE, y + y0 / PER_METRE, x + x1 / PER_METRE, y + y1 / PER_METRE)
        for x0, y0, x1, y1 in boxes
    ]
    placed = with_hall(diagram, tuple(metres))
    plan = FloorPlan(placed, boundary=spec.outline.boundary)
    return find_doors(plan, front=spec.front_door)
