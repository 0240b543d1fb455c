"""Rules of rooms: clear widths and areas, no shared floor, and only a wall between related
rooms."""

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
    kinds_of,
    name_of,
    name_of_door,
    names_of,
    rooms_of_door,
    sides_of,
)

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

_SAME = 1e-9
"""Difference in square metres up to which rooms count as equally large."""


def apart(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that no two rooms share more than ``overlap`` square metres.

    The boxes of rooms may overlap, as the smaller room is cut out of the larger, see
    ``FloorPlan.rooms``. Rooms share floor if their boxes have the same size, or if both are drawn
    as polygons of which neither contains the other.
    """
    if plan.diagram.num_rooms < 2:
        return None
    drawn = plan.floors or (None,) * len(plan.boxes)
    shapes = [b if f is None else f for b, f in zip(plan.boxes, drawn, strict=True)]
    found = []
    for i, j in combinations(range(len(shapes)), 2):
        one, other = shapes[i], shapes[j]
        # the smaller room is cut out of the larger, except for these cases
        are_drawn = drawn[i] is not None and drawn[j] is not None
        is_nested = one.covers(other) or other.covers(one)
        is_cut = abs(one.area - other.area) > _SAME and (is_nested or not are_drawn)
        shared = float(one.intersection(other).area)
        if shared > parameters["overlap"] and not is_cut:
            what = f"{names_of(plan, (i, j))} share {shared:.2f} m2"
            found.append(Finding((i, j), what, "move them apart"))
    return tuple(found)


def shared_walls(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that related rooms are at most a ``wall`` apart, and doors lie on the walls of their
    rooms.

    The first holds for rooms that face each other along ``facing`` metres or more, the second for
    the share ``on_wall`` of a door.
    """
    related = [(i, j) for i, j, code in plan.diagram.relations if code != NO_EDGE]
    if not related and not plan.doors:
        return None
    found = []
    # space between related rooms
    for i, j in related:
        gap = _void(plan.rooms[i], plan.rooms[j], parameters["facing"])
        if gap > parameters["wall"] + TOLERANCE:
            what = f"{gap:.2f} m of nothing between {names_of(plan, (i, j))}"
            change = f"move them together, or enlarge one, to {parameters['wall']:.2f} m or less"
            found.append(Finding((i, j), what, change))
    # doors off the walls
    for door in plan.doors:
        rooms = rooms_of_door(door)
        if not all(_on_wall(door, plan.rooms[room], parameters) for room in rooms):
            what = f"{name_of_door(plan, door)} is off their walls"
            found.append(Finding(rooms, what, "move it into a wall, or the rooms to it"))
    return tuple(found)


def _void(one: BaseGeometry, other: BaseGeometry, facing: float) -> float:
    """Distance in metres between floors that face each other along ``facing``; 0 for diagonal
    neighbours."""
    if one.is_empty or other.is_empty:
        return 0.0
    (ax0, ay0, ax1, ay1), (bx0, by0, bx1, by1) = one.bounds, other.bounds
    # length along which the boxes face each other
    along = max(min(ax1, bx1) - max(ax0, bx0), min(ay1, by1) - max(ay0, by0))
    return float(one.distance(other)) if along >= facing - TOLERANCE else 0.0


def _on_wall(door: Door, floor: BaseGeometry, parameters: Parameters) -> bool:
    """Return True if enough of a door lies on the walls of a floor."""
    from shapely import LineString

    line = LineString([door.start, door.end])
    if not line.length:
        return True  # another rule judges its width
    near = floor.boundary.buffer(parameters["wall"] / 2 + TOLERANCE)
    return bool(line.intersection(near).length >= parameters["on_wall"] * line.length)


def least_widths(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that the shorter side of the box around every floor is at least the ``least`` of its
    kind, in metres."""
    widths = [sides_of(floor)[0] for floor in plan.rooms]
    return _too_small(plan, widths, parameters, ("is {} m wide", "m", "wider"))


def least_areas(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that the floor of every room has at least the ``least`` area of its kind, in square
    metres."""
    return _too_small(plan, list(plan.areas), parameters, ("has {} m2", "m2", "larger"))


def _too_small(
    plan: FloorPlan, sizes: list[float], parameters: Parameters, words: tuple[str, str, str]
) -> Findings:
    """Findings for sizes below their limits. ``words``: state, unit and remedy."""
    (has, unit, larger), kinds, least = words, kinds_of(plan), parameters["least"]
    ruled = [k for k, kind in enumerate(kinds) if kind in least]
    if not ruled:
        return None
    # rooms below the limit of their kind
    return tuple(
        Finding(
            (k,),
            f"{name_of(plan, k)} {has.format(f'{sizes[k]:.2f}')}, at least "
            f"{least[kinds[k]]:.2f} {unit}",
            f"make it {least[kinds[k]] - sizes[k]:.2f} {unit} {larger}",
        )
        for k in ruled
        if sizes[k] < least[kinds[k]] - TOLERANCE
    )
