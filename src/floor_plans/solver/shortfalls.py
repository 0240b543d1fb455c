"""``Shortfall``: a requirement that a plan does not meet."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from floor_plans.plans.door_placement import FRONT, unreached
from floor_plans.plans.floor_plan import FloorPlan, Point
from floor_plans.rules.envelope import outer_walls
from floor_plans.rules.finding import name_of
from floor_plans.rules.judging import judge
from floor_plans.solver.outline_model import BALCONY, BALCONY_WALL
from floor_plans.solver.room_model import PlanSpec
from floor_plans.solver.room_sizes import has_usual_shapes
from floor_plans.solver.shapes import OUTER_WALL

_ROUNDING = 1e-6


@dataclass(frozen=True)
class Shortfall:
    """Requirement that a plan does not meet: a ``rule`` that it breaks, or a ``demand``; the other
    is empty.

    ``demand``: "areas", "shapes", "doors", "front door", "whole floors", "balconies" or "variants".
    ``found``: the state of the plan, in words. ``rooms``: the rooms concerned; for areas the worst
    first. ``proved``: the solver showed that no plan it considers keeps the rule and the relations.
    """

    found: str
    rule: str = ""
    demand: str = ""
    rooms: tuple[int, ...] = ()
    proved: bool = False

    @property
    def kind(self) -> str:
        """Name of the requirement: ``areas``, ``rule access``."""
        return f"rule {self.rule}" if self.rule else self.demand

    def sentence(self) -> str:
        """Return ``access: kitchen is not reached ...``."""
        return f"{self.rule}: {self.found}" if self.rule else self.found

    def to_json(self) -> dict[str, Any]:
        if not self.rule:
            return {"demand": self.demand, "rooms": list(self.rooms), "found": self.found}
        rooms = list(self.rooms)
        return {"rule": self.rule, "rooms": rooms, "found": self.found, "proved": self.proved}


def shortfalls_of(plan: FloorPlan, spec: PlanSpec) -> tuple[Shortfall, ...]:
    """Requirements that the plan does not meet, judged by the plan alone."""
    found = []
    # areas and shapes
    off = plan.area_errors(spec.areas)
    if rooms := tuple(k for k, error in enumerate(off) if error > spec.tolerance + _ROUNDING):
        rooms = tuple(sorted(rooms, key=lambda room: -off[room]))
        text = f"areas are up to {max(off):.0%} off their targets: {_names(plan, rooms)}"
        found.append(Shortfall(text, "", "areas", rooms))
    if not has_usual_shapes(plan, spec.areas):
        found.append(Shortfall("rooms are narrower or longer than usual", demand="shapes"))
    # doors
    if rooms := unreached(plan):
        found.append(Shortfall(f"no door leads to {_names(plan, rooms)}", "", "doors", rooms))
    if (place := spec.front_door) is not None and (missing := _front_door_off(plan, place)):
        found.append(missing)
    # floors and balconies
    if rooms := rooms_with_split_floors(plan):
        text = f"the floor of {_names(plan, rooms)} is in parts"
        found.append(Shortfall(text, "", "whole floors", rooms))
    if rooms := _balconies_inside(plan):
        text = f"{_names(plan, rooms)} has no outer wall"
        found.append(Shortfall(text, "", "balconies", rooms))
    # rules
    broken = judge(plan, spec.rules).broken
    found += [Shortfall(each.found, rule, rooms=each.rooms) for rule, each in broken]
    return tuple(found)


def _front_door_off(plan: FloorPlan, place: Point) -> Shortfall | None:
    """Shortfall of a front door that is further from its place than it is wide."""
    doors = [door for door in plan.doors if door.is_front]
    ends = [[(a + b) / 2 for a, b in zip(door.start, door.end, strict=True)] for door in doors]
    off = min((math.dist(end, place) for end in ends), default=math.inf)
    if off <= FRONT:
        return None
    text = f"the front door is {off:.1f} m from its place" if ends else "a front door is missing"
    return Shortfall(text, demand="front door", rooms=tuple(door.rooms[0] for door in doors))


def rooms_with_split_floors(plan: FloorPlan) -> tuple[int, ...]:
    """Rooms whose floor is split by the rooms inside them."""
    return tuple(k for k, floor in enumerate(plan.rooms) if floor.geom_type != "Polygon")


def _balconies_inside(plan: FloorPlan) -> tuple[int, ...]:
    """Balconies without facade."""
    balconies = [k for k, room in enumerate(plan.diagram.rooms) if room == BALCONY]
    walls = outer_walls(plan, balconies, OUTER_WALL)
    return tuple(k for k, length in walls.items() if length < BALCONY_WALL - _ROUNDING)


def _names(plan: FloorPlan, rooms: tuple[int, ...]) -> str:
    """Names of rooms, separated by commas."""
    return ", ".join(name_of(plan, room) for room in rooms)
