"""``RoomModel``: the rooms of a dimensioned plan, their shapes and areas, in decimetres."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, TypedDict

from floor_plans.diagrams.geometry import threshold_of
from floor_plans.diagrams.rooms import INSIDE, ROOM_TYPES
from floor_plans.plans.box_model import AXES, CONTAIN, BoxModel, Relations
from floor_plans.plans.box_rule import BoxRule
from floor_plans.plans.floor_plan import Point
from floor_plans.plans.outline import FREE, PER_METRE, Outline
from floor_plans.plans.soft_constraints import NO_REQUIREMENT, WITHOUT_RULES, Priority, Requirement
from floor_plans.rules.finding import HALL, TOLERANCE, Parameters
from floor_plans.rules.rule_set import NO_RULES, RuleSet
from floor_plans.solver.room_sizes import MAX_ASPECTS, min_width

BENT = tuple(
    k
    for k, name in enumerate(ROOM_TYPES)
    if name not in ("Bathroom", "Balcony", "Storage", "Wall-in")
)
"""Rooms that may be L-shaped: a room beside them may lie in a corner of their box."""

PASSAGE = 9
"""Decimetres: a room inside another touches its walls or leaves so much beside them, and a hall is
at least so wide."""

HALL_SHARE = 0.12
"""Largest share of the area of all rooms that an added hall has."""

HALL_TYPE = ROOM_TYPES.index("Entrance")
"""Type of an added hall among types of rooms: "corridor" is read as it."""

NARROWEST, LONGEST = 5, 12
"""Decimetres, and times the width: sides of rooms where the usual ones are not requested."""

_ROUGHLY, _AT_MOST = 0.5, 1.0
"""Tolerances of areas that come before a filled outline, and before walls: no room of more than
twice its area."""

_ROOMY = 2.2
"""The grid's side / the side of a square as large as all rooms, of outlines up to twice as long as
wide."""


@dataclass(frozen=True)
class Demands:
    """Demands on the plan of a diagram, beside its relations.

    ``areas``: square metres of every room's floor, kept within ``tolerance`` (a share), and their
    sum within half of it. ``rules``: of living, which the plan is to keep. Beside these rooms have
    the least widths and the shapes that are usual for their types, and doors lead to all of them.
    ``front_door``: where it is to be, on the boundary of the outline, metres. ``north``: degrees
    clockwise from up: plans whose living rooms lie further south cost less.
    """

    areas: tuple[float, ...]
    tolerance: float = 0.1
    outline: Outline = FREE
    rules: RuleSet = NO_RULES
    front_door: Point | None = None
    north: float | None = None


def for_rules(demands: Demands) -> frozenset[Priority]:
    """Layers that are left out so that the rules are kept. In a free outline no room may be larger
    for it than twice its target: there the plot does not demand it."""
    is_free = demands.outline.boundary is None
    return WITHOUT_RULES - {Priority.LARGEST} if is_free else WITHOUT_RULES


@dataclass(frozen=True)
class Wish:
    """A literal to be true if it can be; ``need``: what it stands for, in words."""

    layer: Priority
    literal: Any
    need: Requirement = NO_REQUIREMENT


class Free(TypedDict, total=False):
    """``hall`` and ``unknown`` of ``RoomModel``."""

    hall: bool
    unknown: Iterable[tuple[int, int]]


class RoomModel(BoxModel):
    """Boxes of a diagram whose shapes and floors meet the demands.

    ``floors``: square decimetres of every room's floor. ``inside``: (inner, outer) rooms by their
    relations; ``in_corner``: literals, that the first room lies in a corner of the second's box.
    A pair without a relation lies at least 0.7 m apart: the rule calls rooms related up to 0.63 m.
    ``hall``: number of a room that is added, the last one, None if there is none. It lies to others
    in any way, but for overlaps; ``kinds`` and ``areas`` (targets, 0 of it) count it.
    ``unknown``: pairs that lie to each other in any way, those of the hall among them.
    No centre lies on the line of a side: in metres, where decimetres are not exact, the rule could
    read it on either side.
    """

    off_line: ClassVar[int] = 1

    def __init__(
        self,
        rooms: Sequence[int],
        relations: Relations,
        demands: Demands,
        *,
        hall: bool = False,
        unknown: Iterable[tuple[int, int]] = (),
    ) -> None:
        self.demands, relations = demands, tuple(relations)
        self.hall = len(rooms) if hall else None
        self.rooms = [*rooms, *([HALL_TYPE] if hall else [])]
        self.kinds = [*(ROOM_TYPES[room] for room in rooms), *([HALL] if hall else [])]
        self.areas = [*demands.areas, *([0.0] if hall else [])]
        self.unknown = [*unknown, *((i, len(rooms)) for i in range(len(rooms) if hall else 0))]
        roomy = _ROOMY * math.sqrt(max(1, demands.outline.elongation / 2))
        grid = math.ceil(roomy * PER_METRE * math.sqrt(sum(demands.areas)))
        if demands.outline.boundary is not None:
            grid = max(1, *demands.outline.size)
        else:
            grid = max(grid, self._least_grid())
        rule = BoxRule(
            grid=grid,
            threshold=math.floor(threshold_of("metres", None) * PER_METRE),
            min_side=min(grid, NARROWEST),
            max_aspect=LONGEST,
        )
        self.wishes: list[Wish] = []
        self.inside = {(i, j) if r == INSIDE else (j, i) for i, j, r in relations if r in CONTAIN}
        self.in_corner: dict[tuple[int, int], Any] = {}
        super().__init__(len(self.rooms), relations, rule, buildable=True, unknown=self.unknown)
        self.floors = self._add_floors()
        self._add_shapes()
        self._add_sizes()

    def _wish(self, layer: Priority, *conditions: Any, need: Requirement = NO_REQUIREMENT) -> Any:
        """A literal that implies the conditions, to be true if it can be."""
        literal = self._if(*conditions)
        self.wishes.append(Wish(layer, literal, need))
        return literal

    def _rule(self, name: str) -> Parameters | None:
        """Parameters of a rule; None if the plan need not keep it."""
        return self.demands.rules.rules.get(name)

    def _least_grid(self) -> int:
        """Decimetres of the grid at least, in a free outline."""
        return 0

    def _width_of(self, room: int) -> int:
        width = min_width(self.rooms[room], self.areas[room])
        return max(NARROWEST, math.floor(PER_METRE * width))

    def _add_apart(self, i: int, j: int) -> None:
        """Add that two rooms share no area, or the smaller one lies in a corner of the other's box.
        It does not if the other is inside a third, of whose floor its area would be taken twice."""
        ways = self._apart(i, j)
        u, v = sorted((i, j), key=lambda room: self.areas[room])
        is_nested = any(outer == u or inner == v for inner, outer in self.inside)
        if self.rooms[v] in BENT and not is_nested:
            ways.append(self._lies_in_corner(u, v))
        self.model.add_bool_or(ways)

    def _add_apart_or_within(self, i: int, j: int) -> None:
        self._add_apart(i, j)

    def _lies_in_corner(self, u: int, v: int) -> Any:
        """A literal: u lies in a corner of the box of v, off the strip that v keeps free."""
        margins = self._margins(u, v)
        corner = self._if(*(margin >= 0 for margin in margins))
        flush = [self._if(margin == 0) for margin in margins]
        for axis in AXES:
            self.model.add_bool_or([*flush[axis::2], corner.negated()])
            self.model.add(sum(margins[axis::2]) >= PASSAGE).only_enforce_if(corner)
        if u == self.hall:  # on the centre of v it would read as a room that v is inside
            sides = zip(self._sides(u), self._sides(v), strict=True)
            off = [self._if(2 * own < others) for own, others in sides]
            self.model.add_bool_or([*off, corner.negated()])
        for margin, is_flush in zip(margins, flush, strict=True):
            self.model.add_bool_or([is_flush, self._if(margin >= PASSAGE), corner.negated()])
        for margin, is_free in zip(margins, self._free_sides(v), strict=True):
            self.model.add(margin >= self._width_of(v)).only_enforce_if(corner, is_free)
        for (_, outer), other in self.in_corner.items():  # not one in a corner of the next
            if outer == u:
                self.model.add_bool_or([corner.negated(), other.negated()])
        for (inner, outer), other in self.in_corner.items():
            if inner == v and outer != u:
                self.model.add_bool_or([corner.negated(), other.negated()])
        self.in_corner[u, v] = corner
        return corner

    def _add_shapes(self) -> None:
        """Wish usual widths and shapes, and of rooms that lie inside another that they leave no
        slivers beside them and do not cut its floor in two."""
        for i, room in enumerate(self.rooms):
            width, height = self._sides(i)
            if i == self.hall:
                self._add_hall_sizes()
                continue
            conditions = [side >= self._width_of(i) for side in (width, height)]
            conditions += [width <= MAX_ASPECTS[room] * height, height <= MAX_ASPECTS[room] * width]
            usual = self._wish(Priority.SHAPES, *conditions)
            for u, axis in product(sorted(u for u, v in self.inside if v == i), AXES):
                margins = self._margins(u, i)
                for margin in margins[axis::2]:
                    beside = [self._if(margin == 0), self._if(margin >= PASSAGE)]
                    self.model.add_bool_or([*beside, usual.negated()])
                around = [self._if(margin >= 1) for margin in margins[axis::2]]
                around += [self._if(margin == 0) for margin in margins[1 - axis :: 2]]
                self.model.add_bool_or([*around, usual.negated()])

    def _add_sizes(self) -> None:
        """Wish the least widths and areas of the rules, and target areas."""
        widths, areas = (self._least_of(name) for name in ("width", "area"))
        for i, kind in enumerate(self.kinds):
            if (least := widths.get(kind)) is not None:
                narrow = math.ceil((least - TOLERANCE) * PER_METRE)
                sides = (side >= narrow for side in self._sides(i))
                need = Requirement(f"{{}} is at least {least:g} m wide", "width", (i,))
                self._wish(Priority.SIZES, *sides, need=need)
            if (least := areas.get(kind)) is not None:
                small = math.ceil((least - TOLERANCE) * PER_METRE**2)
                need = Requirement(f"{{}} has at least {least:g} m2", "area", (i,))
                self._wish(Priority.SIZES, self.floors[i] >= small, need=need)
        self._wish_areas()

    def _wish_areas(self) -> None:
        """Wish areas within their tolerance, and of all rooms within half of it."""
        tolerance, targets = self.demands.tolerance, self.demands.areas
        own = self.floors[: len(targets)]
        sizes = [(floor, area, tolerance) for floor, area in zip(own, targets, strict=True)]
        sizes.append((sum(own), sum(targets), tolerance / 2))
        for floor, area, share in sizes:
            for layer, off in (
                (Priority.AREAS, share),
                (Priority.ROUGH_AREAS, max(share, _ROUGHLY)),
                (Priority.LARGEST, max(share, _AT_MOST)),
            ):
                least, most = within(area, off)
                self._wish(layer, floor >= least, floor <= most)

    def _add_hall_sizes(self) -> None:
        """Add that the hall is wide enough, and a small part of the plan."""
        assert self.hall is not None  # asked for
        for side in self._sides(self.hall):
            self.model.add(side >= PASSAGE)
        most = round(100 * HALL_SHARE)
        self.model.add(100 * self.floors[self.hall] <= most * sum(self.floors))

    def _least_of(self, rule: str) -> Mapping[str, float]:
        """Least numbers of a rule by kind of room."""
        parameters = self._rule(rule)
        return {} if parameters is None else parameters["least"]

    def _add_floors(self) -> list[Any]:
        """Areas of the floors: of the boxes, less those of the boxes directly inside them."""
        grid, new = self.rule.grid, self.model.new_int_var
        boxes = [new(0, grid**2, "") for _ in self.rooms]
        for i, area in enumerate(boxes):
            self.model.add_multiplication_equality(area, self._sides(i))
        floors = []
        for v in range(len(self.rooms)):
            floors.append(floor := new(1, grid**2, ""))
            inner = [
                u
                for u in range(len(boxes))
                if (u, v) in self.inside
                and not any(
                    (u, k) in self.inside and (k, v) in self.inside for k in range(len(boxes))
                )
            ]
            taken = [boxes[u] for u in inner]
            for u in [u for u, outer in self.in_corner if outer == v]:
                taken.append(part := new(0, grid**2, ""))
                corner = self.in_corner[u, v]
                self.model.add(part == boxes[u]).only_enforce_if(corner)
                self.model.add(part == 0).only_enforce_if(corner.negated())
            self.model.add(floor == boxes[v] - sum(taken))
        return floors


def within(target: float, tolerance: float) -> tuple[int, int]:
    """Square decimetres: the range of floors around a target in square metres."""
    area = target * PER_METRE**2
    least, most = math.ceil(area * (1 - tolerance)), math.floor(area * (1 + tolerance))
    return max(1, least), max(1, most)
