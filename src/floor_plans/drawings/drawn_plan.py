"""``Drawing``: what a file of another tool says of a plan; it is read as a diagram with boxes."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import combinations
from typing import TYPE_CHECKING, Any

from discrete_diffusion.runtime import install_command
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.code_tables import number_bedrooms
from floor_plans.diagrams.files.fields import DiagramError, check_size, checked_box, room_code
from floor_plans.diagrams.files.json_text import check_metadata
from floor_plans.diagrams.files.records import Note, Plan
from floor_plans.diagrams.geometry import IN_METRES, UNITS, DrawnIn, metres_per, relations_in_metres
from floor_plans.diagrams.rooms import NO_EDGE
from floor_plans.diagrams.vocabulary import ROOM_TYPES
from floor_plans.drawings.drawn_parts import DrawnDoor, DrawnRoom
from floor_plans.drawings.embedded_json import (
    are_close,
    boxes_of,
    read_written,
    relations_between,
    type_of,
    where_they_were,
)
from floor_plans.plans.door import FRONT_DOOR, Box, Door, Point, adjacent_rooms, ordered
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.floors import Unrotate, angle_of, drawn_floors

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

MOVED = "relations of moved rooms"
"""Note on relations that a file states and its plan does not hold any more, because its rooms are
elsewhere."""

TURNED = "plan turned back"
"""Note on a plan that was drawn turned as a whole."""

LOOSE = "room that fills less than half of its box"
"""Note on rooms whose relations are measured on boxes that they do not fill."""

OVERLAP = "pair of rooms whose floors overlap"
"""Note on two rooms that are drawn over each other, neither of which lies within the other."""

APART = "group of rooms far from all others"
"""Note on rooms that may be another dwelling, or another storey, in the same drawing."""

OTHER_BOUNDARIES = "further plot outlines"
"""Name of boundaries that are left out, because a plan has one."""

_LEAST_FILL = 0.5

_LEAST_SHARED = 0.1
"""Square metres that two floors share which are said to overlap."""

_FAR = 2.0
"""Metres between groups of rooms that are far from each other."""


@dataclass(frozen=True)
class Drawing:
    """``written``: the JSON of the plan that the file was written from, None if it has none.
    ``left_out``: the names of what else was drawn, once for each. ``draws_boundary``: the format
    can; else the boundary is the one that was written. ``drawn``: the unit it was in; lengths are
    in metres. ``notes``: what its format finds odd.

    The drawing is what counts. What was written beside it counts for rooms that are where they
    were: their boxes, and the relations between two of them, are those that were written. All other
    boxes are those around the floors, and all other relations are measured. A plan that is turned
    as a whole, and none of whose rooms is where it was, is turned back.
    """

    rooms: tuple[DrawnRoom, ...]
    doors: tuple[DrawnDoor, ...] = ()
    boundary: tuple[Point, ...] | None = None
    written: object = None
    left_out: tuple[str, ...] = ()
    draws_boundary: bool = True
    drawn: DrawnIn = IN_METRES
    notes: tuple[Note, ...] = ()

    def plan(self, *, n_max: int, gap: float) -> Plan:
        """The diagram, as ``FloorPlan.to_diagram`` gives it, what was left out, and what is odd.

        ``gap``: metres up to which rooms are related. Raises ``DiagramError``.
        """
        check_size(len(self.rooms), n_max, "rooms")
        written = None if self.written is None else read_written(self.written)
        same = {} if written is None else where_they_were(self.rooms, written)
        floors = [room.floor for room in self.rooms]
        if not same and (angle := angle_of(floors)):
            straight = self._moved(Unrotate(floors, angle))
            note = Note(TURNED, f"by {abs(angle):.1f} degrees")
            straight = replace(straight, notes=(note, *self.notes))
            return straight._plan(written, {}, gap)
        return self._plan(written, same, gap)

    def scaled(self, drawn: DrawnIn) -> Drawing:
        """Drawing in metres of what was drawn in that unit."""
        import shapely

        def move(shape: BaseGeometry) -> BaseGeometry:
            return shapely.transform(shape, lambda corners: corners * drawn.metres)

        return replace(self._moved(move), drawn=drawn)

    def _moved(self, move: Callable[[BaseGeometry], BaseGeometry]) -> Drawing:
        """All that is drawn."""
        from shapely import Polygon

        boundary = self.boundary
        if boundary is not None:
            boundary = corners_of(move(Polygon(boundary)))
        return replace(
            self,
            rooms=tuple(room.moved(move) for room in self.rooms),
            doors=tuple(replace(door, shape=move(door.shape)) for door in self.doors),
            boundary=boundary,
        )

    def _plan(self, written: FloorPlan | None, same: Mapping[int, int], gap: float) -> Plan:
        """``same``: the rooms that are where they were, with the numbers that they were written
        with."""
        boxes = [room.bounds for room in self.rooms]
        measured = relations_in_metres(boxes, gap)
        codes = {(i, j): int(measured[i, j]) for i, j in combinations(range(len(boxes)), 2)}
        metadata: Mapping[str, Any] = {}
        num_moved = 0
        if written is not None:
            stated = relations_between(same, written.diagram)
            num_moved = len(written.diagram.relations) - len(stated)
            codes |= {pair: stated.get(pair, NO_EDGE) for pair in combinations(sorted(same), 2)}
            for k, number in same.items():
                boxes[k] = boxes_of(written)[number]
            metadata = written.diagram.metadata
            check_metadata(metadata)
        relations = tuple((i, j, code) for (i, j), code in codes.items() if code != NO_EDGE)
        rooms = tuple(type_of(room, written) for room in self.rooms)
        bare = FloorPlan(BubbleDiagram(rooms, relations, tuple(boxes), metadata))
        doors = tuple(self._door(door, bare, written) for door in self.doors)
        shared = shared_floors([room.floor for room in self.rooms])
        read = replace(
            bare,
            doors=doors,
            boundary=self._boundary(written),
            floors=drawn_floors(
                self._floors(written, same),
                bare.boxes,
                left_of_boxes(bare),
                {room for pair in shared for room in pair if room not in same},
            ),
        )
        overlaps = (note_of_overlap(read, *pair, area) for pair, area in shared.items())
        return Plan(
            read.to_diagram(),
            (*self.left_out, *(MOVED,) * num_moved),
            notes=(*self.notes, *overlaps, *self._far(), *self._loose(boxes, same)),
            drawn=None if same else self.drawn,
        )

    def _floors(
        self, written: FloorPlan | None, same: Mapping[int, int]
    ) -> list[BaseGeometry | None]:
        """Floors of every room; those that are where they were have the one they were written
        with."""
        if written is None:
            return [room.floor for room in self.rooms]
        own = written.floors or (None,) * written.diagram.num_rooms
        return [own[same[k]] if k in same else room.floor for k, room in enumerate(self.rooms)]

    def _loose(self, boxes: Sequence[Box], same: Mapping[int, int]) -> Iterator[Note]:
        for k, (room, (x0, y0, x1, y1)) in enumerate(zip(self.rooms, boxes, strict=True)):
            share = room.floor.area / ((x1 - x0) * (y1 - y0))
            if k not in same and room.box is None:
                yield from note_of_fill(k, room.room, share)

    def _far(self) -> Iterator[Note]:
        """One for each group of rooms, more than one, but for the largest group."""
        import shapely

        floors = [room.floor for room in self.rooms]
        around = shapely.union_all(shapely.buffer(floors, _FAR / 2))
        groups = [
            [k for k, floor in enumerate(floors) if part.intersects(floor)]
            for part in shapely.get_parts(around)
        ]
        groups = sorted((group for group in groups if len(group) > 1), key=len, reverse=True)
        for group in groups[1:]:
            first = f"rooms[{group[0]}], {ROOM_TYPES[self.rooms[group[0]].room]}"
            yield Note(APART, f"{len(group)} rooms, {first} the first: another dwelling or storey?")

    def _door(self, door: DrawnDoor, plan: FloorPlan, written: FloorPlan | None) -> Door:
        """The one that was written there; else with the rooms that the file says, or nearest."""
        numbers = {room.number: k for k, room in enumerate(self.rooms)} | {FRONT_DOOR: FRONT_DOOR}
        stated = () if door.rooms is None else door.rooms
        if len(set(stated) & numbers.keys()) == 2:
            rooms = ordered(*(numbers[room] for room in stated))
        else:
            rooms = adjacent_rooms(door.box, plan.rooms, is_front=door.is_front)
        read = Door.from_box(rooms, checked_box(door.box, "doors"))
        for other in () if written is None else written.doors:
            if are_close(read.ends, Door.from_box(rooms, other.box(0)).ends):
                return replace(other, rooms=rooms)
        return read

    def _boundary(self, written: FloorPlan | None) -> tuple[Point, ...] | None:
        """The one that was written, if it is drawn there, in whatever order of its corners."""
        if written is None or written.boundary is None:
            return self.boundary
        if not self.draws_boundary:
            return written.boundary
        if self.boundary is None:
            return None
        corners = sorted(self.boundary), sorted(written.boundary)
        same = len(corners[0]) == len(corners[1]) and all(map(are_close, *corners))
        return written.boundary if same else self.boundary


def rooms_of_labels(
    labels: Sequence[object], floors: Sequence[BaseGeometry], places: Sequence[str]
) -> list[int]:
    """Room codes of names; of bedrooms that are distinguished by numbers the one with the largest
    floor is the MasterRoom. ``places``: what an error calls each."""
    types = number_bedrooms(labels, lambda: [floor.area for floor in floors])
    return [room_code(label, place) for label, place in zip(types, places, strict=True)]


def in_stated_unit(drawing: Drawing, data: Mapping[str, Any]) -> Drawing:
    """A drawing of a JSON object in metres, or in the unit that its key ``unit`` names.

    Raises ``DiagramError`` for a unit that is none.
    """
    unit, key = data.get("unit", "metres"), 'add "unit": "{}" to the file'
    if unit not in UNITS or unit == "pixels":
        known = ", ".join(UNITS[1:])
        raise DiagramError("unit", f"{reprlib.repr(unit)}: expected {known}")
    if unit == "metres":
        stated_by = 'its "unit"' if "unit" in data else ""
        return replace(drawing, drawn=DrawnIn(stated_by=stated_by, key=key))
    return drawing.scaled(DrawnIn(str(unit), metres_per(unit), 'its "unit"', key))


def check_installed() -> None:
    """``DiagramError`` naming the extra ``plans`` if it is missing."""
    for module in ("shapely", "ezdxf"):
        if find_spec(module) is None:
            raise DiagramError(
                "",
                f"files of dimensioned plans take {module}, which is not installed: "
                f"{install_command('plans')}",
            )


def note_of_fill(number: int, room: int, share: float) -> Iterator[Note]:
    """One for a room of that type that fills only so much of its box."""
    if share < _LEAST_FILL:
        yield Note(LOOSE, f"rooms[{number}], {ROOM_TYPES[room]}, fills {share:.0%}")


def shared_floors(floors: Sequence[BaseGeometry]) -> dict[tuple[int, int], float]:
    """Pair of rooms that are drawn over each other -> the square metres that they share. A room
    that lies within another is none, unless both are the same."""
    import shapely

    found = {}
    for i, j in shapely.STRtree(floors).query(floors, predicate="intersects").T.tolist():
        one, other = floors[i], floors[j]
        if i < j and one.covers(other) == other.covers(one):
            area = float(one.intersection(other).area)
            if area > _LEAST_SHARED:
                found[i, j] = area
    return dict(sorted(found.items()))


def note_of_overlap(plan: FloorPlan, i: int, j: int, area: float) -> Note:
    """Note that two rooms share a floor, which is that of the smaller one."""
    names = [f"rooms[{k}], {plan.diagram.room_names[k]} ({plan.areas[k]:.1f} m2)" for k in (i, j)]
    what = f"{' and '.join(names)} share {area:.1f} m2, which count for the smaller one"
    return Note(OVERLAP, what)


def left_of_boxes(plan: FloorPlan) -> list[BaseGeometry]:
    """Rest of each room's box that smaller rooms leave; of a plan without ``floors``."""
    return [drawn_floor(plan, k) for k in range(plan.diagram.num_rooms)]


def flipped(shape: BaseGeometry) -> BaseGeometry:
    """Drawing with y upwards instead of downwards, or the other way round."""
    import shapely

    return shapely.transform(shape, lambda corners: corners * (1, -1) + 0.0)  # no -0.0


def upwards(point: Point) -> Point:
    """A point with y upwards instead of downwards, or the other way round."""
    return point[0], 0.0 - point[1]  # no -0.0


def drawn_floor(plan: FloorPlan, room: int) -> BaseGeometry:
    """The floor of a room; its box if the rooms inside it leave no floor."""
    floor = plan.rooms[room]
    return plan.boxes[room] if floor.is_empty else floor


def check_boundary(shape: BaseGeometry, where: str) -> BaseGeometry:
    """The polygon of a boundary; ``DiagramError`` if it has holes."""
    if num := len(shape.interiors):
        holes = "a hole" if num == 1 else f"{num} holes"
        raise DiagramError(where, f"a boundary with {holes}: expected its outer ring alone")
    return shape


def largest_boundary(
    shapes: Sequence[BaseGeometry],
) -> tuple[tuple[Point, ...] | None, tuple[str, ...]]:
    """Corners of the largest polygon, None of none; and the name of each other, left out."""
    if not shapes:
        return None, ()
    largest = max(shapes, key=lambda shape: shape.area)
    return corners_of(largest), (OTHER_BOUNDARIES,) * (len(shapes) - 1)


def corners_of(shape: BaseGeometry) -> tuple[Point, ...]:
    """Corners of a polygon's exterior, the first one not again."""
    return tuple((x, y) for x, y in shape.exterior.coords[:-1])
