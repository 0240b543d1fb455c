"""Added halls: rooms that no diagram has, from which others are reached."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.geometry import relations_from_boxes, threshold_of
from floor_plans.diagrams.rooms import NO_EDGE
from floor_plans.plans.door import Box
from floor_plans.rules.finding import ADDED, added_rooms
from floor_plans.solver.room_model import HALL_TYPE

if TYPE_CHECKING:
    from floor_plans.plans.floor_plan import FloorPlan

AUTO, NEVER = HALLS = ("auto", "never")
"""A hall is added where the solver meets more with one, or never."""

LED_FROM = ("front", "access", "bath")
"""Rules that a hall is added for before others."""


def with_hall(diagram: BubbleDiagram, boxes: tuple[Box, ...]) -> BubbleDiagram:
    """The diagram with these boxes, in metres; with a hall where there is one more than rooms: the
    last room, of the type of an entrance, whose number is in "added", with the relations that its
    box has."""
    hall = diagram.num_rooms
    if len(boxes) == hall:
        return replace(diagram, boxes=boxes)
    codes = relations_from_boxes(np.array(boxes), threshold_of("metres", None))
    read = [(i, hall, int(codes[i, hall])) for i in range(hall) if codes[i, hall] != NO_EDGE]
    return BubbleDiagram(
        (*diagram.rooms, HALL_TYPE),
        tuple(sorted((*diagram.relations, *read))),
        boxes,
        {**diagram.metadata, ADDED: [hall]},
    )


def without_halls(diagram: BubbleDiagram) -> BubbleDiagram:
    """The diagram, and its key "areas", without the rooms that were added to it and its boxes.

    Raises ``DiagramError`` if its key "added" is wrong.
    """
    added = added_rooms(diagram)
    own = [room for room in range(diagram.num_rooms) if room not in added]
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


def leads_on(plan: FloorPlan) -> bool:
    """True if doors lead through every room that was added: it has two at least."""
    return all(
        sum(room in door.rooms for door in plan.doors) >= 2 for room in added_rooms(plan.diagram)
    )
