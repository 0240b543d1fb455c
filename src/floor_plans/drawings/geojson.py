"""GeoJSON: a plan as a FeatureCollection, in metres of a local frame with y upwards.

RFC 7946 allows degrees only. Here the coordinates are metres, as the members "unit" and "frame"
state.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from floor_plans.diagrams.files.fields import DiagramError, required_list, room_code
from floor_plans.drawings.drawn_parts import EMBEDDED, DrawnDoor, DrawnRoom, embedded_json
from floor_plans.drawings.drawn_plan import (
    Drawing,
    check_boundary,
    check_installed,
    drawn_floor,
    flip_y,
    largest_boundary,
    rooms_of_labels,
    scale_to_metres,
)
from floor_plans.plans.floor_plan import FRONT_DOOR, FloorPlan, rooms_from_json, rooms_to_json
from floor_plans.rules.finding import ADDED, added_rooms

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

OTHERS = "features that are neither room nor door"


def geojson_of(plan: FloorPlan) -> str:
    """Write a plan as GeoJSON.

    Features have the ``kind`` "room" (``room_type``, ``area``, and ``added`` if it was added to its
    diagram; the id is its number), "door" (``rooms``) and "boundary", or "outline" for a plan
    without a boundary. The plan's own JSON is under ``discrete_diffusion``.
    """
    from shapely import LineString

    outline = "outline" if plan.boundary is None else "boundary"
    added = added_rooms(plan.diagram)
    # the outline, rooms and doors
    features = [_feature(plan.outline, {"kind": outline, "area": round(plan.outline.area, 2)})]
    for k, (name, area) in enumerate(zip(plan.diagram.room_names, plan.areas, strict=True)):
        about = {"kind": "room", "room_type": name, "area": round(area, 2)}
        about |= {ADDED: True} if k in added else {}
        features.append({"id": k, **_feature(drawn_floor(plan, k), about)})
    for door in plan.doors:
        about = {"kind": "door", "rooms": rooms_to_json(door.rooms)}
        features.append(_feature(LineString([door.start, door.end]), about))
    # with the plan's own JSON
    collection = {
        "type": "FeatureCollection",
        "unit": "metres",
        "frame": "local: x to the right, y upwards; not longitude and latitude",
        "features": features,
        EMBEDDED: embedded_json(plan),
    }
    return json.dumps(collection) + "\n"


def _feature(shape: BaseGeometry, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Feature of a shape, with y upwards."""
    from shapely.geometry import mapping
    from shapely.geometry.polygon import orient

    shape = flip_y(shape)
    if shape.geom_type == "Polygon":
        shape = orient(shape)
    return {"type": "Feature", "properties": dict(properties), "geometry": mapping(shape)}


def read_geojson(data: Mapping[str, Any]) -> Drawing:
    """Read what ``geojson_of`` writes, or a similar drawing.

    Polygons with a ``room_type`` are rooms, lines of ``kind`` "door" are doors, and anything else
    is left out. "unit" states another unit than metres.
    """
    check_installed()
    labels: list[object] = []
    floors: list[BaseGeometry] = []
    ids: list[object] = []
    places: list[str] = []
    doors: list[DrawnDoor] = []
    boundaries: list[BaseGeometry] = []
    num_others = 0
    # sort the features by kind
    for k, feature in enumerate(required_list(data, "features")):
        where = f"features[{k}]"
        about = feature.get("properties") if isinstance(feature, Mapping) else None
        if not isinstance(about, Mapping):
            raise DiagramError(where, "expected a Feature with properties")
        kind = about.get("kind", "room" if "room_type" in about else None)
        if kind == "room":
            ids.append(feature.get("id"))
            labels.append(about.get("room_type"))
            places.append(f"{where}.properties.room_type")
            room_code(labels[-1], places[-1])
            floors.append(_shape(feature, where, "Polygon", "MultiPolygon"))
        elif kind == "door":
            stated = about.get("rooms")
            ends = None if stated is None else rooms_from_json(stated, math.inf)
            line = _shape(feature, where, "LineString")
            doors.append(DrawnDoor(line, ends is not None and ends[1] == FRONT_DOOR, ends))
        elif kind == "boundary":
            shape = _shape(feature, where, "Polygon")
            boundaries.append(check_boundary(shape, f"{where}.geometry"))
        elif kind != "outline":
            num_others += 1
    if not labels:
        raise DiagramError("features", 'no polygon has a property "room_type", as every room does')
    # the drawing of these parts
    boundary, left_out = largest_boundary(boundaries)
    left_out += (OTHERS,) * num_others
    rooms = map(DrawnRoom, rooms_of_labels(labels, floors, places), floors, _numbers(ids))
    found = Drawing(tuple(rooms), tuple(doors), boundary, data.get(EMBEDDED), left_out)
    return scale_to_metres(found, data)


def _numbers(ids: Sequence[object]) -> list[int]:
    """Ids of rooms if all are different integers; otherwise their places among rooms."""
    # doors refer to rooms by these
    numbers = [each for each in ids if type(each) is int]
    return numbers if len(set(numbers)) == len(ids) else [*range(len(ids))]


def _shape(feature: Mapping[str, Any], where: str, *types: str) -> BaseGeometry:
    """Geometry of a feature, y downwards. Raises ``DiagramError`` unless it is valid and of one of
    the ``types``."""
    from shapely.errors import ShapelyError
    from shapely.geometry import shape

    given = feature.get("geometry")
    try:
        # of a type that is expected, and valid
        found = shape(given)
        is_sound = found.geom_type in types and not found.is_empty
        is_sound = is_sound and found.is_valid
    except (ShapelyError, AttributeError, IndexError, KeyError, TypeError, ValueError):
        is_sound = False
    if not is_sound:
        raise DiagramError(
            f"{where}.geometry",
            f"expected a {types[0]} in metres that does not cross itself, got "
            f"{reprlib.repr(given)}",
        )
    return flip_y(found)
