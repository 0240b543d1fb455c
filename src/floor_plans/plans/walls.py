"""The walls of a floor plan: which pieces two rooms share, and which face the outside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from floor_plans.plans.floor_plan import FloorPlan, Point

if TYPE_CHECKING:
    from shapely import Geometry, MultiPolygon, Polygon

THICKEST = 0.45
"""Metres between two floors up to which there is a wall between them, and no space."""
DEEP = 0.5
"""Metres of floor behind a wall that people can reach."""
LANDING = 1.0
"""Metres in front of a wall that faces the outside that are free of rooms."""

_NEAR = 0.01
_ROUNDING, _SPECK = 1e-6, 1e-4
"""Metres, and square metres, that are nothing."""


@dataclass(frozen=True)
class Wall:
    """A straight piece of wall, from ``low`` to ``high`` along ``axis`` (0: x, 1: y).

    ``at``: its coordinate on the other axis; ``side``: the direction there, 1 or -1, that leads out
    of the room.
    """

    axis: int
    at: float
    low: float
    high: float
    side: int

    @property
    def length(self) -> float:
        return self.high - self.low

    def point(self, along: float) -> Point:
        return (along, self.at) if self.axis == 0 else (self.at, along)

    def in_front(self, first: float, last: float) -> Polygon:
        """The rectangle along the wall, from ``first`` to ``last`` metres outside the room."""
        from shapely import box

        near, far = sorted((self.at + self.side * first, self.at + self.side * last))
        if self.axis == 0:
            return box(self.low, near, self.high, far)
        return box(near, self.low, far, self.high)

    def without(self, blocked: Geometry) -> list[Wall]:
        """The pieces of the wall that have nothing of ``blocked`` in front or behind."""
        from shapely import get_parts

        pieces, low = [], self.low
        parts = [part for part in get_parts(blocked) if part.area > _SPECK]
        spans = sorted(part.bounds[self.axis :: 2] for part in parts)
        for first, last in [*spans, (self.high, self.high)]:
            if first - low > _ROUNDING:
                pieces.append(replace(self, low=low, high=min(first, self.high)))
            low = max(low, last)
        return pieces


def walls_of(room: Polygon | MultiPolygon) -> list[Wall]:
    """The straight walls around a floor whose sides are parallel to the axes, where it is ``DEEP``
    metres deep."""
    from shapely import get_parts
    from shapely.geometry.polygon import orient

    found = []
    for part in map(orient, get_parts(room.normalize())):
        for ring in (part.exterior, *part.interiors):
            corners = list(ring.simplify(0).coords)
            for (x0, y0), (x1, y1) in pairwise(corners):
                if abs(x1 - x0) > abs(y1 - y0):  # the floor lies to the left of where the ring goes
                    side = -1 if x1 > x0 else 1
                    found.append(Wall(0, (y0 + y1) / 2, min(x0, x1), max(x0, x1), side))
                else:
                    side = 1 if y1 > y0 else -1
                    found.append(Wall(1, (x0 + x1) / 2, min(y0, y1), max(y0, y1), side))
    return [
        piece
        for wall in found
        for piece in wall.without(wall.in_front(-DEEP, -_NEAR).difference(room))
    ]


def shared_walls(plan: FloorPlan, first: int, second: int) -> list[Wall]:
    """The pieces of wall between two rooms, seen from the first: where their floors face each other
    at no more than ``THICKEST``, with no third room in between; in the middle between the two."""
    from shapely import union_all

    others = union_all([room for k, room in enumerate(plan.rooms) if k not in (first, second)])
    found = []
    theirs = walls_of(plan.rooms[second])
    for ours in walls_of(plan.rooms[first]):
        for other in theirs:
            gap = ours.side * (other.at - ours.at)
            facing = ours.axis == other.axis and ours.side == -other.side
            if not (facing and -_ROUNDING <= gap <= THICKEST):
                continue
            piece = replace(ours, low=max(ours.low, other.low), high=min(ours.high, other.high))
            if piece.length > _ROUNDING:
                middle = replace(piece, at=(ours.at + other.at) / 2)
                found += middle.without(piece.in_front(0, gap).intersection(others))
    return found


def outer_walls(plan: FloorPlan, room: int, *, to_balconies: bool = False) -> list[Wall]:
    """The pieces of a room's wall that face the outside, with ``LANDING`` metres free of rooms;
    ``to_balconies``: those that face a balcony too.

    The outside is what lies beyond the boundary; without one, beyond the outermost walls: a recess
    is outside, a pocket between rooms is not. Those on the outline come first, then the shorter.
    """
    from shapely import union_all

    floors, indoors = union_all(plan.rooms), _indoors(plan)
    if to_balconies:
        named = zip(plan.rooms, plan.diagram.room_names, strict=True)
        balconies = union_all([floor for floor, name in named if name == "Balcony"])
        floors, indoors = floors.difference(balconies), indoors.difference(balconies)
    found = []
    for wall in walls_of(plan.rooms[room]):
        built = wall.in_front(_NEAR, LANDING).intersection(floors)
        kept = wall.in_front(THICKEST, THICKEST + LANDING).intersection(indoors)
        for piece in wall.without(built.union(kept)):
            recess = piece.in_front(0, LANDING).intersection(plan.outline).area
            found.append((recess > THICKEST * piece.length, piece.length, piece))
    return [piece for *_, piece in sorted(found, key=lambda each: each[:2])]


def _indoors(plan: FloorPlan) -> Geometry:
    """Inside of the boundary, or of the outermost walls."""
    from shapely import Polygon, get_parts, union_all

    if plan.boundary is not None:
        return plan.outline
    return union_all([Polygon(part.exterior) for part in get_parts(closed(union_all(plan.rooms)))])


def closed(floors: Geometry) -> Geometry:
    """The floors and what is between those that are no further apart than ``THICKEST``."""
    half = THICKEST / 2 + _ROUNDING
    return floors.buffer(half, join_style="mitre").buffer(-half, join_style="mitre")


def longest(walls: Iterable[Wall]) -> float:
    """Metres of the longest; 0 of none."""
    return max((wall.length for wall in walls), default=0.0)
