"""Floors of House-GAN++ rooms: the polygons enclosed by the walls listed around each room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError, finite_number
from floor_plans.diagrams.files.records import Note
from floor_plans.diagrams.geometry import boxes_in_metres, metres_per
from floor_plans.drawings.drawn_plan import TURNED, fill_notes, left_of_boxes
from floor_plans.drawings.houseganpp import read_frame
from floor_plans.plans.floor_plan import Box, FloorPlan
from floor_plans.plans.floors import TOLERANCE, Unrotate, angle_of, drawn_floors, rings_of

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

OPEN = "room whose walls close no outline inside its box"
"""Note on rooms whose floor is taken to be their box."""

_FAR = 1e9
"""Largest coordinate of a wall's end, pixels."""

_METRES = metres_per("pixels")
_DIGITS = 6
"""Decimals of a metre and of a pixel."""


@dataclass(frozen=True)
class Outlines:
    """Polygons enclosed by the walls of a plan.

    ``boxes``: of all nodes, in pixels; for a rotated plan those around the polygons, rotated back.
    ``shapes``: of all nodes, in metres; None if the walls of a node enclose no polygon inside its
    box. ``num_open``: number of walls of such nodes. ``notes``: oddities.
    """

    boxes: Sequence[Box]
    shapes: Sequence[BaseGeometry | None]
    num_open: int = 0
    notes: tuple[Note, ...] = ()

    def areas(self) -> list[float]:
        """Areas of all nodes in square metres: of the polygon, or else of the box."""
        boxes = boxes_in_metres(self.boxes, "pixels")
        return [
            round((x1 - x0) * (y1 - y0) if shape is None else shape.area, _DIGITS)
            for shape, (x0, y0, x1, y1) in zip(self.shapes, boxes, strict=True)
        ]

    def floors(self, rooms: Mapping[int, int]) -> tuple[Any, tuple[Note, ...]]:
        """Value of the key "floors" of a plan, or None if the boxes of its rooms imply the floors,
        with notes.

        ``rooms``: the nodes that are rooms, in order, with their types.
        """
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
    """Read the polygons of a House-GAN++ plan. ``boxes``: of its nodes, see ``read_frame``.

    A plan rotated as a whole is rotated back. Without shapely, or if ``edges`` and ``ed_rm`` do not
    match, nodes have neither polygons nor notes.
    """
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
            walls[node].append(_side(data, wall))
        else:
            num_open += 1
    # polygons, and notes on nodes without one
    shapes = [_outline(sides, box) for sides, box in zip(walls, boxes, strict=True)]
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
    return _turned_back(found, rooms) if is_slanted else found


def _turned_back(found: Outlines, rooms: Sequence[int]) -> Outlines:
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
    boxes = [_pixels(shape.bounds) for shape in shapes]
    return replace(found, boxes=boxes, shapes=shapes, notes=(note, *found.notes))


def _side(data: Mapping[str, Any], wall: object) -> Box | None:
    """Ends of a wall in pixels; None if they are invalid."""
    try:
        x0, y0, x1, y1 = (
            finite_number(end, "edges") for end in (wall[:4] if isinstance(wall, list) else ())
        )
    except (DiagramError, ValueError):
        return None
    side = read_frame(data, [(x0, y0, x1, y1)])[0]
    return side if max(map(abs, side)) < _FAR else None


def _outline(sides: Sequence[Box | None], box: Box) -> BaseGeometry | None:
    """Polygon that all the sides of a node enclose inside its box, in metres; None if they do not
    close."""
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


def _pixels(bounds: Sequence[float]) -> Box:
    """Bounds in pixels."""
    x0, y0, x1, y1 = (round(side / _METRES, _DIGITS) for side in bounds)
    return x0, y0, x1, y1
