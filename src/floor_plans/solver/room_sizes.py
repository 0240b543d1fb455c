"""Sizes of rooms: usual widths and shapes by type, and target areas, typical or sampled from
plans."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from random import Random

from floor_plans.diagrams.rooms import ROOM_TYPES
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.rules.rule_set import RuleSet

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

TYPICAL_AREAS = tuple(_SIZES[name][0] for name in ROOM_TYPES)
MIN_WIDTHS = tuple(_SIZES[name][1] for name in ROOM_TYPES)
MAX_ASPECTS = tuple(_SIZES[name][2] for name in ROOM_TYPES)

_SPREAD = 0.2
"""Relative range of sampled typical areas."""

_NARROWEST = 0.8
"""Least width as a share of the side of the square of the target area, as small rooms may be
narrower than usual."""


_GRID = 0.1
"""Metres by which a room may be narrower: the solver's unit."""


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
        """Sample square metres for each room.

        They come from one of the plans that share most types of rooms with these. Rooms that it
        lacks get the area of any plan's room of that type, or a typical one.
        """
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
        return tuple(
            areas[room].pop() if areas.get(room) else self._one(room, random) for room in rooms
        )

    def _one(self, room: int, random: Random) -> float:
        """Sample the area of one room."""
        if self._of_type[room]:
            return random.choice(self._of_type[room])
        return TYPICAL_AREAS[room] * random.uniform(1 - _SPREAD, 1 + _SPREAD)


def min_width(room: int, area: float) -> float:
    """Least side of a room of that type and target area, metres."""
    return min(MIN_WIDTHS[room], _NARROWEST * math.sqrt(area))


def least_areas(rooms: Sequence[int], rules: RuleSet) -> list[float]:
    """Least square metres that rules require of each room: its floor, or a square of the least
    width; 0 without such rules."""
    areas, widths = (rules.rules.get(name, {"least": {}})["least"] for name in ("area", "width"))
    kinds = [ROOM_TYPES[room] for room in rooms]
    return [max(areas.get(kind, 0.0), widths.get(kind, 0.0) ** 2) for kind in kinds]


def has_usual_shapes(plan: FloorPlan, areas: Sequence[float]) -> bool:
    """Return True if rooms of these target areas have the least widths, to a decimetre, and the
    aspect ratios of their types. Added rooms, which come last, may have any shape."""
    num = len(areas)
    boxes, rooms = (plan.diagram.boxes or ())[:num], plan.diagram.rooms[:num]
    for room, area, (x0, y0, x1, y1) in zip(rooms, areas, boxes, strict=True):
        shorter, longer = sorted((x1 - x0, y1 - y0))
        if shorter < min_width(room, area) - _GRID or longer > MAX_ASPECTS[room] * shorter + 1e-6:
            return False
    return True
