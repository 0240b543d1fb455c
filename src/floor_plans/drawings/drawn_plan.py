"""``Drawing``: rooms, doors and boundary of another tool's file, read as a diagram with boxes."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import chain, combinations
from typing import Any

import numpy as np

from discrete_diffusion.runtime import install_command
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.code_tables import number_bedrooms
from floor_plans.diagrams.files.fields import DiagramError, check_size, checked_box, room_code
from floor_plans.diagrams.files.foreign_files import check_metadata
from floor_plans.diagrams.files.records import Note, Plan
from floor_plans.diagrams.geometry import IN_METRES, UNITS, DrawnIn, metres_per, relations_in_metres
from floor_plans.diagrams.vocabulary import NO_EDGE, ROOM_TYPES
from floor_plans.drawings import drawn_parts
from floor_plans.drawings.drawn_parts import DrawnDoor, DrawnRoom, are_close, is_same
from floor_plans.plans.floor_plan import FRONT_DOOR, Door, FloorPlan, Point, adjacent_rooms, ordered
from floor_plans.plans.libraries import shapely

APART = "group of rooms far from all others"
"""Note on rooms that may be another dwelling or storey in the same drawing."""

_PLANS = ("files of floor plans", "plans")
_PACKAGES = {"shapely": _PLANS, "ezdxf": _PLANS, "ifcopenshell": ("IFC files", "ifc")}
"""What needs each package, and its extra."""

_LEAST_FILL = 0.5

_LEAST_SHARED = 0.1  # least shared area of two floors that are reported to overlap, square metres
_FAR = 2.0  # metres between groups of rooms that count as far apart


@dataclass(frozen=True)
class Drawing:
    """Drawing of a plan as read from a file of another tool, in metres.

    ``embedded``: JSON of the plan that the file was written from, or None. ``left_out``: names of
    drawn objects that a plan cannot hold, once per object. ``draws_boundary``: False if the format
    has no boundaries; the embedded boundary is then used. ``drawn``: unit of the file. ``notes``:
    oddities.

    A room that was not moved since the file was written keeps its embedded box; two such rooms keep
    their relation. Every other room gets the bounding box of its floor, and other relations are
    measured. A plan rotated as a whole is rotated back.
    """

    rooms: tuple[DrawnRoom, ...]
    doors: tuple[DrawnDoor, ...] = ()
    boundary: tuple[Point, ...] | None = None
    embedded: object = None
    left_out: tuple[str, ...] = ()
    draws_boundary: bool = True
    drawn: DrawnIn = IN_METRES
    notes: tuple[Note, ...] = ()

    def plan(self, *, max_nodes: int, gap: float) -> Plan:
        """Return the diagram, as ``FloorPlan.to_diagram`` does, with omissions and notes. ``gap``:
        metres up to which rooms are related. Raises ``DiagramError``."""
        check_size(len(self.rooms), max_nodes, "rooms")
        embedded = None if self.embedded is None else drawn_parts.read_embedded(self.embedded)
        unmoved = {} if embedded is None else drawn_parts.unmoved_rooms(self.rooms, embedded)
        floors = [room.floor for room in self.rooms]
        # rotate the plan back before anything is measured
        if not unmoved and (angle := drawn_parts.angle_of(floors)):
            note = Note("plan turned back", f"by {abs(angle):.1f} degrees")
            straight = self.moved(drawn_parts.unrotate(floors, angle), notes=(note, *self.notes))
            return straight._plan(embedded, {}, gap)
        return self._plan(embedded, unmoved, gap)

    def moved(self, move: Callable[[shapely.Geometry], shapely.Geometry], **also: Any) -> Drawing:
        """Apply ``move`` to the shapes of rooms, doors and boundary, and change ``also`` fields."""
        boundary = self.boundary
        if boundary is not None:
            boundary = corners_of(move(shapely.Polygon(boundary)))
        rooms = tuple(replace(room, floor=move(room.floor)) for room in self.rooms)
        doors = tuple(replace(door, shape=move(door.shape)) for door in self.doors)
        return replace(self, rooms=rooms, doors=doors, boundary=boundary, **also)

    def _plan(self, embedded: FloorPlan | None, unmoved: Mapping[int, int], gap: float) -> Plan:
        """Build the plan. ``unmoved``: numbers of unmoved rooms in the embedded plan, by room."""
        # measured boxes and relations
        boxes = [room.floor.bounds for room in self.rooms]
        measured = relations_in_metres(boxes, gap)
        codes = {(i, j): int(measured[i, j]) for i, j in combinations(range(len(boxes)), 2)}
        metadata: Mapping[str, Any] = {}
        num_moved = 0
        # unmoved rooms have the embedded boxes and relations
        if embedded is not None:
            stated = drawn_parts.relations_between(unmoved, embedded.diagram)
            num_moved = len(embedded.diagram.relations) - len(stated)
            codes |= {pair: stated.get(pair, NO_EDGE) for pair in combinations(sorted(unmoved), 2)}
            for k, number in unmoved.items():
                boxes[k] = embedded.boxes[number].bounds
            metadata = embedded.diagram.metadata
            check_metadata(metadata)
        relations = tuple((i, j, code) for (i, j), code in codes.items() if code != NO_EDGE)
        # where the format leaves a choice of types, the embedded plan decides
        types = {} if embedded is None else dict(enumerate(embedded.diagram.rooms))
        own = [types.get(room.number) for room in self.rooms]
        pairs = zip(own, self.rooms, strict=True)
        rooms = tuple(kind if kind in room.among else room.room for kind, room in pairs)
        # doors, boundary and floors
        bare = FloorPlan(BubbleDiagram(rooms, relations, tuple(boxes), metadata))
        doors = tuple(self._door(door, bare, embedded) for door in self.doors)
        floors = [room.floor for room in self.rooms]
        shared = _shared_floors(floors)
        drawn: list[shapely.Geometry | None] = [*floors]
        if embedded is not None:
            for k, number in unmoved.items():
                drawn[k] = embedded.floors[number] if embedded.floors else None
        stated_floors = drawn_floors(drawn, bare, {*chain(*shared)} - unmoved.keys())
        boundary = self._boundary(embedded)
        read = replace(bare, doors=doors, boundary=boundary, floors=stated_floors)
        # notes on pairs that overlap, groups far apart, and rooms that fill little of their box
        notes = [*self.notes]
        areas = read.areas if shared else ()
        for pair, area in shared.items():
            both = [f"rooms[{k}], {ROOM_TYPES[rooms[k]]} ({areas[k]:.1f} m2)" for k in pair]
            what = f"{' and '.join(both)} share {area:.1f} m2, which count for the smaller one"
            notes.append(Note("pair of rooms whose floors overlap", what))
        for group in far_groups(floors)[1:]:
            first = f"rooms[{group[0]}], {ROOM_TYPES[rooms[group[0]]]}"
            what = f"{len(group)} rooms, {first} the first: another dwelling or storey?"
            notes.append(Note(APART, what))
        for k, room in enumerate(self.rooms):
            if k not in unmoved:
                notes += fill_notes(k, room.room, room.floor.area / bare.boxes[k].area)
        left_out = (*self.left_out, *("relations of moved rooms",) * num_moved)
        drawn_in = None if unmoved else self.drawn
        return Plan(read.to_diagram(), left_out, notes=tuple(notes), drawn=drawn_in)

    def _door(self, door: DrawnDoor, plan: FloorPlan, embedded: FloorPlan | None) -> Door:
        """Embedded door at the same position, or a new one between the stated or nearest rooms."""
        # stated rooms, or the nearest ones
        numbers = {room.number: k for k, room in enumerate(self.rooms)} | {FRONT_DOOR: FRONT_DOOR}
        stated = () if door.rooms is None else door.rooms
        if len(set(stated) & numbers.keys()) == 2:
            rooms = ordered(*(numbers[room] for room in stated))
        else:
            is_front = door.is_front or FRONT_DOOR in stated
            rooms = adjacent_rooms(door.shape.bounds, plan.rooms, is_front=is_front)
        read = Door.from_box(rooms, checked_box(door.shape.bounds, "doors"))
        for other in () if embedded is None else embedded.doors:
            if are_close(read.ends, Door.from_box(rooms, other.box(0)).ends):
                return replace(other, rooms=rooms)
        return read

    def _boundary(self, embedded: FloorPlan | None) -> tuple[Point, ...] | None:
        """Embedded boundary if the drawing has the same corners, or the drawn one."""
        if embedded is None or embedded.boundary is None:
            return self.boundary
        if not self.draws_boundary:
            return embedded.boundary
        if self.boundary is None:
            return None
        # compare corners in any order
        corners = sorted(self.boundary), sorted(embedded.boundary)
        unmoved = len(corners[0]) == len(corners[1]) and all(map(are_close, *corners))
        return embedded.boundary if unmoved else self.boundary


def named_rooms(
    rooms: Sequence[tuple[object, str, shapely.Geometry]], numbers: Iterable[int]
) -> tuple[DrawnRoom, ...]:
    """Rooms by name, place in errors, and floor; the largest numbered bedroom is the MasterRoom."""
    names, places, floors = zip(*rooms, strict=True)
    types = number_bedrooms(names, lambda: [floor.area for floor in floors])
    return tuple(map(DrawnRoom, map(room_code, types, places), floors, numbers))


def scale_to_metres(drawing: Drawing, data: Mapping[str, Any]) -> Drawing:
    """Convert the drawing of a JSON object from its ``unit``; ``DiagramError`` if it is unknown."""
    unit, key = data.get("unit", "metres"), 'add "unit": "{}" to the file'
    if unit not in UNITS or unit == "pixels":
        known = ", ".join(UNITS[1:])
        raise DiagramError("unit", f"{reprlib.repr(unit)}: expected {known}")
    if unit == "metres":
        stated_by = 'its "unit"' if "unit" in data else ""
        return replace(drawing, drawn=DrawnIn(stated_by=stated_by, key=key))
    drawn = DrawnIn(str(unit), metres_per(unit), 'its "unit"', key)
    return drawing.moved(lambda shape: scale_shape(shape, drawn.metres), drawn=drawn)


def check_installed(*formats: str) -> None:
    """Raise ``DiagramError`` naming the extra of a package that plans or ``formats`` lack."""
    for module, (what, extra) in _PACKAGES.items():
        if extra in ("plans", *formats) and find_spec(module) is None:
            reason = f"{what} need {module}, which is not installed"
            raise DiagramError("", f"{reason}: {install_command(extra)}")


def fill_notes(number: int, room: int, share: float) -> Iterator[Note]:
    """Note on a room that fills less than half of its box."""
    if share < _LEAST_FILL:
        what = f"rooms[{number}], {ROOM_TYPES[room]}, fills {share:.0%}"
        yield Note("room that fills less than half of its box", what)


def far_groups(floors: Sequence[shapely.Geometry]) -> list[list[int]]:
    """Numbers of the rooms in each group of several far from all others, the largest first."""
    # rooms closer than ``_FAR`` form one part
    around = shapely.union_all(shapely.buffer(floors, _FAR / 2))
    parts = [np.flatnonzero(part.intersects(floors)) for part in shapely.get_parts(around)]
    return sorted((part.tolist() for part in parts if len(part) > 1), key=len, reverse=True)


def _shared_floors(floors: Sequence[shapely.Geometry]) -> dict[tuple[int, int], float]:
    """Square metres that pairs of rooms share, except pairs with one room inside the other."""
    found = {}
    # a room within another is cut out of it
    for i, j in shapely.STRtree(floors).query(floors, predicate="intersects").T.tolist():
        one, other = floors[i], floors[j]
        if i < j and one.covers(other) == other.covers(one):
            area = float(one.intersection(other).area)
            if area > _LEAST_SHARED:
                found[i, j] = area
    return dict(sorted(found.items()))


def drawn_floors(
    floors: Sequence[shapely.Geometry | None], plan: FloorPlan, shared: Collection[int] = ()
) -> tuple[shapely.Geometry | None, ...]:
    """Return ``FloorPlan.floors`` of rooms drawn as ``floors`` (None: as their boxes); empty if
    boxes alone yield these. ``plan``: the plan without floors. ``shared``: rooms drawn over others,
    whose floor is stated even if it equals their box."""
    # a floor that equals its box is not stated
    own = [
        None if floor is None or (k not in shared and is_same(floor, box)) else floor
        for k, (floor, box) in enumerate(zip(floors, plan.boxes, strict=True))
    ]
    if all(floor is None or is_same(floor, drawn_floor(plan, k)) for k, floor in enumerate(own)):
        return ()
    return tuple(own)


def scale_shape(shape: shapely.Geometry, scale: float) -> shapely.Geometry:
    """Scale a shape about (0, 0)."""
    return shape if scale == 1 else shapely.transform(shape, lambda corners: corners * scale)


def flip_y(shape: shapely.Geometry) -> shapely.Geometry:
    """Mirror a shape, so that y is upwards instead of downwards, or the reverse."""
    return shapely.transform(shape, lambda corners: corners * (1, -1) + 0.0)  # no -0.0


def flip_point(point: Point) -> Point:
    """Mirror a point, so that y is upwards instead of downwards, or the reverse."""
    return point[0], 0.0 - point[1]  # no -0.0


def drawn_floor(plan: FloorPlan, room: int) -> shapely.Geometry:
    """Floor of a room; its box if rooms inside it cover all of the floor."""
    floor = plan.rooms[room]
    return plan.boxes[room] if floor.is_empty else floor


def largest_boundary(
    shapes: Sequence[shapely.Geometry],
) -> tuple[tuple[Point, ...] | None, tuple[str, ...]]:
    """Return the corners of the largest polygon, if any, and a name for each other polygon."""
    if not shapes:
        return None, ()
    largest = max(shapes, key=lambda shape: shape.area)
    return corners_of(largest), ("further plot outlines",) * (len(shapes) - 1)


def corners_of(shape: shapely.Geometry) -> tuple[Point, ...]:
    """Corners of a polygon's exterior, without repeating the first."""
    return tuple((x, y) for x, y in shape.exterior.coords[:-1])
