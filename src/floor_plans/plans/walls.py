"""``Wall``: the straight walls of a floor plan, shared by two rooms or facing the outside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from floor_plans.plans.floor_plan import FloorPlan, Point

if TYPE_CHECKING:
    from shapely import Geometry, MultiPolygon, Polygon

THICKEST = 0.45
"""Thickest wall, metres. Floors that are further apart have space between them."""
DEEP = 0.5
"""Metres of floor behind a wall, so that people can reach it."""
LANDING = 1.0
"""Metres in front of an outer wall that are free of rooms."""

_NEAR = 0.01
_ROUNDING, _SPECK = 1e-6, 1e-4
"""Metres and square metres that count as zero."""


@dataclass(frozen=True)
class Wall:
    """Straight piece of wall from ``low`` to ``high`` along ``axis`` (0: x, 1: y).

    ``at``: its coordinate on the other axis; ``side``: the direction on that axis, 1 or -1, that
    leads out of the room.
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
        """Point of the wall at a coordinate on its axis."""
        return (along, self.at) if self.axis == 0 else (self.at, along)

    def strip_in_front(self, first: float, last: float) -> Polygon:
        """Rectangle along the wall, from ``first`` to ``last`` metres outside the room."""
        from shapely import box

        near, far = sorted((self.at + self.side * first, self.at + self.side * last))
        if self.axis == 0:
            return box(self.low, near, self.high, far)
        return box(near, self.low, far, self.high)

    def clear_pieces(self, blocked: Geometry) -> list[Wall]:
        """Pieces of the wall with nothing of ``blocked`` in front of or behind them."""
        from shapely import get_parts

        pieces, low = [], self.low
        parts = [part for part in get_parts(blocked) if part.area > _SPECK]
        # what is left between the blocked spans
        spans = sorted(part.bounds[self.axis :: 2] for part in parts)
        for first, last in [*spans, (self.high, self.high)]:
            if first - low > _ROUNDING:
                pieces.append(replace(self, low=low, high=min(first, self.high)))
            low = max(low, last)
        return pieces


def walls_of(room: Polygon | MultiPolygon) -> list[Wall]:
    """Walls around a floor with sides parallel to the axes, where the floor is at least ``DEEP``
    metres deep."""
    from shapely import get_parts
    from shapely.geometry.polygon import orient

    found = []
    for part in map(orient, get_parts(room.normalize())):
        for ring in (part.exterior, *part.interiors):
            corners = list(ring.simplify(0).coords)
            for (x0, y0), (x1, y1) in pairwise(corners):
                # the floor lies to the left of the ring's direction
                if abs(x1 - x0) > abs(y1 - y0):
                    side = -1 if x1 > x0 else 1
                    found.append(Wall(0, (y0 + y1) / 2, min(x0, x1), max(x0, x1), side))
                else:
                    side = 1 if y1 > y0 else -1
                    found.append(Wall(1, (x0 + x1) / 2, min(y0, y1), max(y0, y1), side))
    return [
        piece
        for wall in found
        for piece in wall.clear_pieces(wall.strip_in_front(-DEEP, -_NEAR).difference(room))
    ]


def shared_walls(plan: FloorPlan, first: int, second: int) -> list[Wall]:
    """Pieces of wall between two rooms, in the middle between them and seen from the first: their
    floors face each other at most ``THICKEST`` apart, without a third room in between."""
    from shapely import union_all

    others = union_all([room for k, room in enumerate(plan.rooms) if k not in (first, second)])
    found = []
    theirs = walls_of(plan.rooms[second])
    for ours in walls_of(plan.rooms[first]):
        for other in theirs:
            # walls that face each other across a wall's thickness
            gap = ours.side * (other.at - ours.at)
            facing = ours.axis == other.axis and ours.side == -other.side
            if not (facing and -_ROUNDING <= gap <= THICKEST):
                continue
            # where they overlap, less other rooms in between
            piece = replace(ours, low=max(ours.low, other.low), high=min(ours.high, other.high))
            if piece.length > _ROUNDING:
                middle = replace(piece, at=(ours.at + other.at) / 2)
                found += middle.clear_pieces(piece.strip_in_front(0, gap).intersection(others))
    return found


def outer_walls(plan: FloorPlan, room: int, *, to_balconies: bool = False) -> list[Wall]:
    """Pieces of a room's wall that face the outside, with ``LANDING`` metres free of rooms.
    ``to_balconies``: include those that face a balcony.

    The outside lies beyond the boundary, or else beyond the outermost walls. A recess is outside, a
    pocket between rooms is not. Pieces on the outline come first, then the shorter ones.
    """
    from shapely import union_all

    floors, indoors = union_all(plan.rooms), _indoors(plan)
    # a balcony counts as outside
    if to_balconies:
        named = zip(plan.rooms, plan.diagram.room_names, strict=True)
        balconies = union_all([floor for floor, name in named if name == "Balcony"])
        floors, indoors = floors.difference(balconies), indoors.difference(balconies)
    found = []
    for wall in walls_of(plan.rooms[room]):
        # free in front, and outside behind the wall's thickness
        built = wall.strip_in_front(_NEAR, LANDING).intersection(floors)
        kept = wall.strip_in_front(THICKEST, THICKEST + LANDING).intersection(indoors)
        for piece in wall.clear_pieces(built.union(kept)):
            recess = piece.strip_in_front(0, LANDING).intersection(plan.outline).area
            found.append((recess > THICKEST * piece.length, piece.length, piece))
    return [piece for *_, piece in sorted(found, key=lambda each: each[:2])]


def _indoors(plan: FloorPlan) -> Geometry:
    """Area within the boundary, or within the outermost walls."""
    from shapely import Polygon, get_parts, union_all

    if plan.boundary is not None:
        return plan.outline
    return union_all(
        [Polygon(part.exterior) for part in get_parts(fill_gaps(union_all(plan.rooms)))]
    )


def fill_gaps(floors: Geometry) -> Geometry:
    """Floors and the gaps of at most ``THICKEST`` between them."""
    half = THICKEST / 2 + _ROUNDING
    return floors.buffer(half, join_style="mitre").buffer(-half, join_style="mitre")


def longest(walls: Iterable[Wall]) -> float:
    """Length of the longest wall in metres; 0 without walls."""
    return max((wall.length for wall in walls), default=0.0)
