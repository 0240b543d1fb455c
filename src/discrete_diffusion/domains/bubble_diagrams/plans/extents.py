"""Check that the rooms and doors of a plan have an extent, before it is judged or written."""

from __future__ import annotations

import math

from discrete_diffusion.domains.bubble_diagrams.files.fields import DiagramError
from discrete_diffusion.domains.bubble_diagrams.plans.floor_plan import FloorPlan
from discrete_diffusion.domains.bubble_diagrams.plans.rules.finding import name_of, name_of_door

_LEAST = 1e-6
"""Metres of a side."""


def check_rooms(plan: FloorPlan) -> None:
    """``DiagramError`` naming a room whose box is a line or a point."""
    for k, (x0, y0, x1, y1) in enumerate(plan.diagram.boxes or ()):
        if min(x1 - x0, y1 - y0) < _LEAST:
            sides = f"{x1 - x0:g} x {y1 - y0:g} m"
            reason = f"{name_of(plan, k)} has no area ({sides}); give its box a width and a height"
            raise DiagramError(f"boxes[{k}]", reason)


def check_extents(plan: FloorPlan) -> None:
    """``DiagramError`` naming a room without area, or a door without width."""
    check_rooms(plan)
    for k, door in enumerate(plan.doors):
        if math.dist(door.start, door.end) < _LEAST:
            name = name_of_door(plan, door)
            raise DiagramError(f"doors[{k}]", f"{name} has no width; widen it, or leave it out")
