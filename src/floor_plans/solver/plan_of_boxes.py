"""``plan_of``: the floor plan of boxes that the solver found."""

from __future__ import annotations

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.plans.box_model import Boxes
from floor_plans.plans.door_placement import find_doors
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.outline import PER_METRE
from floor_plans.solver.hall import with_hall
from floor_plans.solver.room_model import Demands


def plan_of(
    diagram: BubbleDiagram, demands: Demands, boxes: Boxes, *, stays: bool = False
) -> FloorPlan:
    """Plan in metres, with the doors that its walls have room for. A free outline begins at 0,
    unless it ``stays`` where it is."""
    x, y = demands.outline.origin
    if demands.outline.boundary is None and not stays:
        boxes = _at_the_origin(boxes)
    metres = [
        (x + x0 / PER_METRE, y + y0 / PER_METRE, x + x1 / PER_METRE, y + y1 / PER_METRE)
        for x0, y0, x1, y1 in boxes
    ]
    placed = with_hall(diagram, tuple(metres))
    plan = FloorPlan(placed, boundary=demands.outline.boundary)
    return find_doors(plan, front=demands.front_door)


def _at_the_origin(boxes: Boxes) -> Boxes:
    x, y = min(box[0] for box in boxes), min(box[1] for box in boxes)
    return tuple((x0 - x, y0 - y, x1 - x, y1 - y) for x0, y0, x1, y1 in boxes)
