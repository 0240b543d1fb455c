"""The floors of House-GAN++ rooms: what the walls that a file lists around each of them enclose."""

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
from floor_plans.drawings.drawn_plan import TURNED, left_of_boxes, note_of_fill
from floor_plans.drawings.houseganpp import read_frame
from floor_plans.plans.door import Box
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.floors import TOLERANCE, Unrotate, angle_of, drawn_floors, rings_of

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

OPEN = "room whose walls close no outline inside its box"
"""Note on rooms whose floor is then taken to be their box."""

_FAR = 1e9
"""Pixels beyond which no wall ends."""

_METRES = metres_per("pixels")
_DIGITS = 6
"""Decimals of a metre and of a pixel."""


@dataclass(frozen=True)
class Outlines:
    """Outlines that the walls of a plan enclose.

    ``boxes``: of all nodes, in pixels; those around the outlines where the plan was turned back.
    ``shapes``: of all nodes, in metres; None where the walls of one close no outline inside its
    box. ``num_open``: the walls of these. ``notes``: what is odd.
    """

    boxes: Sequence[Box]
    shapes: Sequence[BaseGeometry | None]
    num_open: int = 0
    notes: tuple[Note, ...] = ()

    def areas(self) -> list[float]:
        """Areas of all nodes, in square metres: of the outline, or of the box where there is
        none."""
        boxes = boxes_in_metres(self.boxes, "pixels")
        return [
            round((x1 - x0) * (y1 - y0) if shape is None else shape.area, _DIGITS)
            for shape, (x0, y0, x1, y1) in zip(self.shapes, boxes, strict=True)
        ]

    def floors(self, rooms: Mapping[int, int]) -> tuple[Any, tuple[Note, ...]]:
        """The key "floors" of a plan, None if the boxes of its rooms say them; and what is odd.

        ``rooms``: the nodes that are rooms, in order, with their types.
        """
        drawn = [self.shapes[k] for k in rooms]
        if not any(drawn):
            return None, self.notes
        boxes = boxes_in_metres([self.boxes[k] for k in rooms], "pixels")
        plan = FloorPlan(BubbleDiagram(tuple(rooms.values()), (), boxes))
        kept = drawn_floors(drawn, plan.boxes, left_of_boxes(plan))
        notes = [
            note
            for k, floor in enumerate(kept)
            if floor is not None
            for note in note_of_fill(k, plan.diagram.rooms[k], floor.area / plan.boxes[k].area)
        ]
        floors = [None if floor is None else rings_of(floor) for floor in kept]
        return floors or None, (*self.notes, *notes)


def read_outlines(
    data: Mapping[str, Any], boxes: Sequence[Box], is_door: Sequence[bool]
) -> Outlines:
    """Outlines of a House-GAN++ plan; ``boxes``: of its nodes, see ``read_frame``.

    A plan that is turned as a whole is turned back. Without shapely, and where ``edges`` and
    ``ed_rm`` are not one per wall, no node has an outline, and nothing is noted.
    """
    nodes = data["ed_rm"]
    edges = data.get("edges", nodes)
    bare = Outlines(boxes, (None,) * len(boxes), len(edges) if isinstance(edges, list) else 1)
    paired = isinstance(edges, list) and isinstance(nodes, list) and len(edges) == len(nodes)
    if not paired or "edges" not in data or "floors" in data or find_spec("shapely") is None:
        return bare
    walls: list[list[Box | None]] = [[] for _ in boxes]
    num_open = 0
    for wall, beside in zip(edges, nodes, strict=True):
        node = beside[0] if isinstance(beside, list) and beside else None
        if type(node) is int and 0 <= node < len(boxes):
            walls[node].append(_side(data, wall))
        else:
            num_open += 1
    shapes = [_outline(sides, box) for sides, box in zip(walls, boxes, strict=True)]
    num_open += sum(len(walls[k]) for k, shape in enumerate(shapes) if shape is None)
    rooms = [k for k, door in enumerate(is_door) if not door]
    notes = tuple(
        Note(OPEN, f"room_type[{k}], of {len(walls[k])} edges")
        for k in rooms
        if walls[k] and shapes[k] is None
    )
    found = Outlines(boxes, shapes, num_open, notes)
    return _turned_back(found, rooms) if any(map(_is_slanted, walls)) else found


def _turned_back(found: Outlines, rooms: Sequence[int]) -> Outlines:
    """The same, with walls along the axes if all its rooms have an outline and are turned."""
    floors = [shape for k in rooms if (shape := found.shapes[k]) is not None]
    if not rooms or len(floors) < len(rooms) or not (angle := angle_of(floors)):
        return found
    turn = Unrotate(floors, angle)
    shapes = [
        turn(_rectangle(box) if shape is None else shape)
        for shape, box in zip(found.shapes, found.boxes, strict=True)
    ]
    note = Note(TURNED, f"by {abs(angle):.1f} degrees")
    boxes = [_pixels(shape.bounds) for shape in shapes]
    return replace(found, boxes=boxes, shapes=shapes, notes=(note, *found.notes))


def _side(data: Mapping[str, Any], wall: object) -> Box | None:
    """Ends of a wall, in pixels; None if it has none."""
    try:
        x0, y0, x1, y1 = (
            finite_number(end, "edges") for end in (wall[:4] if isinstance(wall, list) else ())
        )
    except (DiagramError, ValueError):
        return None
    side = read_frame(data, [(x0, y0, x1, y1)])[0]
    return side if max(map(abs, side)) < _FAR else None


def _is_slanted(sides: Sequence[Box | None]) -> bool:
    return any(side and side[0] != side[2] and side[1] != side[3] for side in sides)


def _outline(sides: Sequence[Box | None], box: Box) -> BaseGeometry | None:
    """Outline that sides enclose, in metres; None unless they close, all of them, and inside the
    box."""
    import shapely

    walls = [(side[:2], side[2:]) for side in sides if side and side[:2] != side[2:]]
    ends = Counter(end for wall in walls for end in wall)
    if None in sides or not ends or any(num % 2 for num in ends.values()):
        return None
    lines = shapely.MultiLineString(walls)
    shape = _in_metres(shapely.build_area(lines))
    is_whole = abs(shape.length - lines.length * _METRES) <= TOLERANCE
    if shape.is_empty or not shape.is_valid or not is_whole:
        return None
    return shape if _rectangle(box).buffer(TOLERANCE / 2).covers(shape) else None


def _rectangle(box: Box) -> BaseGeometry:
    import shapely

    return _in_metres(shapely.box(*box))


def _in_metres(shape: BaseGeometry) -> BaseGeometry:
    import shapely

    return shapely.transform(shape, lambda corners: (corners * _METRES).round(_DIGITS) + 0.0)


def _pixels(bounds: Sequence[float]) -> Box:
    x0, y0, x1, y1 = (round(side / _METRES, _DIGITS) for side in bounds)
    return x0, y0, x1, y1
