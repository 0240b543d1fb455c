"""Floors of rooms as polygons: written as JSON, compared with boxes, and rotated."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from floor_plans.diagrams.files.fields import DiagramError

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

TOLERANCE = 1e-3  # metres by which a shape that is read may differ from the one that was written

_LEAST_GAIN = 0.02
"""Share of the area of the boxes that rotating a plan must save; for square rooms that is half a
degree."""

_LEAST_SIDE = 0.2  # metres of a wall whose direction may be that of the plan
_DIGITS = 6  # decimals, in metres, of a plan that was rotated


def rings_of(floor: BaseGeometry) -> list[list[list[list[float]]]]:
    """Return a list of parts, each a list of rings of corners [x, y], the outer ring first."""
    import shapely

    return [
        [[[x, y] for x, y in ring.coords[:-1]] for ring in (part.exterior, *part.interiors)]
        for part in shapely.get_parts(floor)
    ]


def read_floors(floors: Any, boxes: Sequence[BaseGeometry]) -> tuple[BaseGeometry | None, ...]:
    """Read what ``rings_of`` writes for each room, or null, in metres. A floor lies within its box.

    Raises ``DiagramError``.
    """
    if not isinstance(floors, list | tuple) or len(floors) != len(boxes):
        shown = reprlib.repr(floors)
        raise DiagramError("floors", f"expected parts or null of {len(boxes)} rooms, got {shown}")
    read = [
        None if floor is None else _floor(floor, f"floors[{k}]") for k, floor in enumerate(floors)
    ]
    for k, (floor, box) in enumerate(zip(read, boxes, strict=True)):
        if floor is not None and not box.buffer(TOLERANCE).covers(floor):
            raise DiagramError(f"floors[{k}]", "it reaches out of the box of its room")
    return tuple(read)


def _floor(parts: Any, where: str) -> BaseGeometry:
    """Read one floor."""
    from shapely import MultiPolygon, Polygon
    from shapely.errors import ShapelyError

    try:
        # each part is an outer ring and its holes
        polygons = [Polygon(outer, holes) for outer, *holes in parts]
        found = polygons[0] if len(polygons) == 1 else MultiPolygon(polygons)
        sound = found.is_valid and not found.is_empty
    except (ShapelyError, IndexError, TypeError, ValueError):
        sound = False
    if not sound:
        raise DiagramError(
            where,
            "expected parts, each a list of rings of corners [x, y] in metres that do not cross, "
            f"got {reprlib.repr(parts)}",
        )
    return found


def is_same(floor: BaseGeometry, other: BaseGeometry) -> bool:
    """Return True if two shapes differ by at most a strip of ``TOLERANCE`` along their sides."""
    return bool(floor.symmetric_difference(other).area <= TOLERANCE * max(floor.length, 1e-9))


def drawn_floors(
    floors: Sequence[BaseGeometry | None],
    boxes: Sequence[BaseGeometry],
    left: Sequence[BaseGeometry],
    shared: Collection[int] = (),
) -> tuple[BaseGeometry | None, ...]:
    """Return ``FloorPlan.floors`` of rooms drawn as ``floors`` (None: drawn as their boxes).

    ``left``: each box less the smaller boxes. ``shared``: rooms drawn over other rooms, whose floor
    is stated even if it equals their box. Empty if the boxes alone yield the drawn floors.
    """
    # a floor that equals its box is not stated
    own = [
        None if floor is None or (k not in shared and is_same(floor, box)) else floor
        for k, (floor, box) in enumerate(zip(floors, boxes, strict=True))
    ]
    # boxes alone yield these floors
    if all(floor is None or is_same(floor, rest) for floor, rest in zip(own, left, strict=True)):
        return ()
    return tuple(own)


def angle_of(floors: Sequence[BaseGeometry]) -> float:
    """Angle by which a whole plan is rotated, in degrees, above -45 and at most 45.

    Candidates are the directions of all walls and of the smallest rectangle around all floors. The
    best one minimises the total area of the boxes of the rooms; 0 if that hardly saves any area.
    """
    import shapely

    # candidates: directions of the smallest rectangle and of long walls
    whole = shapely.union_all(floors)
    around = shapely.minimum_rotated_rectangle(whole)
    found = {_direction(*side) for side in pairwise(getattr(around, "exterior", around).coords)}
    for part in shapely.get_parts(floors):
        found |= {
            _direction(*side)
            for ring in shapely.get_rings(part)
            for side in pairwise(ring.coords)
            if math.dist(*side) >= _LEAST_SIDE
        }
    # the candidate with the smallest boxes
    areas = dict.fromkeys({0.0, *found}, 0.0)
    corners = [shapely.get_coordinates(floor) for floor in floors]
    for angle in areas:
        cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        for each in corners:
            along, across = each @ (cos, sin), each @ (-sin, cos)
            areas[angle] += float(along.max() - along.min()) * float(across.max() - across.min())
    best = min(areas, key=lambda angle: (round(areas[angle], 6), abs(angle)))
    return best if areas[best] < (1 - _LEAST_GAIN) * areas[0.0] else 0.0


def _direction(start: Sequence[float], end: Sequence[float]) -> float:
    """Direction of a line in degrees, up to quarter turns."""
    angle = math.degrees(math.atan2(end[1] - start[1], end[0] - start[0])) % 90
    return round(angle if angle <= 45 else angle - 90, _DIGITS)


class Unrotate:
    """Rotate shapes by ``-angle`` degrees, with the upper left corner of the floors at (0, 0)."""

    def __init__(self, floors: Sequence[BaseGeometry], angle: float) -> None:
        import shapely

        cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        self._turn = ((cos, -sin), (sin, cos))
        self._corner = (shapely.get_coordinates(floors) @ self._turn).min(axis=0)

    def __call__(self, shape: BaseGeometry) -> BaseGeometry:
        import shapely

        def moved(corners: Any) -> Any:
            return (corners @ self._turn - self._corner).round(_DIGITS) + 0.0  # no -0.0

        return shapely.transform(shape, moved)
