"""Rules of one client's plan, next to those of a file: clear areas, and doors between rooms."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from floor_plans.plans.doors import DOOR, FRONT, DoorRequest, Kinds, are_between
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.walls import clear_areas, clear_floors
from floor_plans.rules.finding import TOLERANCE, Finding, Findings, Parameters, kinds_of, name_of


def check_clear_areas(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that clear floors, without walls, have from ``least`` to ``most`` square metres, by
    kind of room."""
    least, most, found = parameters["least"], parameters["most"], []
    kinds, areas = kinds_of(plan), clear_areas(plan)
    for k, (kind, area) in enumerate(zip(kinds, areas, strict=True)):
        low, high = least.get(kind, 0.0), most.get(kind, area)
        if not low - TOLERANCE <= area <= high + TOLERANCE:
            bound = f"at least {low:g}" if area < low else f"at most {high:g}"
            what = f"{name_of(plan, k)} has {area:.2f} m2 clear, {bound} m2"
            change = f"make it {abs(area - (low if area < low else high)):.2f} m2 "
            found.append(Finding((k,), what, change + ("larger" if area < low else "smaller")))
    return tuple(found) if {*least, *most} & {*kinds} else None


def _check_doors(plan: FloorPlan, pairs: tuple[Kinds, ...], what: str) -> Findings:
    """Check the doors between kinds of rooms; ``what``: "a door", "no door" or "an opening"."""
    kinds, found = kinds_of(plan), []
    for pair in pairs:
        doors = [
            door
            for door in plan.doors
            if not door.is_front
            and are_between(pair, *(kinds[room] for room in door.rooms))
            and (what == "no door" or door.is_open == (what == "an opening"))
        ]
        first, second = (" or ".join(sorted(each)) for each in pair)
        if what == "no door":
            for door in doors:
                said = f"a door joins {name_of(plan, door.rooms[0])} and "
                said += name_of(plan, door.rooms[1])
                found.append(Finding(door.rooms, said, "close it"))
        elif not doors:
            said = f"{what} between {first} and {second} is missing"
            found.append(Finding((), said, "bring them together, and put it into their wall"))
    return tuple(found)


def check_turning(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that rooms have space for a circle ``across`` metres wide on their clear floor.
    ``every``: kinds of which each room has it; ``some``: kinds of which one room has it."""
    kinds, clear = kinds_of(plan), clear_floors(plan)
    half = parameters["across"] / 2 - TOLERANCE
    small = {k for k, floor in enumerate(clear) if floor.buffer(-half).is_empty}
    every, some = (
        {k for k, kind in enumerate(kinds) if kind in parameters[name]}
        for name in ("every", "some")
    )
    rooms = sorted((every & small) | (some if some <= small else set()))
    what = f"has no circle of {parameters['across']:g} m to turn in"
    found = [Finding((k,), f"{name_of(plan, k)} {what}", "make it wider") for k in rooms]
    return tuple(found) if every or some else None


ASKED: Mapping[str, Callable[[FloorPlan, Parameters], Findings]] = {
    "clear_area": check_clear_areas,
    "door": lambda plan, asked: _check_doors(plan, asked["pairs"], "a door"),
    "no_door": lambda plan, asked: _check_doors(plan, asked["pairs"], "no door"),
    "turning": check_turning,
    "open": lambda plan, asked: _check_doors(plan, asked["pairs"], "an opening"),
}
"""Checks of the rules of a client, by name."""


def door_request(rules: Mapping[str, Parameters]) -> DoorRequest:
    """Doors that rules ask for: their widths, and those of a client."""
    least = dict(rules.get("doors", {"least": {}})["least"])
    front = max(FRONT, least.pop("outside", 0.0))
    pairs = {name: rules[name]["pairs"] for name in ("door", "no_door", "open") if name in rules}
    return DoorRequest(**pairs, width=max(DOOR, *least.values(), 0.0), front=front)
