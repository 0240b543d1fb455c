"""``FloorPlan``: the rooms of a diagram as polygons in metres, with doors and an outline."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError, finite_number
from floor_plans.diagrams.geometry import (
    UNITS,
    boxes_in_metres,
    check_metres,
    relations_from_boxes,
    threshold_of,
)
from floor_plans.diagrams.rooms import INSIDE, NO_EDGE, SURROUNDING
from floor_plans.plans.door import FRONT_DOOR, Door, Point, read_door
from floor_plans.plans.floors import read_floors, rings_of

if TYPE_CHECKING:
    from shapely import Polygon
    from shapely.geometry.base import BaseGeometry

T = TypeVar("T")


class computed_once(Generic[T]):
    """Property computed at its first use without a lock, as ``functools.cached_property`` of Python
    3.12.

    Before 3.12 all objects of a class share a lock. Threads then wait for each other, and for ever
    if a Ctrl-C arrives just after the main thread took it.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> computed_once[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> computed_once[T] | T:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


__all__ = [
    "FRONT_DOOR",
    "PLAN_KEYS",
    "Door",
    "FloorPlan",
    "Point",
    "floor_plans",
    "plans_with_boxes",
]

PLAN_KEYS = ("unit", "boundary", "doors", "areas", "floors")
"""Keys of a plan's JSON in addition to those of its diagram."""


@dataclass(frozen=True)
class FloorPlan:
    """Floor plan with dimensions.

    ``diagram``: its ``boxes`` are in metres, y downwards; a box ends in the middle of a wall.
    ``boundary``: corners of the outline, in order; None: the outline is that of the rooms.
    ``doors``: between rooms, and the front door. ``floors``: for each room the polygon, or several,
    that was drawn; None for a room that fills its box. Empty if all rooms do.

    Needs shapely, of the extra ``plans``. Raises ``ValueError`` for a diagram without boxes.
    """

    diagram: BubbleDiagram
    doors: tuple[Door, ...] = ()
    boundary: tuple[Point, ...] | None = None
    floors: tuple[BaseGeometry | None, ...] = ()

    def __post_init__(self) -> None:
        if self.diagram.boxes is None:
            raise ValueError(
                "a floor plan needs a box for every room, and this diagram has none; "
                "Diagrams.realise() finds some"
            )

    @classmethod
    def of(cls, diagram: BubbleDiagram, unit: str = "metres") -> FloorPlan:
        """Return the plan of a diagram. Its metadata hold doors and outline, see ``to_json`` and
        ``read_door``.

        ``unit``: of the boxes (``UNITS``), if the metadata state none. Raises ``DiagramError``
        naming the key that is wrong.
        """
        # keys of a plan leave the metadata
        metadata = dict(diagram.metadata)
        unit = metadata.pop("unit", unit)
        boundary, doors = metadata.pop("boundary", None), metadata.pop("doors", [])
        floors = metadata.pop("floors", None)
        metadata.pop("areas", None)
        if metadata.get("north") is not None:
            finite_number(metadata["north"], "north")
        if unit not in UNITS:
            raise DiagramError("unit", f"{reprlib.repr(unit)}: expected {', '.join(UNITS)}")
        if not isinstance(doors, list | tuple):
            raise DiagramError("doors", f"expected a list of doors, got {reprlib.repr(doors)}")
        # the plan without doors, whose floors the doors are read against
        boxes = None if diagram.boxes is None else boxes_in_metres(diagram.boxes, unit)
        bare = cls(BubbleDiagram(diagram.rooms, diagram.relations, boxes, metadata))
        return replace(
            bare,
            doors=tuple(read_door(door, bare.rooms, unit) for door in doors),
            boundary=None if boundary is None else validate_boundary(boundary),
            floors=() if floors is None else read_floors(floors, bare.boxes),
        )

    @computed_once
    def boxes(self) -> tuple[Polygon, ...]:
        """Boxes of the rooms, as polygons."""
        from shapely import box

        assert self.diagram.boxes is not None  # checked by the constructor
        return tuple(box(*each) for each in self.diagram.boxes)

    @computed_once
    def rooms(self) -> tuple[BaseGeometry, ...]:
        """Floor of every room: its polygon or its box, without smaller rooms. A living room with a
        kitchen in the corner of its box is L-shaped."""
        from shapely import union_all

        drawn = self.floors or (None,) * len(self.boxes)
        shapes = [b if f is None else f for b, f in zip(self.boxes, drawn, strict=True)]
        # each shape, less all smaller ones
        ranked = sorted(range(len(shapes)), key=lambda room: (shapes[room].area, room))
        return tuple(
            shape.difference(union_all([shapes[j] for j in ranked[: ranked.index(i)]]))
            for i, shape in enumerate(shapes)
        )

    @property
    def north(self) -> float | None:
        """Degrees clockwise from up to north, if the metadata of the diagram state them."""
        north = self.diagram.metadata.get("north")
        return None if north is None else finite_number(north, "north")

    @computed_once
    def outline(self) -> Polygon:
        """Polygon that the plan is built on: ``boundary``, or the box around all rooms."""
        from shapely import Polygon, box, union_all

        if self.boundary is not None:
            return Polygon(self.boundary)
        return box(*union_all(self.boxes).bounds)

    @property
    def areas(self) -> tuple[float, ...]:
        """Areas of the rooms' floors, in square metres."""
        return tuple(room.area for room in self.rooms)

    def largest_area_error(self, targets: Sequence[float]) -> float:
        """Largest of the ``area_errors``."""
        return max(self.area_errors(targets))

    def area_errors(self, targets: Sequence[float]) -> tuple[float, ...]:
        """Deviations of the floor areas from ``targets``, as shares of the targets in square
        metres. Added rooms, which come last, have none."""
        own = self.areas[: len(targets)]
        return tuple(abs(a - t) / t for a, t in zip(own, targets, strict=True))

    @property
    def dead_area(self) -> float:
        """Square metres inside the outline that belong to no room."""
        from shapely import union_all

        return float(self.outline.difference(union_all(self.rooms)).area)

    @property
    def overlap(self) -> float:
        """Square metres shared by two boxes, neither of which lies within the other."""
        return float(
            sum(
                a.intersection(b).area
                for a, b in combinations(self.boxes, 2)
                if not (a.covers(b) or b.covers(a))
            )
        )

    @property
    def honours_diagram(self) -> bool:
        """True if the boxes have exactly the diagram's relations. Each pair is read in one of its
        two directions, and an inner room must lie within its outer one."""
        return next(self.misread_pairs(), None) is None

    def misread_pairs(self) -> Iterator[tuple[int, int]]:
        """Pairs i < j of rooms whose boxes do not have the diagram's relation."""
        boxes, gap = np.array(self.diagram.boxes), threshold_of("metres", None)
        # codes of (i, j), and of (j, i) by reversing the order of rooms
        forwards = relations_from_boxes(boxes, gap)
        backwards = relations_from_boxes(boxes[::-1], gap)[::-1, ::-1]
        codes = {(i, j): code for i, j, code in self.diagram.relations}
        for i, j in combinations(range(self.diagram.num_rooms), 2):
            code, reverse = codes.get((i, j), NO_EDGE), int(backwards[j, i])
            # an inner room must lie within its outer one
            inner, outer = (i, j) if code == INSIDE else (j, i)
            within = code not in (INSIDE, SURROUNDING) or self.boxes[outer].covers(
                self.boxes[inner]
            )
            if not within or code not in (
                forwards[i, j],
                NO_EDGE if reverse == NO_EDGE else 9 - reverse,
            ):
                yield i, j

    def relabelled(self, order: Sequence[int]) -> FloorPlan:
        """Return the plan with its rooms renumbered, see ``BubbleDiagram.relabelled``."""
        # new number of each old room, and of the outside
        new = {FRONT_DOOR: FRONT_DOOR} | {old: k for k, old in enumerate(order)}

        def renumbered(door: Door) -> Door:
            first, second = (new[room] for room in door.rooms)
            in_order = door.is_front or first < second
            return replace(door, rooms=(first, second) if in_order else (second, first))

        return replace(
            self,
            diagram=self.diagram.relabelled(order),
            doors=tuple(map(renumbered, self.doors)),
            floors=tuple(self.floors[old] for old in order) if self.floors else (),
        )

    def to_diagram(self) -> BubbleDiagram:
        """Return the diagram that ``of`` reads as this plan. Its metadata have "unit", "areas"
        (square metres), "doors", "boundary" and "floors" (see ``rings_of``)."""
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
    from shapely import Polygon

    try:
        # finite corners of a simple polygon
        points = tuple((float(x), float(y)) for x, y in corners)
        finite = all(map(math.isfinite, chain(*points)))
        sound = finite and len(points) >= 3 and Polygon(points).is_valid
    except (TypeError, ValueError):
        sound = False
    if not sound:
        raise DiagramError(
            "boundary",
            "expected the corners [[x, y], ...] of a polygon in metres, in order, whose sides do "
            f"not cross; got {reprlib.repr(corners)}",
        )
    return points


def floor_plans(diagrams: Sequence[BubbleDiagram], unit: str = "metres") -> list[FloorPlan]:
    """Return ``FloorPlan.of`` each diagram. Raises ``ValueError`` for boxes that are hardly in that
    unit, see ``check_metres``."""
    plans = [FloorPlan.of(diagram, unit) for diagram in diagrams]
    check_units(plans, diagrams, unit)
    return plans


def check_units(plans: Sequence[FloorPlan], diagrams: Sequence[BubbleDiagram], unit: str) -> None:
    """Raise ``ValueError`` for boxes that are hardly in their own unit, or in ``unit`` if they name
    none, see ``check_metres``."""
    boxes = [np.array(plan.diagram.boxes) for plan in plans]
    check_metres(boxes, [str(diagram.metadata.get("unit", unit)) for diagram in diagrams])


def plans_with_boxes(diagrams: Sequence[BubbleDiagram], unit: str) -> list[FloorPlan]:
    """Return ``floor_plans`` of the diagrams that have boxes."""
    return floor_plans([diagram for diagram in diagrams if diagram.boxes is not None], unit)
