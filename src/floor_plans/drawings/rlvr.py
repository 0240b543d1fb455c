"""RLVR JSON: "spaces" with polygons in metres, y downwards, and a graph of labels.

This is the format of a language model trained with verifiable rewards (ludolara/floor-plan-rlvr).
It has the types of House-GAN++. Doors are spaces, and a space is one ring of corners, without
holes.
"""

from __future__ import annotations

import json
import reprlib
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion.layout import ROOM_TYPES
from floor_plans.diagrams.files.code_tables import BEDROOM, with_master_bedroom
from floor_plans.diagrams.files.fields import (
    DiagramError,
    finite_number,
    is_numbered_bedroom,
    required_list,
    room_code,
    room_type_of,
    strip_number,
)
from floor_plans.drawings.drawn_parts import EMBEDDED, DrawnDoor, DrawnRoom, embedded_json
from floor_plans.drawings.drawn_plan import Drawing, check_installed, drawn_floor, scale_to_metres
from floor_plans.drawings.houseganpp import nearest_type
from floor_plans.plans.floor_plan import Door, FloorPlan

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

_NAMES = {
    "LivingRoom": "living_room",
    "Kitchen": "kitchen",
    BEDROOM: "bedroom",
    "Bathroom": "bathroom",
    "Balcony": "balcony",
    "Entrance": "entrance",
    "DiningRoom": "dining_room",
    "StudyRoom": "study_room",
    "Storage": "storage",
}
_TYPES = {name: room for room, name in _NAMES.items()}
_ALIKE = {
    room: tuple(k for k, name in enumerate(ROOM_TYPES) if nearest_type(name) == room)
    for room in _NAMES
}
"""Codes that a room type of the format stands for."""

FRONT, INTERIOR = "front_door", "interior_door"

_THIN = 0.001  # thickness in metres of a door in a wall of unknown thickness


def rlvr_of(plan: FloorPlan) -> str:
    """Write a plan as RLVR JSON: ``spaces`` of rooms, then of doors (see ``_box_of_door``), and
    ``input_graph``, the labels related to each room and to the front door.

    ``room_count`` and ``total_area`` count rooms; ``width`` and ``height`` are those of floors. The
    plan's own JSON is under ``discrete_diffusion``.
    """
    from shapely import Polygon

    # rooms, then doors
    names = [_NAMES[nearest_type(room)] for room in plan.diagram.room_names]
    names += [FRONT if door.is_front else INTERIOR for door in plan.doors]
    # a space is one ring, without holes; for a floor in parts the box around them
    floors = [drawn_floor(plan, k) for k in range(plan.diagram.num_rooms)]
    shapes = [Polygon(f.exterior) if f.geom_type == "Polygon" else f.envelope for f in floors]
    shapes += [_box_of_door(door, shapes[door.rooms[0]]) for door in plan.doors]
    areas = [*plan.areas, *(shape.area for shape in shapes[plan.diagram.num_rooms :])]
    # labels such as kitchen, or bedroom|0 and bedroom|1 if there are several
    counts, seen, labels = Counter(names), Counter[str](), []
    for name in names:
        labels.append(f"{name}|{seen[name]}" if counts[name] > 1 else name)
        seen[name] += 1
    # the graph: relations, and the room of the front door
    pairs = [(i, j) for i, j, _ in plan.diagram.relations]
    first_door = plan.diagram.num_rooms
    pairs += [(door.rooms[0], first_door + k) for k, door in enumerate(plan.doors) if door.is_front]
    graph: dict[str, list[str]] = {
        label: [] for label, name in zip(labels, names, strict=True) if name != INTERIOR
    }
    for i, j in pairs:
        graph[labels[i]].append(labels[j])
        graph[labels[j]].append(labels[i])
    # the spaces
    spaces = []
    for label, name, shape, area in zip(labels, names, shapes, areas, strict=True):
        x0, y0, x1, y1 = shape.bounds
        spaces.append(
            {
                "id": label,
                "room_type": name,
                "area": round(area, 2),
                "width": x1 - x0,
                "height": y1 - y0,
                "floor_polygon": [{"x": x, "y": y} for x, y in shape.exterior.coords[:-1]],
            }
        )
    data = {
        "room_count": plan.diagram.num_rooms,
        "total_area": round(sum(plan.areas), 2),
        "spaces": spaces,
        "input_graph": graph,
        EMBEDDED: embedded_json(plan),
    }
    return json.dumps(data) + "\n"


def _box_of_door(door: Door, floor: BaseGeometry) -> BaseGeometry:
    """Box of a door. In a wall of no thickness it is a millimetre thick, on the side of its first
    room, as the format's own reader ignores a door over both."""
    import shapely
    from shapely.affinity import translate

    opening = shapely.box(*door.box(_THIN))
    if door.thickness:
        return opening
    # shifted by half its thickness to the side with more of the first room
    x, y = (0.0, _THIN / 2) if door.start[1] == door.end[1] else (_THIN / 2, 0.0)
    moved = [translate(opening, x, y), translate(opening, -x, -y)]
    return max([opening, *moved], key=lambda each: round(each.intersection(floor).area, 9))


def read_rlvr(data: Mapping[str, Any]) -> Drawing:
    """Read what ``rlvr_of`` writes, or another plan in this format. Relations are measured, as
    ``input_graph`` has no directions, and a door leads to the nearest rooms. Raises
    ``DiagramError``."""
    check_installed()
    names: list[str | None] = []
    floors: list[BaseGeometry] = []
    doors: list[DrawnDoor] = []
    # sort the spaces into rooms and doors
    for k, space in enumerate(required_list(data, "spaces")):
        where = f"spaces[{k}]"
        if not isinstance(space, Mapping):
            raise DiagramError(where, f"expected an object, got {reprlib.repr(space)}")
        floor = _polygon_of_corners(space.get("floor_polygon"), f"{where}.floor_polygon")
        given = space.get("room_type")
        name = given if isinstance(given, str) else None
        if name in (FRONT, INTERIOR):
            doors.append(DrawnDoor(floor, is_front=name == FRONT))
            continue
        # another word for a room, such as "Living" or "Bedroom 2"
        if name is not None and name not in _TYPES:
            found = None if is_numbered_bedroom(name) else room_type_of(name, ROOM_TYPES)
            found = found or room_type_of(strip_number(name), ROOM_TYPES)
            room = nearest_type(found) if found else ""
            name = _NAMES.get(BEDROOM if room == "Bedroom" else room)
        if name is None or name not in _TYPES:
            known = ", ".join([*_TYPES, FRONT, INTERIOR])
            raise DiagramError(
                f"{where}.room_type", f"expected one of {known}, got {reprlib.repr(given)}"
            )
        names.append(_TYPES[name])
        floors.append(floor)
    if not floors:
        raise DiagramError("spaces", "a diagram needs at least one room")
    # room types, with the others that a name may stand for
    types = with_master_bedroom(names, [floor.area for floor in floors])
    rooms = [
        DrawnRoom(room_code(room), floor, k, _ALIKE[str(name)])
        for k, (room, floor, name) in enumerate(zip(types, floors, names, strict=True))
    ]
    embedded = data.get(EMBEDDED)
    drawing = Drawing(tuple(rooms), tuple(doors), embedded=embedded, draws_boundary=False)
    return scale_to_metres(drawing, data)


def _polygon_of_corners(corners: object, where: str) -> BaseGeometry:
    """Polygon of a list of corners. Raises ``DiagramError`` unless it is valid."""
    from shapely import Polygon

    given = corners if isinstance(corners, list) else []
    # corners as numbers
    points = [
        (finite_number(corner.get("x"), where), finite_number(corner.get("y"), where))
        for corner in given
        if isinstance(corner, Mapping)
    ]
    if len(points) != len(given) or len(points) < 3 or not Polygon(points).is_valid:
        raise DiagramError(
            where,
            'expected the corners [{"x": .., "y": ..}, ...] of a polygon in metres that does not '
            f"cross itself, got {reprlib.repr(corners)}",
        )
    return Polygon(points)
