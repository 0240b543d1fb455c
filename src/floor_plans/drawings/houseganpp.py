"""House-GAN++ and RLVR JSON, which share nine types of rooms and lack relations.

House-GAN++, which ``plan_files`` reads, has rooms and doors as nodes, with boxes and walls in
pixels of 256 x 256. RLVR, of a language model (ludolara/floor-plan-rlvr), has ``spaces``: rooms and
doors as rings of corners in metres, y downwards.
"""

from __future__ import annotations

import json
import reprlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from discrete_diffusion.layout import ROOM_TYPES
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files import fields
from floor_plans.diagrams.files.code_tables import BEDROOM, CODE_TABLES, with_master_bedroom
from floor_plans.diagrams.files.fields import DiagramError, finite_number
from floor_plans.diagrams.files.records import Note
from floor_plans.diagrams.geometry import DEFAULT_THRESHOLD, boxes_in_metres, metres_per
from floor_plans.diagrams.vocabulary import ROOM_GROUPS
from floor_plans.drawings import drawn_plan
from floor_plans.drawings.drawn_parts import EMBEDDED, DrawnDoor, DrawnRoom, embedded_json
from floor_plans.drawings.drawn_plan import Drawing, drawn_floor, fill_notes
from floor_plans.plans.floor_plan import FRONT_DOOR, TOLERANCE, Box, Door, FloorPlan, rings_of
from floor_plans.plans.libraries import affinity, shapely

FRAME = "frame"  # key for the frame of a plan that does not lie on 256 x 256 pixels of 18 m

_PIXELS = 256
_METRES = metres_per("pixels")
_WRITTEN_DIGITS, _READ_DIGITS = 9, 6  # decimals of a pixel
_DOOR_THICKNESS = 4  # pixels of the wall around a door whose thickness is unknown
_MOST_WALL = DEFAULT_THRESHOLD  # largest thickness of a wall between two rooms, pixels

_NEAREST = {**dict.fromkeys(ROOM_GROUPS["Bedroom"], BEDROOM), "Wall-in": "Storage"}
"""Replacement for a type that the format lacks."""

_CODES = {name: code for code, name in CODE_TABLES["houseganpp"].known.items()}


def nearest_type(room: str) -> str:
    """Room type of the format, or ``BEDROOM``, for a room type."""
    return _NEAREST.get(room, room)


class _Frame(NamedTuple):
    """Frame of a plan: pixel (x, y) lies at (left + x * metres, top + y * metres)."""

    metres: float = _METRES
    left: float = 0.0
    top: float = 0.0

    def pixels(self, metres: Any) -> Any:
        """Convert points [..., (x, y)]."""
        moved = (np.asarray(metres) - (self.left, self.top)) / self.metres
        return moved.round(_WRITTEN_DIGITS) + 0.0


def _frame_around(boxes: Sequence[Box]) -> _Frame:
    """Frame of RPLAN if the plan fits it; otherwise a frame centred on it, enlarged if needed."""
    low, high = np.min(boxes, axis=0)[:2], np.max(boxes, axis=0)[2:]
    if low.min() >= 0 and high.max() <= _PIXELS * _METRES:
        return _Frame()
    # centred on the plan, and scaled down if it is larger
    metres = max(_METRES, float((high - low).max()) / _PIXELS)
    return _Frame(metres, *((low + high - _PIXELS * metres) / 2).tolist())


def read_frame(data: Mapping[str, Any], boxes: Sequence[Box]) -> list[Box]:
    """Convert boxes to pixels of 18 m / 256 by the key ``frame``. Raises ``DiagramError``."""
    if FRAME not in data:
        return list(boxes)
    given = data[FRAME]
    keys = ("metres_per_pixel", "left", "top")
    if not isinstance(given, Mapping) or any(key not in given for key in keys):
        raise DiagramError(FRAME, f"expected an object with {', '.join(keys)}")
    metres, left, top = (finite_number(given[key], f"{FRAME}.{key}") for key in keys)
    if metres <= 0:
        raise DiagramError(f"{FRAME}.metres_per_pixel", f"{metres}: expected more than 0")
    with np.errstate(over="ignore"):  # boxes without bounds are refused later
        moved = (np.reshape(boxes, (-1, 4)) * metres + (left, top, left, top)) / _METRES
    return [(x0, y0, x1, y1) for x0, y0, x1, y1 in moved.round(_READ_DIGITS).tolist()]


def houseganpp_of(plan: FloorPlan) -> str:
    """Write a plan as House-GAN++ JSON: ``room_type`` and ``boxes`` of rooms, then of doors;
    ``edges``; ``ed_rm``.

    ``edges`` are the walls around each node, with the types of the node and of the room behind it,
    or 0; ``ed_rm`` are their numbers. The room behind a wall faces most of it, at most 9 pixels
    away; rooms of a door are behind its long sides. A plan that does not fit 256 x 256 pixels of 18
    m is shifted and scaled, as ``frame`` states.
    """
    assert plan.diagram.boxes is not None
    # rooms, then doors, as nodes
    doors = [door.box(_DOOR_THICKNESS * _METRES) for door in plan.doors]
    boxes = [*plan.diagram.boxes, *doors]
    frame = _frame_around(boxes)
    kinds = ["front-door" if door.is_front else "interior-door" for door in plan.doors]
    codes = [_CODES[nearest_type(name)] for name in (*plan.diagram.room_names, *kinds)]
    shapes = [drawn_floor(plan, k) for k in range(plan.diagram.num_rooms)]
    floors = [shapely.transform(shape, frame.pixels) for shape in shapes]
    openings = [shapely.transform(shapely.box(*box), frame.pixels) for box in doors]
    walls: list[tuple[Box, int, int | None]] = []  # a side, its node, and the room behind it
    for k, floor in enumerate(floors):
        for side, behind in _sides(floor):
            # the other room with the most area behind this wall
            areas = {j: behind.intersection(floors[j]).area for j in range(len(floors)) if j != k}
            faced = max(areas, key=areas.__getitem__, default=None)
            walls.append((side, k, faced if faced is not None and areas[faced] > 0 else None))
    for k, (door, opening) in enumerate(zip(plan.doors, openings, strict=True), len(floors)):
        # the rooms of a door are behind its long sides
        rooms = [None if room == FRONT_DOOR else floors[room] for room in door.rooms]
        for (side, _), leads in zip(_sides(opening), _rooms_of_sides(opening, rooms), strict=True):
            walls.append((side, k, None if leads is None else door.rooms[leads]))
    data: dict[str, Any] = {
        "room_type": codes,
        "boxes": frame.pixels(np.reshape(boxes, (-1, 2, 2))).reshape(-1, 4).tolist(),
        "edges": [[*side, codes[k], 0 if j is None else codes[j]] for side, k, j in walls],
        "ed_rm": [[k] if j is None else [k, j] for _, k, j in walls],
    }
    if frame != _Frame():
        data[FRAME] = {"metres_per_pixel": frame.metres, "left": frame.left, "top": frame.top}
    return json.dumps(data) + "\n"


def _sides(shape: shapely.Geometry) -> Iterator[tuple[Box, shapely.Geometry]]:
    """Yield the walls around a shape, from its upper left corner downwards. Each comes with the
    rectangle behind it, on the outside of the shape."""
    for part in shapely.get_parts(shape):
        part = shapely.geometry.polygon.orient(part, sign=-1)
        for ring in (part.exterior, *part.interiors):
            corners = [(float(x), float(y)) for x, y in ring.coords[:-1]]
            first = corners.index(min(corners))
            corners = corners[first:] + corners[: first + 1]
            for (x0, y0), (x1, y1) in pairwise(corners):
                # the floor is to the right of the ring's direction, with y upwards
                dx, dy = x1 - x0, y1 - y0
                length = (dx * dx + dy * dy) ** 0.5
                over, down = -dy / length * _MOST_WALL, dx / length * _MOST_WALL
                far = [(x1 + over, y1 + down), (x0 + over, y0 + down)]
                yield (x0, y0, x1, y1), shapely.Polygon([(x0, y0), (x1, y1), *far])


def _rooms_of_sides(
    opening: shapely.Geometry, rooms: Sequence[shapely.Geometry | None]
) -> tuple[int | None, ...]:
    """Index of the room behind each of a door's four sides; None for the short sides."""
    behind = [rectangle for _, rectangle in _sides(opening)]
    # the long sides, by their number
    x0, y0, x1, y1 = opening.bounds
    one, other = (1, 3) if x1 - x0 >= y1 - y0 else (0, 2)
    # the room that lies more behind the first of them
    shares = [
        [0.0 if room is None else behind[side].intersection(room).area for side in (one, other)]
        for room in rooms
    ]
    lean = [first - second for first, second in shares]
    ahead = 0 if lean[0] >= lean[1] else 1
    found: list[int | None] = [None] * 4
    for side, which in ((one, ahead), (other, 1 - ahead)):
        found[side] = None if rooms[which] is None else which
    return tuple(found)


_FAR = 1e9  # largest coordinate of a wall's end, pixels
_DIGITS = 6  # decimals of a metre and of a pixel


@dataclass(frozen=True)
class Outlines:
    """Polygons enclosed by the walls of a plan. ``boxes``: boxes of all nodes in pixels.
    ``shapes``: polygons in metres; None if the walls of a node enclose none inside its box.
    ``num_open``: number of walls of such nodes."""

    boxes: Sequence[Box]
    shapes: Sequence[shapely.Geometry | None]
    num_open: int = 0
    notes: tuple[Note, ...] = ()

    def areas(self) -> list[float]:
        """Area of the polygon, or else of the box, of every node in square metres."""
        boxes = boxes_in_metres(self.boxes, "pixels")
        return [
            round((x1 - x0) * (y1 - y0) if shape is None else shape.area, _DIGITS)
            for shape, (x0, y0, x1, y1) in zip(self.shapes, boxes, strict=True)
        ]

    def floors(self, rooms: Mapping[int, int]) -> tuple[Any, tuple[Note, ...]]:
        """Return the value of the key "floors", None if the boxes imply the floors, and notes.
        ``rooms``: type of each node that is a room, by number of the node, in order."""
        drawn = [self.shapes[k] for k in rooms]
        if not any(drawn):
            return None, self.notes
        boxes = boxes_in_metres([self.boxes[k] for k in rooms], "pixels")
        # floors that boxes do not imply
        plan = FloorPlan(BubbleDiagram(tuple(rooms.values()), (), boxes))
        kept = drawn_plan.drawn_floors(drawn, plan)
        notes = [*self.notes]
        for k, floor in enumerate(kept):
            if floor is not None:
                notes += fill_notes(k, plan.diagram.rooms[k], floor.area / plan.boxes[k].area)
        floors = [None if floor is None else rings_of(floor) for floor in kept]
        return floors or None, tuple(notes)


def read_outlines(
    data: Mapping[str, Any], boxes: Sequence[Box], is_door: Sequence[bool]
) -> Outlines:
    """Read the polygons of a House-GAN++ plan with these boxes; none without shapely, and none if
    ``edges`` and ``ed_rm`` do not match."""
    nodes = data["ed_rm"]
    edges = data.get("edges", nodes)
    bare = Outlines(boxes, (None,) * len(boxes), len(edges) if isinstance(edges, list) else 1)
    paired = isinstance(edges, list) and isinstance(nodes, list) and len(edges) == len(nodes)
    if not paired or "edges" not in data or "floors" in data or find_spec("shapely") is None:
        return bare
    walls: list[list[Box | None]] = [[] for _ in boxes]
    num_open = 0
    for wall, entry in zip(edges, nodes, strict=True):
        node = entry[0] if isinstance(entry, list) and entry else None
        if type(node) is int and 0 <= node < len(boxes):
            walls[node].append(_ends_of_wall(data, wall))
        else:
            num_open += 1
    shapes = [_enclosed_polygon(sides, box) for sides, box in zip(walls, boxes, strict=True)]
    num_open += sum(len(walls[k]) for k, shape in enumerate(shapes) if shape is None)
    kind = "room whose walls close no outline inside its box"
    notes = tuple(
        Note(kind, f"room_type[{k}], of {len(walls[k])} edges")
        for k, door in enumerate(is_door)
        if walls[k] and shapes[k] is None and not door
    )
    return Outlines(boxes, shapes, num_open, notes)


def _ends_of_wall(data: Mapping[str, Any], wall: object) -> Box | None:
    """Ends of a wall in pixels; None if they are invalid."""
    try:
        ends = wall[:4] if isinstance(wall, list) else ()
        x0, y0, x1, y1 = (finite_number(end, "edges") for end in ends)
    except ValueError:  # another number of ends, or ends that are not numbers
        return None
    side = read_frame(data, [(x0, y0, x1, y1)])[0]
    return side if max(map(abs, side)) < _FAR else None


def _enclosed_polygon(sides: Sequence[Box | None], box: Box) -> shapely.Geometry | None:
    """Polygon in metres enclosed by all sides of a node inside its box; None if there is none."""
    # each end has to be shared by two walls
    walls = [(side[:2], side[2:]) for side in sides if side and side[:2] != side[2:]]
    ends = Counter(end for wall in walls for end in wall)
    if None in sides or not ends or any(num % 2 for num in ends.values()):
        return None
    # all walls have to be on the border of one polygon
    lines = shapely.MultiLineString(walls)
    shape = _to_metres(shapely.build_area(lines))
    is_whole = abs(shape.length - lines.length * _METRES) <= TOLERANCE
    if shape.is_empty or not shape.is_valid or not is_whole:
        return None
    return shape if _to_metres(shapely.box(*box)).buffer(TOLERANCE / 2).covers(shape) else None


def _to_metres(shape: shapely.Geometry) -> shapely.Geometry:
    """Shape in metres."""
    return shapely.transform(shape, lambda corners: (corners * _METRES).round(_DIGITS) + 0.0)


_OWN_TYPES = CODE_TABLES["houseganpp"].rooms.values()
_NAMES = {room: room.replace("Room", "_room").lower() for room in _OWN_TYPES}
_TYPES = {name: room for room, name in _NAMES.items()}
_ALIKE = {
    room: tuple(k for k, name in enumerate(ROOM_TYPES) if nearest_type(name) == room)
    for room in _NAMES
}
"""Codes that a room type of the format stands for."""

FRONT, INTERIOR = "front_door", "interior_door"

_THIN = 0.001  # thickness in metres of a door in a wall of unknown thickness


def rlvr_of(plan: FloorPlan) -> str:
    """Write a plan as RLVR JSON: ``spaces`` of rooms, then of doors (see ``_box_of_door``), with
    the ``width`` and ``height`` of floors; ``input_graph``, the labels related to each room and to
    the front door; and the plan's own JSON under ``discrete_diffusion``."""
    names = [_NAMES[nearest_type(room)] for room in plan.diagram.room_names]
    names += [FRONT if door.is_front else INTERIOR for door in plan.doors]
    # a space is one ring, without holes; for a floor in parts the box around them
    floors = [drawn_floor(plan, k) for k in range(plan.diagram.num_rooms)]
    simple = [floor if floor.geom_type == "Polygon" else floor.envelope for floor in floors]
    shapes = [shapely.Polygon(floor.exterior) for floor in simple]
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
    named = zip(labels, names, strict=True)
    graph: dict[str, list[str]] = {label: [] for label, name in named if name != INTERIOR}
    for i, j in pairs:
        graph[labels[i]].append(labels[j])
        graph[labels[j]].append(labels[i])
    spaces = []
    for label, name, shape, area in zip(labels, names, shapes, areas, strict=True):
        x0, y0, x1, y1 = shape.bounds
        sides = {"area": round(area, 2), "width": x1 - x0, "height": y1 - y0}
        corners = [{"x": x, "y": y} for x, y in shape.exterior.coords[:-1]]
        spaces.append({"id": label, "room_type": name, **sides, "floor_polygon": corners})
    data = {
        "room_count": plan.diagram.num_rooms,
        "total_area": round(sum(plan.areas), 2),
        "spaces": spaces,
        "input_graph": graph,
        EMBEDDED: embedded_json(plan),
    }
    return json.dumps(data) + "\n"


def _box_of_door(door: Door, floor: shapely.Geometry) -> shapely.Geometry:
    """Box of a door. In a wall of no thickness it is a millimetre thick, on the side of its first
    room, as the format's own reader ignores a door over both."""
    opening = shapely.box(*door.box(_THIN))
    if door.thickness:
        return opening
    # shifted by half its thickness to the side with more of the first room
    x, y = (0.0, _THIN / 2) if door.start[1] == door.end[1] else (_THIN / 2, 0.0)
    moved = [affinity.translate(opening, *shift) for shift in ((x, y), (-x, -y))]
    return max([opening, *moved], key=lambda each: round(each.intersection(floor).area, 9))


def read_rlvr(data: Mapping[str, Any]) -> Drawing:
    """Read what ``rlvr_of`` writes, or another plan in this format, or raise ``DiagramError``.
    Relations are measured, as ``input_graph`` has no directions; a door leads to near rooms."""
    drawn_plan.check_installed()
    names: list[str | None] = []
    floors: list[shapely.Geometry] = []
    doors: list[DrawnDoor] = []
    for k, space in enumerate(fields.required_list(data, "spaces")):
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
            bare = fields.strip_number(name)
            words = [bare] if fields.is_numbered_bedroom(name) else [name, bare]
            types = [fields.room_type_of(word, ROOM_TYPES) for word in words]
            name = _NAMES.get(nearest_type(next(filter(None, types), "")))
        if name is None or name not in _TYPES:
            expected = f"expected one of {', '.join([*_TYPES, FRONT, INTERIOR])}"
            raise DiagramError(f"{where}.room_type", f"{expected}, got {reprlib.repr(given)}")
        names.append(_TYPES[name])
        floors.append(floor)
    if not floors:
        raise DiagramError("spaces", "a diagram needs at least one room")
    # room types, with the others that a name may stand for
    types = with_master_bedroom(names, [floor.area for floor in floors])
    rooms = [
        DrawnRoom(fields.room_code(room), floor, k, _ALIKE[str(name)])
        for k, (room, floor, name) in enumerate(zip(types, floors, names, strict=True))
    ]
    embedded = data.get(EMBEDDED)
    drawing = Drawing(tuple(rooms), tuple(doors), embedded=embedded, draws_boundary=False)
    return drawn_plan.scale_to_metres(drawing, data)


def _polygon_of_corners(corners: object, where: str) -> shapely.Geometry:
    """Polygon of a list of corners. Raises ``DiagramError`` unless it is valid."""
    if isinstance(corners, list) and all(isinstance(corner, Mapping) for corner in corners):
        ring = [tuple(finite_number(corner.get(key), where) for key in "xy") for corner in corners]
        if len(ring) >= 3 and shapely.Polygon(ring).is_valid:
            return shapely.Polygon(ring)
    expected = 'expected the corners [{"x": .., "y": ..}, ...] of a polygon in metres that does not'
    raise DiagramError(where, f"{expected} cross itself, got {reprlib.repr(corners)}")
