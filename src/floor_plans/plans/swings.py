"""How the doors of a floor plan turn: which room each swings into, and on which end it hangs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

from floor_plans.plans.computed_once import computed_once
from floor_plans.plans.floor_plan import FRONT_DOOR, Door, FloorPlan
from floor_plans.plans.floor_plan import Point as Corner
from floor_plans.plans.walls import THICKEST

if TYPE_CHECKING:
    from shapely import Geometry, Polygon

_ARC_POINTS = 17
_CLOSETS = ("Storage", "Wall-in")
_SWUNG_INTO_LAST = ("MasterRoom", "Kitchen", "DiningRoom", "Entrance", "LivingRoom", *_CLOSETS)
"""A door swings into another room rather than into one of these, and into an earlier one of them
rather than into a later one."""
_SPECK = 0.02
"""Square metres that a door may sweep of a wall, or of what another sweeps, as if of nothing."""
_ACROSS = THICKEST / 2 + 0.3
"""How far an opening reaches to both sides of a door, metres."""

Cost: TypeAlias = tuple[float, int, float]
"""Square metres swept twice or of walls; ranks of the rooms; metres from hinges to corners."""


@dataclass(frozen=True)
class Swing:
    """A ``door`` that turns into ``room``: the ``leaf`` from the hinge to where it stands open, and
    the ``arc`` from there to where it is shut."""

    door: Door
    room: int
    leaf: tuple[Corner, Corner]
    arc: tuple[Corner, ...]

    @computed_once
    def sector(self) -> Polygon:
        """The floor it sweeps."""
        from shapely import Polygon

        return Polygon([self.leaf[0], *self.arc])

    def swept_outside(self, plan: FloorPlan) -> float:
        """Square metres that it sweeps of something other than its room and its own wall."""
        wall = wall_space(self.door.start, self.door.end, THICKEST / 2)
        allowed = plan.rooms[self.room].union(wall)
        return _swept(self.sector.difference(allowed))

    def swept_with(self, other: Swing) -> float:
        """Square metres that both sweep."""
        return _swept(self.sector.intersection(other.sector))


def door_space(door: Door) -> Polygon:
    """What a door opens: the wall that it stands in, however thick."""
    return wall_space(door.start, door.end, max(_ACROSS, door.thickness))


def wall_space(start: Corner, end: Corner, across: float = _ACROSS) -> Polygon:
    """The wall of an opening from ``start`` to ``end``, ``across`` metres to both sides."""
    from shapely import LineString

    return LineString([start, end]).buffer(across, cap_style="flat")


def slides(plan: FloorPlan, door: Door) -> bool:
    """True for a door to a balcony, which turns into no room."""
    names = plan.diagram.room_names
    return any(room != FRONT_DOOR and names[room] == "Balcony" for room in door.rooms)


def hang(plan: FloorPlan) -> list[Swing]:
    """One way to turn for each door of a plan that turns, in their order.

    Of all ways together the least: in square metres swept of walls and by two doors, then in doors
    that turn into public rooms rather than private ones, then in distance from hinges to corners.
    So if two swings collide, no other way to hang these doors is without a collision.
    """
    doors = [door for door in plan.doors if door.start != door.end and not slides(plan, door)]
    ways = [list(_ways(plan, door)) for door in doors]
    found: dict[int, Swing] = {}
    for group in _groups(ways):
        found |= zip(group, _best([ways[k] for k in group]), strict=True)
    return [found[k] for k in range(len(doors))]


Way: TypeAlias = tuple[Cost, Swing]


def _ways(plan: FloorPlan, door: Door) -> Iterator[Way]:
    """Into each of its rooms and on each end, with what it costs by itself."""
    from shapely import Point, get_parts

    for room, swap in product(door.rooms, (False, True)):
        if room == FRONT_DOOR:
            continue
        floor = plan.rooms[room]
        swing = max(
            (_swing(door, room, swap, side) for side in (1, -1)),
            key=lambda swing: floor.intersection(swing.sector).area,
        )
        parts = [part for part in get_parts(floor) if not part.is_empty]
        corners = [Point(corner) for part in parts for corner in part.exterior.coords]
        hinge = Point(swing.leaf[0])
        near = min((hinge.distance(c) for c in corners), default=math.dist(*swing.leaf))
        name = plan.diagram.room_names[room]
        rank = _SWUNG_INTO_LAST.index(name) + 1 if name in _SWUNG_INTO_LAST else 0
        yield (swing.swept_outside(plan), rank, round(near, 3)), swing


def _groups(ways: Sequence[Sequence[Way]]) -> list[list[int]]:
    """Numbers of the doors in groups that cannot meet."""
    from shapely import union_all

    reach: list[Geometry] = [union_all([swing.sector for _, swing in each]) for each in ways]
    groups: list[list[int]] = []
    for k, mine in enumerate(reach):
        near = [group for group in groups if any(mine.intersects(reach[j]) for j in group)]
        groups = [group for group in groups if group not in near]
        groups.append([*sorted(j for group in near for j in group), k])
    return groups


def _best(ways: Sequence[Sequence[Way]]) -> list[Swing]:
    """One way of each door, of the least cost together: every combination that can still be better
    than the best so far is tried."""
    best: tuple[Cost, list[Swing]] = ((math.inf, 0, 0.0), [])

    def extend(cost: Cost, chosen: list[Swing]) -> None:
        nonlocal best
        if cost >= best[0]:
            return
        if len(chosen) == len(ways):
            best = cost, chosen
            return
        for own, swing in ways[len(chosen)]:
            shared = sum(swing.swept_with(other) for other in chosen)
            swept = round(cost[0] + own[0] + shared, 3)
            extend((swept, cost[1] + own[1], cost[2] + own[2]), [*chosen, swing])

    extend((0.0, 0, 0.0), [])
    return best[1]


def _swept(area: Geometry) -> float:
    return float(area.area) if area.area > _SPECK else 0.0


def _swing(door: Door, room: int, swap: bool, side: int) -> Swing:
    (x0, y0), (x1, y1) = (door.end, door.start) if swap else (door.start, door.end)
    dx, dy = x1 - x0, y1 - y0
    ux, uy = -dy * side, dx * side  # where the leaf points when it stands open
    arc = []
    for k in range(_ARC_POINTS):
        angle = math.pi / 2 * k / (_ARC_POINTS - 1)
        cos, sin = math.cos(angle), math.sin(angle)
        arc.append((x0 + cos * ux + sin * dx, y0 + cos * uy + sin * dy))
    return Swing(door, room, ((x0, y0), arc[0]), tuple(arc))
