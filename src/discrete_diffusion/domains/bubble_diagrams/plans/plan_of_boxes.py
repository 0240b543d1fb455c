"""``plan_of``: the floor plan of boxes that the solver found."""

from __future__ import annotations

from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.plans.box_model import Boxes
from discrete_diffusion.domains.bubble_diagrams.plans.door_placement import find_doors
from discrete_diffusion.domains.bubble_diagrams.plans.floor_plan import FloorPlan
from discrete_diffusion.domains.bubble_diagrams.plans.hall import with_hall
from discrete_diffusion.domains.bubble_diagrams.plans.outline import PER_METRE
from discrete_diffusion.domains.bubble_diagrams.plans.room_model import Demands


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
