"""Rules of circulation: the front door, access to rooms, clear widths and swings of doors."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection

from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.swings import hang_doors
from floor_plans.rules.finding import (
    TOLERANCE,
    Finding,
    Findings,
    Parameters,
    kinds_of,
    name_of,
    name_of_door,
    names_of,
    rooms_of,
    rooms_of_door,
)

OUTSIDE = "outside"
"""Kind of space behind a front door, in addition to the kinds of rooms."""


def front_door(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that a door leads from outside into a room of the kinds ``rooms``."""
    entered = _entered(plan)
    if entered & set(rooms_of(plan, parameters["rooms"])):
        return ()
    found = "no door leads outside"
    if entered:
        found = f"the front door leads into {names_of(plan, sorted(entered))} alone"
    change = f"put one into an outer wall of {' or '.join(parameters['rooms'])}"
    return (Finding(tuple(sorted(entered)), found, change),)


def access(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that every room of the kinds ``reached`` is reached from a front door through the kinds
    ``through`` alone."""
    wanted = rooms_of(plan, parameters["reached"])
    if not wanted:
        return None
    # rooms that the search misses
    reached = _reached(plan, parameters["through"])
    return tuple(
        _unreached(plan, room, reached, parameters["through"])
        for room in wanted
        if room not in reached
    )


def bath_access(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that a room of the kinds ``rooms`` is reached from a front door through the kinds
    ``through`` alone. Further ones may be behind a bedroom."""
    baths = rooms_of(plan, parameters["rooms"])
    if not baths:
        return None
    reached = _reached(plan, parameters["through"])
    if reached & set(baths):
        return ()
    return (_unreached(plan, baths[0], reached, parameters["through"]),)


def door_widths(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that every door has the clear width of the kinds on its two sides, in ``least``; the
    smaller one counts."""
    if not plan.doors:
        return None
    kinds, least, found = kinds_of(plan), parameters["least"], []
    for door in plan.doors:
        # the smaller of the clear widths on both sides
        sides = [OUTSIDE] if door.is_front else [kinds[room] for room in door.rooms]
        needed = min(least.get(side, 0.0) for side in sides)
        width = math.dist(door.start, door.end)
        if width < needed - TOLERANCE:
            what = f"{name_of_door(plan, door)} is {width:.2f} m wide, at least {needed:.2f} m"
            change = f"make it {needed - width:.2f} m wider"
            found.append(Finding(rooms_of_door(door), what, change))
    return tuple(found)


def door_swings(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that doors can be hung without collisions: none sweeps more than ``overlap`` square
    metres of a wall or another swing. Doors to balconies slide.

    The choice of swings is optimal, see ``hang_doors``.
    """
    hung = hang_doors(plan)
    if not hung:
        return None
    most, found = parameters["overlap"], []
    for k, swing in enumerate(hung):
        rooms, name = rooms_of_door(swing.door), name_of_door(plan, swing.door)
        # swept area outside the room
        if (blocked := swing.swept_outside(plan)) > most:
            what = f"{name} has no way to turn: {blocked:.2f} m2 of wall are in the way at best"
            found.append(Finding(rooms, what, "move it along its wall, or make it slide"))
        # collisions with doors before it
        for other in hung[:k]:
            if (shared := swing.swept_with(other)) > most:
                what = f"{name} and {name_of_door(plan, other.door)} collide on {shared:.2f} m2"
                both = tuple(dict.fromkeys((*rooms_of_door(other.door), *rooms)))
                found.append(Finding(both, what, "move one along its wall, or make it slide"))
    return tuple(found)


def _entered(plan: FloorPlan) -> set[int]:
    """Rooms with a front door."""
    return {door.rooms[0] for door in plan.doors if door.is_front}


def _reached(plan: FloorPlan, through: Collection[str]) -> set[int]:
    """Rooms reached from a front door through rooms of the kinds ``through`` alone. Empty if no
    front door leads into such a room."""
    # graph of interior doors
    common, joined = set(rooms_of(plan, through)), defaultdict(set)
    for door in plan.doors:
        if not door.is_front:
            first, second = door.rooms
            joined[first].add(second)
            joined[second].add(first)
    reached = _entered(plan)
    if not reached & common:
        return set()
    # search that passes through common rooms only
    todo = [*reached]
    while todo:
        room = todo.pop()
        new = joined[room] - reached if room in common else set()
        reached |= new
        todo += new
    return reached


def _unreached(plan: FloorPlan, room: int, reached: set[int], through: Collection[str]) -> Finding:
    """Finding for a room that is not reached, with the nearest common room to open it to."""
    found = f"{name_of(plan, room)} is not reached from the front door through common rooms"
    common = [other for other in rooms_of(plan, through) if other in reached]
    if not common:
        return Finding((room,), found, "give a common room the front door first")
    floors = plan.rooms
    # the common room that is nearest
    nearest = min(common, key=lambda other: floors[room].distance(floors[other]))
    change = f"put a door between it and {name_of(plan, nearest)}"
    if (gap := floors[room].distance(floors[nearest])) > TOLERANCE:
        change += f", {gap:.2f} m away, or a hall"
    return Finding((room,), found, change)
