"""Rules of two rooms: they share no floor, and nothing but a wall is between related ones."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from floor_plans.diagrams.rooms import NO_EDGE
from floor_plans.plans.floor_plan import Door, FloorPlan
from floor_plans.rules.finding import (
    TOLERANCE,
    Finding,
    Findings,
    Parameters,
    name_of_door,
    names_of,
    rooms_of_door,
)

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

_SAME = 1e-9
"""Square metres between rooms of the same size."""


def apart(plan: FloorPlan, parameters: Parameters) -> Findings:
    """No two rooms share more than ``overlap`` square metres.

    A box around a room may overlap others: the smaller room is cut out of the larger, as in
    ``FloorPlan.rooms``. So rooms that are not apart are boxes of the same size, or both drawn as
    polygons of which neither lies within the other.
    """
    if plan.diagram.num_rooms < 2:
        return None
    drawn = plan.floors or (None,) * len(plan.boxes)
    shapes = [b if f is None else f for b, f in zip(plan.boxes, drawn, strict=True)]
    found = []
    for i, j in combinations(range(len(shapes)), 2):
        one, other = shapes[i], shapes[j]
        are_drawn = drawn[i] is not None and drawn[j] is not None
        is_nested = one.covers(other) or other.covers(one)
        is_cut = abs(one.area - other.area) > _SAME and (is_nested or not are_drawn)
        shared = float(one.intersection(other).area)
        if shared > parameters["overlap"] and not is_cut:
            what = f"{names_of(plan, (i, j))} share {shared:.2f} m2"
            found.append(Finding((i, j), what, "move them apart"))
    return tuple(found)


def shared_walls(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Related rooms that face each other along ``facing`` metres or more are at most the thickness
    of a ``wall`` apart, and every door lies on the walls of its rooms by the share ``on_wall``."""
    related = [(i, j) for i, j, code in plan.diagram.relations if code != NO_EDGE]
    if not related and not plan.doors:
        return None
    found = []
    for i, j in related:
        gap = _void(plan.rooms[i], plan.rooms[j], parameters["facing"])
        if gap > parameters["wall"] + TOLERANCE:
            what = f"{gap:.2f} m of nothing between {names_of(plan, (i, j))}"
            change = f"move them together, or enlarge one, to {parameters['wall']:.2f} m or less"
            found.append(Finding((i, j), what, change))
    for door in plan.doors:
        rooms = rooms_of_door(door)
        if not all(_on_wall(door, plan.rooms[room], parameters) for room in rooms):
            what = f"{name_of_door(plan, door)} is off their walls"
            found.append(Finding(rooms, what, "move it into a wall, or the rooms to it"))
    return tuple(found)


def _void(one: BaseGeometry, other: BaseGeometry, facing: float) -> float:
    """Metres between two floors that face each other along ``facing``; 0 of others, which are
    diagonal neighbours."""
    if one.is_empty or other.is_empty:
        return 0.0
    (ax0, ay0, ax1, ay1), (bx0, by0, bx1, by1) = one.bounds, other.bounds
    along = max(min(ax1, bx1) - max(ax0, bx0), min(ay1, by1) - max(ay0, by0))
    return float(one.distance(other)) if along >= facing - TOLERANCE else 0.0


def _on_wall(door: Door, floor: BaseGeometry, parameters: Parameters) -> bool:
    from shapely import LineString

    line = LineString([door.start, door.end])
    if not line.length:
        return True  # its width is another rule's
    near = floor.boundary.buffer(parameters["wall"] / 2 + TOLERANCE)
    return bool(line.intersection(near).length >= parameters["on_wall"] * line.length)
