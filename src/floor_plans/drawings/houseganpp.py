"""House-GAN++ JSON: rooms and doors as nodes, with boxes and walls in pixels of 256 x 256.

``plan_files`` reads it. The format has nine types of rooms and no relations.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.code_tables import BEDROOM, CODE_TABLES
from floor_plans.diagrams.files.fields import DiagramError, finite_number
from floor_plans.diagrams.files.records import Note
from floor_plans.diagrams.geometry import DEFAULT_THRESHOLD, boxes_in_metres, metres_per
from floor_plans.drawings.drawn_parts import Unrotate, angle_of, drawn_floors
from floor_plans.drawings.drawn_plan import TURNED, drawn_floor, fill_notes, left_of_boxes
from floor_plans.plans.floor_plan import FRONT_DOOR, TOLERANCE, Box, FloorPlan, rings_of

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

FRAME = "frame"  # key for the frame of a plan that does not lie on 256 x 256 pixels of 18 m

_PIXELS = 256
_METRES = metres_per("pixels")
_WRITTEN_DIGITS, _READ_DIGITS = 9, 6  # decimals of a pixel
_DOOR_THICKNESS = 4  # pixels of the wall around a door whose thickness is unknown
_MOST_WALL = DEFAULT_THRESHOLD  # largest thickness of a wall between two rooms, pixels

_BEDROOMS = ("MasterRoom", "ChildRoom", "SecondRoom", "GuestRoom")
_NEAREST = {**dict.fromkeys(_BEDROOMS, BEDROOM), "Wall-in": "Storage"}
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

    def pixels(self, box: Sequence[float]) -> Box:
        """Box in pixels."""
        x0, y0, x1, y1 = (
            round((side - corner) / self.metres, _WRITTEN_DIGITS) + 0.0
            for side, corner in zip(box, (self.left, self.top) * 2, strict=True)
        )
        return x0, y0, x1, y1


def _frame_around(boxes: Sequence[Box]) -> _Frame:
    """Frame of RPLAN if the plan fits it; otherwise a frame centred on it, enlarged if needed."""
    low = [min(box[a] for box in boxes) for a in (0, 1)]
    high = [max(box[a + 2] for box in boxes) for a in (0, 1)]
    if min(low) >= 0 and max(high) <= _PIXELS * _METRES:
        return _Frame()
    # centred on the plan, and scaled down if it is larger
    size = max(last - first for first, last in zip(low, high, strict=True))
    metres = max(_METRES, size / _PIXELS)
    left, top = (
        (first + last - _PIXELS * metres) / 2 for first, last in zip(low, high, strict=True)
    )
    return _Frame(metres, left, top)


def read_frame(data: Mapping[str, Any], boxes: Sequence[Box]) -> list[Box]:
    """Convert boxes to pixels of 18 m / 256, if the key ``frame`` states a shift or scale. Raises
    ``DiagramError``."""
    if FRAME not in data:
        return list(boxes)
    # scale and origin of the pixels
    given = data[FRAME]
    keys = ("metres_per_pixel", "left", "top")
    if not isinstance(given, Mapping) or any(key not in given for key in keys):
        raise DiagramError(FRAME, f"expected an object with {', '.join(keys)}")
    metres, left, top = (finite_number(given[key], f"{FRAME}.{key}") for key in keys)
    if metres <= 0:
        raise DiagramError(f"{FRAME}.metres_per_pixel", f"{metres}: expected more than 0")

    def moved(box: Box) -> Box:
        x0, y0, x1, y1 = (
            round((side * metres + corner) / _METRES, _READ_DIGITS)
            for side, corner in zip(box, (left, top) * 2, strict=True)
        )
        return x0, y0, x1, y1

    return [moved(box) for box in boxes]


def houseganpp_of(plan: FloorPlan) -> str:
    """Write a plan as House-GAN++ JSON: ``room_type`` and ``boxes`` of rooms, then of doors;
    ``edges``; ``ed_rm``.

    ``edges`` are the walls around each node, with the types of the node and of the room behind it,
    or 0; ``ed_rm`` are their numbers. The room behind a wall faces most of it, at most 9 pixels
    away; rooms of a door are behind its long sides. A plan that does not fit 256 x 256 pixels of 18
    m is shifted and scaled, as ``frame`` states.
    """
    import shapely

    assert plan.diagram.boxes is not None
    # rooms, then doors, as nodes
    doors = [door.box(_DOOR_THICKNESS * _METRES) for door in plan.doors]
    boxes = [*plan.diagram.boxes, *doors]
    frame = _frame_around(boxes)
    kinds = ["front-door" if door.is_front else "interior-door" for door in plan.doors]
    codes = [_CODES[nearest_type(name)] for name in (*plan.diagram.room_names, *kinds)]
    # walls around them
    floors = [_to_pixels(drawn_floor(plan, k), frame) for k in range(plan.diagram.num_rooms)]
    openings = [_to_pixels(shapely.box(*box), frame) for box in doors]
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
    # nodes, edges, and the frame if it is not the usual one
    data: dict[str, Any] = {
        "room_type": codes,
        "boxes": [list(frame.pixels(box)) for box in boxes],
        "edges": [
            [*side, codes[node], 0 if behind is None else codes[behind]]
            for side, node, behind in walls
        ],
        "ed_rm": [[node] if behind is None else [node, behind] for _, node, behind in walls],
    }
    if frame != _Frame():
        data[FRAME] = {"metres_per_pixel": frame.metres, "left": frame.left, "top": frame.top}
    return json.dumps(data) + "\n"


def _to_pixels(shape: BaseGeometry, frame: _Frame) -> BaseGeometry:
    """Shape in pixels of a frame."""
    import shapely

    def pixels(corners: Any) -> Any:
        moved = (corners - (frame.left, frame.top)) / frame.metres
        return moved.round(_WRITTEN_DIGITS) + 0.0

    return shapely.transform(shape, pixels)


def _sides(shape: BaseGeometry) -> Iterator[tuple[Box, BaseGeometry]]:
    """Yield the walls around a shape, from its upper left corner downwards. Each comes with the
    rectangle behind it, on the outside of the shape."""
    import shapely
    from shapely.geometry.polygon import orient

    for part in shapely.get_parts(shape):
        part = orient(part, sign=-1)
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
    opening: BaseGeometry, rooms: Sequence[BaseGeometry | None]
) -> tuple[int | None, ...]:
    """Index of the room behind each of a door's four sides; None for the short sides."""
    behind = [rectangle for _, rectangle in _sides(opening)]
    # the long sides, by their number
    x0, y0, x1, y1 = opening.bounds
    long = (1, 3) if x1 - x0 >= y1 - y0 else (0, 2)

    def lean(room: BaseGeometry | None) -> float:
        """Area of the room behind the first long side, less that behind the second."""
        if room is None:
            return 0.0
        first, second = (behind[side].intersection(room).area for side in long)
        return float(first - second)

    # the room that lies more behind the first of them
    ahead = 0 if lean(rooms[0]) >= lean(rooms[1]) else 1
    found: list[int | None] = [None] * 4
    for side, which in zip(long, (ahead, 1 - ahead), strict=True):
        found[side] = None if rooms[which] is None else which
    return tuple(found)


OPEN = "room whose walls close no outline inside its box"
"""Note on rooms whose floor is taken to be their box."""

_FAR = 1e9  # largest coordinate of a wall's end, pixels
_DIGITS = 6  # decimals of a metre and of a pixel


@dataclass(frozen=True)
class Outlines:
    """Polygons enclosed by the walls of a plan.

    ``boxes``: boxes of all nodes in pixels, rotated back. ``shapes``: polygons in metres; None if
    the walls of a node enclose none inside its box. ``num_open``: number of walls of such nodes.
    ``notes``: oddities.
    """

    boxes: Sequence[Box]
    shapes: Sequence[BaseGeometry | None]
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
        kept = drawn_floors(drawn, plan.boxes, left_of_boxes(plan))
        notes = [
            note
            for k, floor in enumerate(kept)
            if floor is not None
            for note in fill_notes(k, plan.diagram.rooms[k], floor.area / plan.boxes[k].area)
        ]
        floors = [None if floor is None else rings_of(floor) for floor in kept]
        return floors or None, (*self.notes, *notes)


def read_outlines(
    data: Mapping[str, Any], boxes: Sequence[Box], is_door: Sequence[bool]
) -> Outlines:
    """Read the polygons of a House-GAN++ plan with these boxes, rotated back if need be. Without
    shapely, or if ``edges`` and ``ed_rm`` do not match, there are none."""
    nodes = data["ed_rm"]
    edges = data.get("edges", nodes)
    bare = Outlines(boxes, (None,) * len(boxes), len(edges) if isinstance(edges, list) else 1)
    paired = isinstance(edges, list) and isinstance(nodes, list) and len(edges) == len(nodes)
    if not paired or "edges" not in data or "floors" in data or find_spec("shapely") is None:
        return bare
    # walls of each node
    walls: list[list[Box | None]] = [[] for _ in boxes]
    num_open = 0
    for wall, entry in zip(edges, nodes, strict=True):
        node = entry[0] if isinstance(entry, list) and entry else None
        if type(node) is int and 0 <= node < len(boxes):
            walls[node].append(_ends_of_wall(data, wall))
        else:
            num_open += 1
    # polygons, and notes on nodes without one
    shapes = [_enclosed_polygon(sides, box) for sides, box in zip(walls, boxes, strict=True)]
    num_open += sum(len(walls[k]) for k, shape in enumerate(shapes) if shape is None)
    rooms = [k for k, door in enumerate(is_door) if not door]
    notes = tuple(
        Note(OPEN, f"room_type[{k}], of {len(walls[k])} edges")
        for k in rooms
        if walls[k] and shapes[k] is None
    )
    found = Outlines(boxes, shapes, num_open, notes)
    is_slanted = any(
        side and side[0] != side[2] and side[1] != side[3] for sides in walls for side in sides
    )
    return _rotated_back(found, rooms) if is_slanted else found


def _rotated_back(found: Outlines, rooms: Sequence[int]) -> Outlines:
    """Rotate a plan back if all its rooms have a polygon and are rotated by the same angle."""
    floors = [shape for k in rooms if (shape := found.shapes[k]) is not None]
    if not rooms or len(floors) < len(rooms) or not (angle := angle_of(floors)):
        return found
    # rotate outlines, and boxes of nodes without one
    turn = Unrotate(floors, angle)
    shapes = [
        turn(_rectangle(box) if shape is None else shape)
        for shape, box in zip(found.shapes, found.boxes, strict=True)
    ]
    note = Note(TURNED, f"by {abs(angle):.1f} degrees")
    boxes = []
    for shape in shapes:
        x0, y0, x1, y1 = (round(side / _METRES, _DIGITS) for side in shape.bounds)
        boxes.append((x0, y0, x1, y1))
    return replace(found, boxes=boxes, shapes=shapes, notes=(note, *found.notes))


def _ends_of_wall(data: Mapping[str, Any], wall: object) -> Box | None:
    """Ends of a wall in pixels; None if they are invalid."""
    try:
        x0, y0, x1, y1 = (
            finite_number(end, "edges") for end in (wall[:4] if isinstance(wall, list) else ())
        )
    except (DiagramError, ValueError):
        return None
    side = read_frame(data, [(x0, y0, x1, y1)])[0]
    return side if max(map(abs, side)) < _FAR else None


def _enclosed_polygon(sides: Sequence[Box | None], box: Box) -> BaseGeometry | None:
    """Polygon in metres enclosed by all sides of a node inside its box; None if there is none."""
    import shapely

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
    return shape if _rectangle(box).buffer(TOLERANCE / 2).covers(shape) else None


def _rectangle(box: Box) -> BaseGeometry:
    """Box as a polygon in metres."""
    import shapely

    return _to_metres(shapely.box(*box))


def _to_metres(shape: BaseGeometry) -> BaseGeometry:
    """Shape in metres."""
    import shapely

    return shapely.transform(shape, lambda corners: (corners * _METRES).round(_DIGITS) + 0.0)
