"""The floors of rooms as polygons: as JSON, compared with boxes, turned."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from floor_plans.diagrams.files.fields import DiagramError

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

TOLERANCE = 1e-3
"""Metres by which what is read may differ from what was written."""

_LEAST_GAIN = 0.02
"""Share of the area of the rooms' boxes that turning a plan back saves at least; of square rooms
that is half a degree."""

_LEAST_SIDE = 0.2
"""Metres of a wall that may say how a plan is turned."""

_DIGITS = 6
"""Decimals of the metres of a plan that was turned back."""


def rings_of(floor: BaseGeometry) -> list[list[list[list[float]]]]:
    """A list of parts, each a list of rings of corners [x, y]: the outer one, then holes."""
    import shapely

    return [
        [[[x, y] for x, y in ring.coords[:-1]] for ring in (part.exterior, *part.interiors)]
        for part in shapely.get_parts(floor)
    ]


def read_floors(floors: Any, boxes: Sequence[BaseGeometry]) -> tuple[BaseGeometry | None, ...]:
    """The inverse of ``rings_of`` for each room or null, in metres; none is larger than its box.

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
    from shapely import MultiPolygon, Polygon
    from shapely.errors import ShapelyError

    try:
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
    """True if two shapes differ by a strip of ``TOLERANCE`` along their sides at most."""
    return bool(floor.symmetric_difference(other).area <= TOLERANCE * max(floor.length, 1e-9))


def drawn_floors(
    floors: Sequence[BaseGeometry | None],
    boxes: Sequence[BaseGeometry],
    left: Sequence[BaseGeometry],
    shared: Collection[int] = (),
) -> tuple[BaseGeometry | None, ...]:
    """``FloorPlan.floors`` of rooms that were drawn as ``floors`` (None: their boxes); ``left``:
    what smaller boxes leave of each box; ``shared``: rooms that are drawn over others, whose floor
    is stated though it is their box. Empty if these, or whole boxes, are what was drawn."""
    own = [
        None if floor is None or (k not in shared and is_same(floor, box)) else floor
        for k, (floor, box) in enumerate(zip(floors, boxes, strict=True))
    ]
    if all(floor is None or is_same(floor, rest) for floor, rest in zip(own, left, strict=True)):
        return ()
    return tuple(own)


def angle_of(floors: Sequence[BaseGeometry]) -> float:
    """Degrees, above -45 and at most 45, by which a plan is turned as a whole; 0 if it is not.

    Of the directions of all walls and of the least rectangle around all floors it is the one along
    which the boxes of the rooms have the least area together, unless that hardly saves any.
    """
    import shapely

    whole = shapely.union_all(floors)
    around = shapely.minimum_rotated_rectangle(whole)
    found = {_direction(*side) for side in _sides(around)}
    for part in shapely.get_parts(floors):
        found |= {
            _direction(*side)
            for ring in shapely.get_rings(part)
            for side in pairwise(ring.coords)
            if math.dist(*side) >= _LEAST_SIDE
        }
    areas = {angle: _area_of_boxes(floors, angle) for angle in {0.0, *found}}
    best = min(areas, key=lambda angle: (round(areas[angle], 6), abs(angle)))
    return best if areas[best] < (1 - _LEAST_GAIN) * areas[0.0] else 0.0


def _sides(shape: BaseGeometry) -> list[tuple[Any, Any]]:
    ring = getattr(shape, "exterior", shape)
    return [*pairwise(ring.coords)]


def _direction(start: Sequence[float], end: Sequence[float]) -> float:
    """Direction of a line, up to quarter turns, in degrees."""
    angle = math.degrees(math.atan2(end[1] - start[1], end[0] - start[0])) % 90
    return round(angle if angle <= 45 else angle - 90, _DIGITS)


def _area_of_boxes(floors: Sequence[BaseGeometry], angle: float) -> float:
    """Area of the boxes of the floors along that direction."""
    import shapely

    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    area = 0.0
    for floor in floors:
        corners = shapely.get_coordinates(floor)
        along, across = corners @ (cos, sin), corners @ (-sin, cos)
        area += float(along.max() - along.min()) * float(across.max() - across.min())
    return area


class TurnBack:
    """Turns shapes by ``-angle`` degrees and puts the left upper corner of all floors at (0, 0)."""

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
