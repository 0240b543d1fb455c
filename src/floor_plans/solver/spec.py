"""``PlanSpec``: requirements on a floor plan, by priority, and the usual sizes of rooms."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from random import Random
from typing import Any

from discrete_diffusion.layout import ROOM_TYPES
from floor_plans.plans.floor_plan import FloorPlan, Point
from floor_plans.plans.outline import FREE, PER_METRE, Outline
from floor_plans.plans.walls import INNER_WALL, OUTER_WALL
from floor_plans.rules.finding import Parameters
from floor_plans.rules.rule_set import NO_RULES, RuleSet


class Priority(IntEnum):
    """Priorities of soft constraints, the most important first. Relations, the outline and the
    absence of overlaps are hard. Of constraints that exclude each other, one of the lowest priority
    is dropped."""

    ACCESS = 0
    SIZES = 1
    LARGEST = 2
    SHAPES = 3
    WALLS = 4
    FACADE = 5
    BALCONIES = 6
    ROUGH_AREAS = 7
    FILL = 8
    FURNISH = 9
    AREAS = 10


NOTHING: frozenset[Priority] = frozenset()  # priorities to drop: none
ONLY_AREAS = frozenset({Priority.AREAS})  # priorities to drop: target areas

WITHOUT_RULES = frozenset(
    {Priority.LARGEST, Priority.SHAPES, Priority.BALCONIES, Priority.ROUGH_AREAS, Priority.AREAS}
)
"""Priorities to drop: those that serve no rule."""


@dataclass(frozen=True)
class Requirement:
    """Requirement on a floor plan. ``text``: sentence with {} for each of the ``rooms`` concerned;
    ``rule``: name of the rule that requires it, or empty."""

    text: str = ""
    rule: str = ""
    rooms: tuple[int, ...] = ()

    def sentence(self, names: Sequence[str]) -> str:
        """Return ``kitchen is reached through common rooms``. ``names``: names of all rooms."""
        return self.text.format(*(names[room] for room in self.rooms))

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        return {"rule": self.rule, "rooms": list(self.rooms), "need": self.sentence(names)}


NO_REQUIREMENT = Requirement()


@dataclass(frozen=True)
class SoftConstraint:
    """Literal that should be true if possible. ``requirement``: its meaning in words."""

    priority: Priority
    literal: Any
    requirement: Requirement = NO_REQUIREMENT


@dataclass(frozen=True)
class PlanSpec:
    """Specification of a floor plan, in addition to its diagram.

    ``areas``: square metres of every room's floor, kept within the share ``tolerance``, and their
    sum within half of it. ``rules``: rules of living to keep. Rooms also have the least widths and
    the shapes usual for their types, and doors lead to all of them. ``front_door``: point of the
    front door on the boundary of the outline, metres. ``north``: degrees clockwise from up; plans
    with living rooms in the south cost less. ``typical``: rooms whose area nobody requested.
    """

    areas: tuple[float, ...]
    tolerance: float = 0.1
    outline: Outline = FREE
    rules: RuleSet = NO_RULES
    front_door: Point | None = None
    north: float | None = None
    typical: frozenset[int] = frozenset()

    def rule(self, name: str) -> Parameters | None:
        """Parameters of a rule; None if the plan need not keep it."""
        return self.rules.rules.get(name)

    @property
    def dropped_for_rules(self) -> frozenset[Priority]:
        """Priorities that are dropped to keep the rules. In a free outline the bound of twice the
        target area stays, as no plot requires larger rooms."""
        is_free = self.outline.boundary is None
        return WITHOUT_RULES - {Priority.LARGEST} if is_free else WITHOUT_RULES

    @property
    def first_dropped(self) -> frozenset[Priority]:
        """Priorities dropped in the first search: areas within half of their targets guide it, but
        seldom fill a given outline."""
        return ONLY_AREAS if self.outline.boundary is None else self.dropped_for_rules


_SIZES = {
    "LivingRoom": (32.0, 2.6, 3),
    "MasterRoom": (17.0, 2.4, 3),
    "Kitchen": (7.0, 1.4, 4),
    "Bathroom": (5.0, 1.0, 4),
    "DiningRoom": (10.0, 1.9, 3),
    "ChildRoom": (11.0, 2.0, 3),
    "StudyRoom": (9.0, 1.9, 3),
    "SecondRoom": (13.0, 2.0, 3),
    "GuestRoom": (12.0, 2.0, 3),
    "Balcony": (5.5, 0.8, 8),
    "Entrance": (4.0, 1.1, 4),
    "Storage": (2.5, 0.7, 4),
    "Wall-in": (2.0, 0.7, 4),
}
"""Typical area in square metres, least width in metres, longest side / shortest.

Areas of master and second bedrooms, kitchens, bathrooms, balconies and storage rooms are about the
medians of 999 real plans. A living room has the living area of those plans (48) less a dining room
and an entrance.
"""

TYPICAL_AREAS, MIN_WIDTHS, MAX_ASPECTS = zip(*(_SIZES[name] for name in ROOM_TYPES), strict=True)

MASTER, OTHER_BEDROOMS = "MasterRoom", ("SecondRoom", "ChildRoom", "GuestRoom")

_SPREAD = 0.2  # relative range of sampled typical areas

_NARROWEST = 0.8
"""Least width as a share of the side of the square of the target area, as small rooms may be
narrower than usual."""


class RoomAreas:
    """Source of target areas: the floors of rooms of ``plans``, or typical areas."""

    def __init__(self, plans: Sequence[FloorPlan] = ()) -> None:
        self._programmes = [Counter(plan.diagram.rooms) for plan in plans]
        self._areas: list[dict[int, list[float]]] = []
        self._of_type: dict[int, list[float]] = defaultdict(list)
        for plan in plans:
            self._areas.append(defaultdict(list))
            for room, area in zip(plan.diagram.rooms, plan.areas, strict=True):
                self._areas[-1][room].append(area)
                self._of_type[room].append(area)

    def draw(self, rooms: Sequence[int], random: Random) -> tuple[float, ...]:
        """Sample square metres for each room, from one of the plans that share most room types with
        ``rooms``; a type that this plan lacks has the area of such a room in any plan, or a typical
        one. The largest bedroom is a master room, if there is one."""
        areas: dict[int, list[float]] = {}
        if self._programmes:
            # plans that share most room types with the request
            asked = Counter(rooms)
            shared = [(asked & programme).total() for programme in self._programmes]
            most = max(shared)
            plan = random.choice([k for k, num in enumerate(shared) if num == most])
            # areas of one of them, in random order
            areas = {
                room: random.sample(each, len(each)) for room, each in self._areas[plan].items()
            }

        def sampled(room: int) -> float:
            if areas.get(room):
                return areas[room].pop()
            if self._of_type[room]:
                return random.choice(self._of_type[room])
            return TYPICAL_AREAS[room] * random.uniform(1 - _SPREAD, 1 + _SPREAD)

        found = [*map(sampled, rooms)]
        # no other bedroom has a larger target than a master room
        others = [k for k, room in enumerate(rooms) if ROOM_TYPES[room] in OTHER_BEDROOMS]
        for k in (k for k, room in enumerate(rooms) if ROOM_TYPES[room] == MASTER and others):
            largest = max(others, key=found.__getitem__)
            found[k], found[largest] = sorted((found[k], found[largest]), reverse=True)
        return tuple(found)


def min_width(room: int, area: float) -> float:
    """Least side of a room, by its type and target area, in metres."""
    return min(MIN_WIDTHS[room], _NARROWEST * math.sqrt(area))


def area_bounds(rooms: Sequence[int], rules: RuleSet) -> list[tuple[float, float]]:
    """Least and most square metres that rules require for each room: at least the least area, the
    least clear area with walls, a square of the least width, or the smallest free rectangle with
    its walls; 0 and inf without such rules."""
    names = ("area", "width", "furniture")
    areas, widths, sizes = (rules.rules.get(name, {"least": {}})["least"] for name in names)
    wall = rules.rules.get("furniture", {"wall": 0.0})["wall"]
    clear = rules.rules.get("clear_area", {"least": {}, "most": {}})
    bounds = []
    for kind in (ROOM_TYPES[room] for room in rooms):
        low, high = clear["least"].get(kind, 0.0), clear["most"].get(kind, math.inf)
        free = min(((a + wall) * (b + wall) for a, b in sizes.get(kind, ())), default=0.0)
        least = max(areas.get(kind, 0.0), widths.get(kind, 0.0) ** 2, _with_walls(low), free)
        bounds.append((least, max(least, _with_walls(high))))
    return bounds


def _with_walls(clear: float) -> float:
    """Area of a square room with its walls, up to their middle, of which one in four is outer."""
    return (math.sqrt(clear) + INNER_WALL + (OUTER_WALL - INNER_WALL) / 4) ** 2 if clear else 0.0


def unfilled_area(outline: Outline, fill: Parameters) -> float:
    """Most square metres without rooms in an outline that keeps a rule ``fill``: a square in a
    corner, half a wall longer, since ``fill`` counts half a wall as filled."""
    return (math.sqrt((1 - fill["share"]) * outline.area) + fill["wall"] / 2) ** 2


def area_range(target: float, tolerance: float) -> tuple[int, int]:
    """Allowed range of a floor area, in square decimetres; ``target``: square metres."""
    area = target * PER_METRE**2
    least, most = math.ceil(area * (1 - tolerance)), math.floor(area * (1 + tolerance))
    return max(1, least), max(1, most)


def has_usual_shapes(plan: FloorPlan, areas: Sequence[float]) -> bool:
    """Return True if rooms of these target areas have the least widths, to a decimetre, and the
    aspect ratios of their types. Added rooms, which come last, may have any shape."""
    num = len(areas)
    boxes, rooms = (plan.diagram.boxes or ())[:num], plan.diagram.rooms[:num]
    for room, area, (x0, y0, x1, y1) in zip(rooms, areas, boxes, strict=True):
        shorter, longer = sorted((x1 - x0, y1 - y0))
        narrow = shorter < min_width(room, area) - 1 / PER_METRE
        if narrow or longer > MAX_ASPECTS[room] * shorter + 1e-6:
            return False
    return True
