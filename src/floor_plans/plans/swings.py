"""Swings of doors: the room that each door opens into, and the side that it hangs on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

from floor_plans.plans.floor_plan import FRONT_DOOR, Door, FloorPlan, computed_once
from floor_plans.plans.floor_plan import Point as Corner
from floor_plans.plans.walls import THICKEST

if TYPE_CHECKING:
    from shapely import Geometry, Polygon

_ARC_POINTS = 17
_CLOSETS = ("Storage", "Wall-in")
_SWUNG_INTO_LAST = ("MasterRoom", "Kitchen", "DiningRoom", "Entrance", "LivingRoom", *_CLOSETS)
"""Rooms that doors avoid to open into, the first ones least."""
_SPECK = 0.02
"""Square metres of wall, or of another swing, that a swing may overlap at no cost."""
_ACROSS = THICKEST / 2 + 0.3
"""Metres that an opening reaches to both sides of a door."""

Cost: TypeAlias = tuple[float, int, float]
"""Cost of a swing: square metres of walls and other swings it sweeps, rank of its room, metres from
its hinge to a corner."""


@dataclass(frozen=True)
class Swing:
    """Door that opens into ``room``. ``leaf``: from the hinge to the end of the open leaf; ``arc``:
    from there to where the door is shut."""

    door: Door
    room: int
    leaf: tuple[Corner, Corner]
    arc: tuple[Corner, ...]

    @computed_once
    def sector(self) -> Polygon:
        """Floor that the door sweeps."""
        from shapely import Polygon

        return Polygon([self.leaf[0], *self.arc])

    def swept_outside(self, plan: FloorPlan) -> float:
        """Area swept outside its room and its own wall, in square metres."""
        wall = wall_space(self.door.start, self.door.end, THICKEST / 2)
        allowed = plan.rooms[self.room].union(wall)
        return _swept(self.sector.difference(allowed))

    def swept_with(self, other: Swing) -> float:
        """Area that both doors sweep, in square metres."""
        return _swept(self.sector.intersection(other.sector))


def door_space(door: Door) -> Polygon:
    """Opening of a door through the full thickness of its wall."""
    return wall_space(door.start, door.end, max(_ACROSS, door.thickness))


def wall_space(start: Corner, end: Corner, across: float = _ACROSS) -> Polygon:
    """Opening from ``start`` to ``end``, ``across`` metres to both sides."""
    from shapely import LineString

    return LineString([start, end]).buffer(across, cap_style="flat")


def is_sliding(plan: FloorPlan, door: Door) -> bool:
    """Return True for a door to a balcony, which opens into no room."""
    names = plan.diagram.room_names
    return any(room != FRONT_DOOR and names[room] == "Balcony" for room in door.rooms)


def hang_doors(plan: FloorPlan) -> list[Swing]:
    """Choose a swing for each door that does not slide, in their order.

    The choice has the least total cost: first the area swept of walls and by two doors, then the
    number of doors that open into public rooms rather than private ones, then the distance of
    hinges from corners. So if two swings collide, no choice is free of collisions.
    """
    # doors of different groups cannot meet, so each group is solved alone
    doors = [door for door in plan.doors if door.start != door.end and not is_sliding(plan, door)]
    ways = [list(_ways(plan, door)) for door in doors]
    found: dict[int, Swing] = {}
    for group in _groups(ways):
        found |= zip(group, _best([ways[k] for k in group]), strict=True)
    return [found[k] for k in range(len(doors))]


Way: TypeAlias = tuple[Cost, Swing]


def _ways(plan: FloorPlan, door: Door) -> Iterator[Way]:
    """Swings of a door into each of its rooms and on each side, with their own costs."""
    from shapely import Point, get_parts

    for room, swap in product(door.rooms, (False, True)):
        if room == FRONT_DOOR:
            continue
        # the leaf opens to the side that has more of the room
        floor = plan.rooms[room]
        swing = max(
            (_swing(door, room, swap, side) for side in (1, -1)),
            key=lambda swing: floor.intersection(swing.sector).area,
        )
        # a hinge belongs in a corner
        parts = [part for part in get_parts(floor) if not part.is_empty]
        corners = [Point(corner) for part in parts for corner in part.exterior.coords]
        hinge = Point(swing.leaf[0])
        near = min((hinge.distance(c) for c in corners), default=math.dist(*swing.leaf))
        name = plan.diagram.room_names[room]
        rank = _SWUNG_INTO_LAST.index(name) + 1 if name in _SWUNG_INTO_LAST else 0
        yield (swing.swept_outside(plan), rank, round(near, 3)), swing


def _groups(ways: Sequence[Sequence[Way]]) -> list[list[int]]:
    """Partition the doors, by number, into groups whose swings cannot meet."""
    from shapely import union_all

    reach: list[Geometry] = [union_all([swing.sector for _, swing in each]) for each in ways]
    groups: list[list[int]] = []
    for k, mine in enumerate(reach):
        # a door joins all groups that its swings can reach
        near = [group for group in groups if any(mine.intersects(reach[j]) for j in group)]
        groups = [group for group in groups if group not in near]
        groups.append([*sorted(j for group in near for j in group), k])
    return groups


def _best(ways: Sequence[Sequence[Way]]) -> list[Swing]:
    """Choose a swing for each door of least total cost, by branch and bound."""
    best: tuple[Cost, list[Swing]] = ((math.inf, 0, 0.0), [])

    def extend(cost: Cost, chosen: list[Swing]) -> None:
        nonlocal best
        # bound: this choice cannot beat the incumbent
        if cost >= best[0]:
            return
        if len(chosen) == len(ways):
            best = cost, chosen
            return
        # branch: each swing of the next door
        for own, swing in ways[len(chosen)]:
            shared = sum(swing.swept_with(other) for other in chosen)
            swept = round(cost[0] + own[0] + shared, 3)
            extend((swept, cost[1] + own[1], cost[2] + own[2]), [*chosen, swing])

    extend((0.0, 0, 0.0), [])
    return best[1]


def _swept(area: Geometry) -> float:
    """Area of a shape; 0 if it is a speck."""
    return float(area.area) if area.area > _SPECK else 0.0


def _swing(door: Door, room: int, swap: bool, side: int) -> Swing:
    """Swing of a door. ``swap``: hinge at its end; ``side``: 1 or -1, the side it opens to."""
    (x0, y0), (x1, y1) = (door.end, door.start) if swap else (door.start, door.end)
    dx, dy = x1 - x0, y1 - y0
    # direction of the open leaf, then a quarter circle to the closed one
    ux, uy = -dy * side, dx * side
    arc = []
    for k in range(_ARC_POINTS):
        angle = math.pi / 2 * k / (_ARC_POINTS - 1)
        cos, sin = math.cos(angle), math.sin(angle)
        arc.append((x0 + cos * ux + sin * dx, y0 + cos * uy + sin * dy))
    return Swing(door, room, ((x0, y0), arc[0]), tuple(arc))
