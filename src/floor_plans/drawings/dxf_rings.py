"""Closed polylines of a DXF drawing as polygons, arcs as chords."""

from __future__ import annotations

import math
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.plans.floor_plan import Point

if TYPE_CHECKING:
    from ezdxf.path import Path
    from shapely.geometry.base import BaseGeometry

UNREADABLE = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RecursionError),
    *(StopIteration, TypeError, ValueError),
)
"""Exceptions that ezdxf raises for a damaged drawing, beside its own."""

_CHORD = 5e-4
"""Share of the size of a polyline by which a chord may leave its arc."""

_MOST_CORNERS = 10_000
"""Corners of a polyline, those of chords too."""

_ROUNDING = 1e-9
"""Share of the size of a polyline by which the end of an arc may miss the corner it leads to."""

_FARTHEST = 1e12
"""Units of the drawing from its origin to a corner; beyond it areas lose their meaning."""


def ring_of(entity: Any) -> BaseGeometry | None:
    """The polygon of a closed polyline, arcs as chords; None of anything else. ``DiagramError`` if
    it crosses itself, has too many corners, or a place that cannot be."""
    from ezdxf.path import make_path
    from shapely import Polygon

    is_mesh = entity.dxftype() == "POLYLINE" and not (
        entity.is_2d_polyline or entity.is_3d_polyline
    )
    if entity.dxftype() not in ("LWPOLYLINE", "POLYLINE") or is_mesh:
        return None
    try:
        path = make_path(entity)
    except UNREADABLE as error:
        raise DiagramError(_named(entity), f"its arcs cannot be drawn ({error})") from error
    corners = _corners(path, entity)
    if len(corners) < 4 or not (entity.is_closed or path.is_closed):
        return None
    ring = Polygon(corners)
    if not ring.is_valid:
        raise DiagramError(place_of(ring.envelope), "its outline crosses itself")
    return ring


def _corners(path: Path, entity: Any) -> list[Point]:
    """Corners of a polyline. Chords leave their arcs by a share of its size, so that their number
    does not grow with the numbers in the file. A corner on the one before it is left out."""
    reached = [(point.x, point.y) for point in path.control_vertices()]
    if not all(abs(value) <= _FARTHEST for value in chain(*reached)):  # NaN is not
        raise DiagramError(
            _named(entity),
            f"a corner or arc is farther than {_FARTHEST:g} units from 0, 0, or not a number",
        )
    extent = max((max(axis) - min(axis) for axis in zip(*reached, strict=True)), default=0.0)
    if not extent:
        return []
    points = [*islice(path.flattening(_CHORD * extent), _MOST_CORNERS + 1)]
    if len(points) > _MOST_CORNERS:
        raise DiagramError(
            _named(entity),
            f"more than {_MOST_CORNERS:,} corners, those of arcs included; draw its outline with "
            "fewer",
        )
    corners: list[Point] = []
    for point in points:
        corner = (point.x, point.y)
        if not corners or math.dist(corners[-1], corner) > _ROUNDING * extent:
            corners.append(corner)
    return corners


def _named(entity: Any) -> str:
    """``the polyline on PLOT``"""
    return f"the polyline on {entity.dxf.layer}"


def place_of(floor: BaseGeometry) -> str:
    """``the room at (3.1, 4.2)``"""
    at = floor.representative_point()
    return f"the room at ({at.x:.1f}, {at.y:.1f})"
