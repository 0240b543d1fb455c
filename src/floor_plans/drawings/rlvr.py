"""RLVR JSON: "spaces" with polygons in metres, y downwards, and a graph of labels.

The format of a language model trained with verifiable rewards (ludolara/floor-plan-rlvr). Types are
those of House-GAN++; doors are spaces; a space is one ring of corners, without holes.
"""

from __future__ import annotations

import json
import reprlib
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from floor_plans.diagrams.files.code_tables import BEDROOM, with_master_bedroom
from floor_plans.diagrams.files.everyday_names import (
    is_numbered_bedroom,
    room_type_of,
    strip_number,
)
from floor_plans.diagrams.files.fields import DiagramError, finite_number, required_list, room_code
from floor_plans.diagrams.rooms import ROOM_TYPES
from floor_plans.drawings.drawn_parts import DrawnDoor, DrawnRoom
from floor_plans.drawings.drawn_plan import Drawing, check_installed, drawn_floor, in_stated_unit
from floor_plans.drawings.embedded_json import WRITTEN, written_text
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
"""Room type of the format -> the codes of ours that it stands for."""

FRONT, INTERIOR = "front_door", "interior_door"

_THIN = 0.001
"""Metres of a door where nobody says how thick its wall is."""


def rlvr_of(plan: FloorPlan) -> str:
    """``spaces``: rooms, then doors; see ``_opening`` where nobody says how thick walls are.
    ``input_graph``: the labels of the rooms that have a relation with each, and of the front door.

    ``room_count`` and ``total_area`` are of rooms; ``width`` and ``height`` of their floors. The
    plan's own JSON is under ``discrete_diffusion``.
    """
    names = [_NAMES[nearest_type(room)] for room in plan.diagram.room_names]
    names += [FRONT if door.is_front else INTERIOR for door in plan.doors]
    shapes = [_one_ring(drawn_floor(plan, k)) for k in range(plan.diagram.num_rooms)]
    shapes += [_opening(door, shapes[door.rooms[0]]) for door in plan.doors]
    areas = [*plan.areas, *(shape.area for shape in shapes[plan.diagram.num_rooms :])]
    labels = _labels(names)
    pairs = [(i, j) for i, j, _ in plan.diagram.relations]
    first_door = plan.diagram.num_rooms
    pairs += [(door.rooms[0], first_door + k) for k, door in enumerate(plan.doors) if door.is_front]
    graph: dict[str, list[str]] = {
        label: [] for label, name in zip(labels, names, strict=True) if name != INTERIOR
    }
    for i, j in pairs:
        graph[labels[i]].append(labels[j])
        graph[labels[j]].append(labels[i])
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
        WRITTEN: written_text(plan),
    }
    return json.dumps(data) + "\n"


def _opening(door: Door, floor: BaseGeometry) -> BaseGeometry:
    """The box of a door; in a wall of no thickness a millimetre of it, on the side of its first
    room: the format's own reader takes what lies over both rooms for no door."""
    import shapely
    from shapely.affinity import translate

    opening = shapely.box(*door.box(_THIN))
    if door.thickness:
        return opening
    x, y = (0.0, _THIN / 2) if door.start[1] == door.end[1] else (_THIN / 2, 0.0)
    moved = [translate(opening, x, y), translate(opening, -x, -y)]
    return max([opening, *moved], key=lambda each: round(each.intersection(floor).area, 9))


def _one_ring(floor: BaseGeometry) -> BaseGeometry:
    """A polygon without its holes; of several, the box around them."""
    from shapely import Polygon

    return Polygon(floor.exterior) if floor.geom_type == "Polygon" else floor.envelope


def _labels(names: list[str]) -> list[str]:
    """``kitchen``, or ``bedroom|0`` and ``bedroom|1`` where there are several."""
    counts, seen = Counter(names), Counter[str]()
    labels = []
    for name in names:
        labels.append(f"{name}|{seen[name]}" if counts[name] > 1 else name)
        seen[name] += 1
    return labels


def read_rlvr(data: Mapping[str, Any]) -> Drawing:
    """Read what ``rlvr_of`` writes, and plans of others in this format: the largest bedroom is the
    MasterRoom, relations are measured (``input_graph`` says nothing of directions), and a door
    leads to the rooms nearest to it. "unit" states another unit than metres.

    Raises ``DiagramError``.
    """
    check_installed()
    names: list[str | None] = []
    floors: list[BaseGeometry] = []
    doors: list[DrawnDoor] = []
    for k, space in enumerate(required_list(data, "spaces")):
        where = f"spaces[{k}]"
        if not isinstance(space, Mapping):
            raise DiagramError(where, f"expected an object, got {reprlib.repr(space)}")
        floor = _polygon(space.get("floor_polygon"), f"{where}.floor_polygon")
        given = space.get("room_type")
        name = given if isinstance(given, str) else None
        if name in (FRONT, INTERIOR):
            doors.append(DrawnDoor(floor, name == FRONT))
            continue
        if name is not None and name not in _TYPES:
            name = _called(name)
        if name is None or name not in _TYPES:
            known = ", ".join([*_TYPES, FRONT, INTERIOR])
            raise DiagramError(
                f"{where}.room_type", f"expected one of {known}, got {reprlib.repr(given)}"
            )
        names.append(_TYPES[name])
        floors.append(floor)
    if not floors:
        raise DiagramError("spaces", "a diagram needs at least one room")
    types = with_master_bedroom(names, [floor.area for floor in floors])
    rooms = [
        DrawnRoom(room_code(room), floor, k, _ALIKE[str(name)])
        for k, (room, floor, name) in enumerate(zip(types, floors, names, strict=True))
    ]
    written = data.get(WRITTEN)
    found = Drawing(tuple(rooms), tuple(doors), written=written, draws_boundary=False)
    return in_stated_unit(found, data)


def _called(word: str) -> str | None:
    """Name in the format of a room that goes by another word: "Living", "Bedroom 2"."""
    found = None if is_numbered_bedroom(word) else room_type_of(word, ROOM_TYPES)
    found = found or room_type_of(strip_number(word), ROOM_TYPES)
    room = nearest_type(found) if found else ""
    return _NAMES.get(BEDROOM if room == "Bedroom" else room)


def _polygon(corners: object, where: str) -> BaseGeometry:
    from shapely import Polygon

    given = corners if isinstance(corners, list) else []
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
