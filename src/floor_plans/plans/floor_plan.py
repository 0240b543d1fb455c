"""``FloorPlan`` and ``Door``: the rooms of a diagram as polygons in metres, with doors and an
outline."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from floor_plans.diagrams import geometry
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import (
    DiagramError,
    checked_box,
    checked_integer,
    finite_number,
)
from floor_plans.diagrams.vocabulary import INSIDE, INVERSE, NO_EDGE, SURROUNDING
from floor_plans.plans.libraries import shapely

Point = tuple[float, float]  # x, y in metres, y downwards

Box = tuple[float, float, float, float]

FRONT_DOOR = -1  # number that stands for the outside among the rooms of a door
_OUTSIDE = "outside"  # name of ``FRONT_DOOR`` in JSON
TOLERANCE = 1e-3  # metres by which a shape that is read may differ from the one that was written

_AROUND = 0.1
"""Metres around a door within which the areas of rooms are compared to find the rooms it joins."""


@dataclass(frozen=True)
class Door:
    """Opening in the wall between two rooms, or a front door, from ``start`` to ``end``.

    ``rooms``: numbers of the rooms, the smaller first; (room, ``FRONT_DOOR``) leads outside.
    ``thickness``: thickness of its wall; 0 if boxes of rooms end in the middle of walls.
    ``is_open``: two rooms that are open to each other, without a wall or a leaf from end to end.
    """

    rooms: tuple[int, int]
    start: Point
    end: Point
    thickness: float = 0.0
    is_open: bool = False

    @property
    def is_front(self) -> bool:
        return self.rooms[1] == FRONT_DOOR

    @property
    def ends(self) -> tuple[float, ...]:
        return (*self.start, *self.end)

    @property
    def middle(self) -> Point:
        (x0, y0), (x1, y1) = self.start, self.end
        return (x0 + x1) / 2, (y0 + y1) / 2

    def box(self, thickness: float) -> Box:
        """Box (x0, y0, x1, y1) of the opening. ``thickness``: default thickness of its wall."""
        (x0, x1), (y0, y1) = (sorted(pair) for pair in zip(self.start, self.end, strict=True))
        half = (self.thickness or thickness) / 2
        if x1 - x0 >= y1 - y0:
            return x0, y0 - half, x1, y1 + half
        return x0 - half, y0, x1 + half, y1

    @classmethod
    def from_box(cls, rooms: tuple[int, int], box: Box) -> Door:
        """Inverse of ``box``: the door is as wide as the longer side."""
        x0, y0, x1, y1 = box
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        if x1 - x0 >= y1 - y0:
            return cls(rooms, (x0, y), (x1, y), y1 - y0)
        return cls(rooms, (x, y0), (x, y1), x1 - x0)

    def to_json(self) -> dict[str, Any]:
        ends = {"from": list(self.start), "to": list(self.end)}
        thickness = {"thickness": self.thickness} if self.thickness else {}
        is_open = {"open": True} if self.is_open else {}
        return {"rooms": rooms_to_json(self.rooms), **ends, **thickness, **is_open}

    @classmethod
    def from_json(cls, data: Any, num_rooms: int) -> Door:
        """Read a door. Raises ``DiagramError`` naming what is wrong."""
        is_object = isinstance(data, Mapping)
        ends: list[Any] = [data.get(key) if is_object else None for key in ("from", "to")]
        if not all(isinstance(end, list | tuple) and len(end) == 2 for end in ends):
            expected = '{"rooms": [i, j or "outside"], "from": [x, y], "to": [x, y]}'
            raise DiagramError("doors", f"expected {expected}, got {reprlib.repr(data)}")
        start, end = ((finite_number(x, "doors"), finite_number(y, "doors")) for x, y in ends)
        thickness = finite_number(data.get("thickness", 0.0), "doors")
        if not isinstance(is_open := data.get("open", False), bool):
            raise DiagramError("doors", f"open: {is_open!r:.40}: expected true or false")
        return cls(rooms_from_json(data.get("rooms"), num_rooms), start, end, thickness, is_open)


def read_door(data: object, floors: Sequence[shapely.Geometry], unit: str) -> Door:
    """Read what ``Door.to_json`` writes, in metres, or {"type": "front-door" or "interior-door",
    "box": [x0, y0, x1, y1], "rooms": [i, j]} in ``unit``; without "rooms" the door joins the
    nearest ones."""
    if not isinstance(data, Mapping) or "box" not in data:
        return Door.from_json(data, len(floors))
    (box,) = geometry.boxes_in_metres([checked_box(data["box"], "doors")], unit)
    if "rooms" in data:
        return Door.from_box(rooms_from_json(data["rooms"], len(floors)), box)
    is_front = data.get("type") == "front-door"
    return Door.from_box(adjacent_rooms(box, floors, is_front=is_front), box)


def adjacent_rooms(
    box: Box, floors: Sequence[shapely.Geometry], *, is_front: bool = False
) -> tuple[int, int]:
    """Rooms that a door joins: the two nearest, or the nearest and the outside. Rooms at the same
    distance, to a centimetre, are ranked by their area around the door."""
    opening = shapely.box(*box)
    around = opening.buffer(_AROUND)
    distances = [round(opening.distance(floor), 2) for floor in floors]
    areas = [around.intersection(floor).area for floor in floors]
    nearest = sorted(range(len(floors)), key=lambda room: (distances[room], -areas[room]))
    if is_front or len(nearest) == 1:
        return nearest[0], FRONT_DOOR
    return ordered(nearest[0], nearest[1])


def ordered(first: int, second: int) -> tuple[int, int]:
    """Order the rooms of a door: the smaller first, ``FRONT_DOOR`` last."""
    in_order = second == FRONT_DOOR or FRONT_DOOR < first < second
    return (first, second) if in_order else (second, first)


def rooms_to_json(rooms: tuple[int, int]) -> list[int | str]:
    """Return [i, j], or [i, "outside"]."""
    return [rooms[0], _OUTSIDE if rooms[1] == FRONT_DOOR else rooms[1]]


def rooms_from_json(value: object, num_rooms: float) -> tuple[int, int]:
    """Inverse of ``rooms_to_json``, for rooms in any order. Raises ``DiagramError`` for other
    values."""
    given = list(value) if isinstance(value, list | tuple) and len(value) == 2 else []
    numbers = [
        FRONT_DOOR if room == _OUTSIDE else checked_integer(room, "doors", "a room number")
        for room in given
    ]
    known = all(room == FRONT_DOOR or 0 <= room < num_rooms for room in numbers)
    if not known or len(set(numbers)) != 2:
        expected = f'expected the rooms [i, j or "outside"] of a plan with {num_rooms} rooms'
        raise DiagramError("doors", f"{expected}, got {reprlib.repr(value)}")
    return ordered(*numbers)


if TYPE_CHECKING:
    from functools import cached_property as computed_once
else:

    class computed_once:
        """``functools.cached_property`` of Python 3.12, which has no lock. Before 3.12 all objects
        of a class share a lock. Threads then wait for each other, and for ever if a Ctrl-C arrives
        just after the main thread took the lock."""

        def __init__(self, compute):
            self._compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, instance, owner):
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._compute(instance)
            return value


PLAN_KEYS = ("unit", "boundary", "doors", "areas", "floors")
"""Keys of a plan's JSON in addition to those of its diagram."""


@dataclass(frozen=True)
class FloorPlan:
    """Floor plan with dimensions.

    ``diagram``: its ``boxes`` are in metres, y downwards; a box ends in the middle of a wall.
    ``boundary``: corners of the outline, in order; None: the outline is that of the rooms.
    ``doors``: doors between rooms, and the front door. ``floors``: drawn polygon or polygons of
    each room, None for a room that fills its box; empty if all rooms fill their boxes.

    Needs shapely, of the extra ``plans``. Raises ``ValueError`` for a diagram without boxes.
    """

    diagram: BubbleDiagram
    doors: tuple[Door, ...] = ()
    boundary: tuple[Point, ...] | None = None
    floors: tuple[shapely.Geometry | None, ...] = ()

    def __post_init__(self) -> None:
        if self.diagram.boxes is None:
            raise ValueError(
                "a floor plan needs a box for every room, and this diagram has none; "
                "Diagrams.realise() finds some"
            )

    @classmethod
    def of(cls, diagram: BubbleDiagram, unit: str = "metres") -> FloorPlan:
        """Return the plan of a diagram, whose metadata hold doors and outline, see ``to_json`` and
        ``read_door``. ``unit``: unit of boxes that state none. Raises ``DiagramError`` naming the
        wrong key."""
        # keys of a plan leave the metadata
        metadata = dict(diagram.metadata)
        unit = metadata.pop("unit", unit)
        boundary, doors = metadata.pop("boundary", None), metadata.pop("doors", [])
        floors = metadata.pop("floors", None)
        metadata.pop("areas", None)
        if metadata.get("north") is not None:
            finite_number(metadata["north"], "north")
        if unit not in geometry.UNITS:
            known = ", ".join(geometry.UNITS)
            raise DiagramError("unit", f"{reprlib.repr(unit)}: expected {known}")
        if not isinstance(doors, list | tuple):
            raise DiagramError("doors", f"expected a list of doors, got {reprlib.repr(doors)}")
        # the plan without doors, whose floors the doors are read against
        boxes = None if diagram.boxes is None else geometry.boxes_in_metres(diagram.boxes, unit)
        bare = cls(BubbleDiagram(diagram.rooms, diagram.relations, boxes, metadata))
        return replace(
            bare,
            doors=tuple(read_door(door, bare.rooms, unit) for door in doors),
            boundary=None if boundary is None else validate_boundary(boundary),
            floors=() if floors is None else read_floors(floors, bare.boxes),
        )

    @computed_once
    def boxes(self) -> tuple[shapely.Polygon, ...]:
        """Boxes of the rooms, as polygons."""
        assert self.diagram.boxes is not None  # checked by the constructor
        return tuple(shapely.box(*each) for each in self.diagram.boxes)

    @property
    def shapes(self) -> list[shapely.Geometry]:
        """Polygon of every room as it was drawn, or its box."""
        drawn = self.floors or (None,) * len(self.boxes)
        return [b if f is None else f for b, f in zip(self.boxes, drawn, strict=True)]

    @computed_once
    def rooms(self) -> tuple[shapely.Geometry, ...]:
        """Floor of every room: its polygon, or its box without the smaller rooms in it. A living
        room with a kitchen in the corner of its box is L-shaped."""
        shapes = self.shapes
        ranked = sorted(range(len(shapes)), key=lambda room: (shapes[room].area, room))
        return tuple(
            shape.difference(shapely.union_all([shapes[j] for j in ranked[: ranked.index(i)]]))
            for i, shape in enumerate(shapes)
        )

    @property
    def north(self) -> float | None:
        """Degrees clockwise from up to north, if the metadata of the diagram state them."""
        north = self.diagram.metadata.get("north")
        return None if north is None else finite_number(north, "north")

    @computed_once
    def outline(self) -> shapely.Polygon:
        """Polygon that the plan is built on: ``boundary``, or the box around all rooms."""
        if self.boundary is not None:
            return shapely.Polygon(self.boundary)
        return shapely.box(*shapely.union_all(self.boxes).bounds)

    @property
    def areas(self) -> tuple[float, ...]:
        """Areas of the rooms' floors, in square metres."""
        return tuple(room.area for room in self.rooms)

    def area_errors(self, targets: Sequence[float]) -> tuple[float, ...]:
        """Deviations of the floor areas from ``targets`` (square metres), as shares of the targets.
        Added rooms, which come last, have no target."""
        own = self.areas[: len(targets)]
        return tuple(abs(a - t) / t for a, t in zip(own, targets, strict=True))

    def largest_area_error(self, targets: Sequence[float]) -> float:
        """Largest of the ``area_errors``."""
        return max(self.area_errors(targets))

    @property
    def dead_area(self) -> float:
        """Square metres inside the outline that belong to no room."""
        return float(self.outline.difference(shapely.union_all(self.rooms)).area)

    @property
    def overlap(self) -> float:
        """Square metres shared by two boxes, neither of which lies within the other."""
        pairs = [(a, b) for a, b in combinations(self.boxes, 2) if not (a.covers(b) or b.covers(a))]
        return float(sum(a.intersection(b).area for a, b in pairs))

    @property
    def honours_diagram(self) -> bool:
        """True if the boxes have exactly the diagram's relations. Each pair is read in one of its
        two directions, and an inner room must lie within its outer one."""
        return next(self.misread_pairs(), None) is None

    def misread_pairs(self) -> Iterator[tuple[int, int]]:
        """Pairs i < j of rooms whose boxes do not have the diagram's relation."""
        boxes, gap = np.array(self.diagram.boxes), geometry.threshold_of("metres", None)
        # codes of (i, j), and of (j, i) by reversing the order of rooms
        forwards = geometry.relations_from_boxes(boxes, gap)
        backwards = geometry.relations_from_boxes(boxes[::-1], gap)[::-1, ::-1]
        codes = {(i, j): code for i, j, code in self.diagram.relations}
        for i, j in combinations(range(self.diagram.num_rooms), 2):
            code, reverse = codes.get((i, j), NO_EDGE), int(backwards[j, i])
            # an inner room must lie within its outer one
            inner, outer = (self.boxes[k] for k in ((i, j) if code == INSIDE else (j, i)))
            is_outside = code in (INSIDE, SURROUNDING) and not outer.covers(inner)
            if is_outside or code not in (forwards[i, j], INVERSE[reverse]):
                yield i, j

    def relabelled(self, order: Sequence[int]) -> FloorPlan:
        """Return the plan with its rooms renumbered, see ``BubbleDiagram.relabelled``."""
        # new number of each old room, and of the outside
        new = {FRONT_DOOR: FRONT_DOOR} | {old: k for k, old in enumerate(order)}
        rooms = [ordered(*(new[room] for room in door.rooms)) for door in self.doors]
        return replace(
            self,
            diagram=self.diagram.relabelled(order),
            doors=tuple(replace(d, rooms=each) for d, each in zip(self.doors, rooms, strict=True)),
            floors=tuple(self.floors[old] for old in order) if self.floors else (),
        )

    def to_diagram(self) -> BubbleDiagram:
        """Return the diagram that ``of`` reads as this plan. The keys of its metadata are "unit",
        "areas" (square metres), "doors", "boundary" and "floors" (see ``rings_of``)."""
        metadata = dict(self.diagram.metadata) | {
            "unit": "metres",
            "areas": [round(area, 2) for area in self.areas],
            "doors": [door.to_json() for door in self.doors],
        }
        if self.boundary is not None:
            metadata["boundary"] = [list(corner) for corner in self.boundary]
        if self.floors:
            metadata["floors"] = [None if f is None else rings_of(f) for f in self.floors]
        return replace(self.diagram, metadata=metadata)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of ``to_diagram``."""
        return self.to_diagram().to_json()


def validate_boundary(corners: Any) -> tuple[Point, ...]:
    """Return the corners. Raises ``DiagramError`` for fewer than three, or sides that cross."""
    try:
        points = tuple((float(x), float(y)) for x, y in corners)
        finite = all(map(math.isfinite, chain(*points)))
        sound = finite and len(points) >= 3 and shapely.Polygon(points).is_valid
    except (TypeError, ValueError):
        sound = False
    if not sound:
        expected = (
            "corners [[x, y], ...] of a polygon in metres, in order, whose sides do not cross"
        )
        raise DiagramError("boundary", f"expected the {expected}; got {reprlib.repr(corners)}")
    return points


def rings_of(floor: shapely.Geometry) -> list[Any]:
    """Return the ring of corners [x, y] of a floor, or a list of parts, each a list of such rings,
    the outer ring first."""
    parts = [
        [[[x, y] for x, y in ring.coords[:-1]] for ring in (part.exterior, *part.interiors)]
        for part in shapely.get_parts(floor)
    ]
    return parts if len(parts) != 1 or len(parts[0]) != 1 else parts[0][0]


def read_floors(
    floors: Any, boxes: Sequence[shapely.Geometry]
) -> tuple[shapely.Geometry | None, ...]:
    """Read what ``rings_of`` writes for each room, or null, in metres. Raises ``DiagramError`` for
    other values, and a floor outside its box."""
    if not isinstance(floors, list | tuple) or len(floors) != len(boxes):
        shown = reprlib.repr(floors)
        raise DiagramError("floors", f"expected parts or null of {len(boxes)} rooms, got {shown}")
    read: list[shapely.Geometry | None] = []
    for k, (parts, box) in enumerate(zip(floors, boxes, strict=True)):
        if parts is None:
            read.append(None)
            continue
        try:
            # a ring, or parts that are an outer ring and its holes
            parts = [[parts]] if isinstance(parts[0][0], int | float) else parts
            polygons = [shapely.Polygon(outer, holes) for outer, *holes in parts]
            floor = polygons[0] if len(polygons) == 1 else shapely.MultiPolygon(polygons)
            sound = floor.is_valid and not floor.is_empty
        except (shapely.errors.ShapelyError, IndexError, TypeError, ValueError):
            sound = False
        if not sound:
            expected = (
                "a ring of corners [x, y] in metres that does not cross, or parts of such rings"
            )
            raise DiagramError(f"floors[{k}]", f"expected {expected}, got {reprlib.repr(parts)}")
        if not box.buffer(TOLERANCE).covers(floor):
            raise DiagramError(f"floors[{k}]", "it reaches out of the box of its room")
        read.append(floor)
    return tuple(read)


def floor_plans(diagrams: Sequence[BubbleDiagram], unit: str = "metres") -> list[FloorPlan]:
    """Return ``FloorPlan.of`` for each diagram. Raises ``ValueError`` if the boxes seem to be in
    another unit, see ``check_metres``."""
    plans = [FloorPlan.of(diagram, unit) for diagram in diagrams]
    check_units(plans, diagrams, unit)
    return plans


def check_units(plans: Sequence[FloorPlan], diagrams: Sequence[BubbleDiagram], unit: str) -> None:
    """Raise ``ValueError`` if boxes seem to be in another unit than they state, or than ``unit``,
    see ``check_metres``."""
    boxes = [np.array(plan.diagram.boxes) for plan in plans]
    geometry.check_metres(boxes, [str(diagram.metadata.get("unit", unit)) for diagram in diagrams])


def plans_with_boxes(diagrams: Sequence[BubbleDiagram], unit: str) -> list[FloorPlan]:
    """Return the floor plans of the diagrams that have boxes, see ``floor_plans``."""
    return floor_plans([diagram for diagram in diagrams if diagram.boxes is not None], unit)
