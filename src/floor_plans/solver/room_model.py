"""``RoomModel``: rooms of a floor plan, with their shapes and areas, in decimetres."""

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
"""Rooms that may be L-shaped: another room may lie in a corner of their box."""

PASSAGE = 9
"""Clear width in decimetres of a hall, and next to a room inside another that does not touch its
walls."""

HALL_SHARE = 0.12
"""Largest share of the area of all rooms that an added hall has."""

HALL_TYPE = ROOM_TYPES.index("Entrance")
"""Type of an added hall in a diagram; files say "corridor" for it."""

NARROWEST, LONGEST = 5, 12
"""Least side in decimetres, and largest ratio of sides, of rooms as hard constraints."""

_ROUGHLY, _AT_MOST = 0.5, 1.0
"""Looser tolerances of areas, with priority over a filled outline, and over walls: no room has more
than twice its area."""

_ROOMY = 2.2
"""Side of the grid / side of a square as large as all rooms, for outlines up to twice as long as
wide."""


@dataclass(frozen=True)
class PlanSpec:
    """Specification of a floor plan, in addition to its diagram.

    ``areas``: square metres of every room's floor, kept within the share ``tolerance``, and their
    sum within half of it. ``rules``: rules of living to keep. Rooms also have the least widths and
    the shapes usual for their types, and doors lead to all of them. ``front_door``: its place on
    the boundary of the outline, metres. ``north``: degrees clockwise from up; plans with living
    rooms in the south cost less.
    """

    areas: tuple[float, ...]
    tolerance: float = 0.1
    outline: Outline = FREE
    rules: RuleSet = NO_RULES
    front_door: Point | None = None
    north: float | None = None


def dropped_for_rules(spec: PlanSpec) -> frozenset[Priority]:
    """Priorities that are dropped to keep the rules. In a free outline rooms stay below twice their
    target area, as no plot requires more."""
    is_free = spec.outline.boundary is None
    return WITHOUT_RULES - {Priority.LARGEST} if is_free else WITHOUT_RULES


@dataclass(frozen=True)
class SoftConstraint:
    """Literal that is true in as many plans as possible. ``requirement``: its meaning in words."""

    priority: Priority
    literal: Any
    requirement: Requirement = NO_REQUIREMENT


class ModelOptions(TypedDict, total=False):
    """Options ``hall`` and ``unknown`` of ``RoomModel``."""

    hall: bool
    unknown: Iterable[tuple[int, int]]


class RoomModel(BoxModel):
    """Boxes of a diagram with the shapes and floors of a specification.

    ``floors``: square decimetres of every room's floor. ``inside``: pairs (inner, outer) by their
    relations; ``in_corner``: literals that the first room lies in a corner of the second's box.
    Rooms without a relation are at least 0.7 m apart, as the rule relates rooms up to 0.63 m.

    ``hall``: number of an added room, the last one, or None. It has any relation to others, but
    does not overlap them; ``kinds`` and ``areas`` (targets, 0 for it) include it. ``unknown``:
    pairs with any relation, those of the hall included. No centre lies on the line of a side. The
    rule could read such a centre on either side, as decimetres are not exact in metres.
    """

    off_line: ClassVar[int] = 1

    def __init__(
        self,
        rooms: Sequence[int],
        relations: Relations,
        spec: PlanSpec,
        *,
        hall: bool = False,
        unknown: Iterable[tuple[int, int]] = (),
    ) -> None:
        self.spec, relations = spec, tuple(relations)
        self.hall = len(rooms) if hall else None
        self.rooms = [*rooms, *([HALL_TYPE] if hall else [])]
        self.kinds = [*(ROOM_TYPES[room] for room in rooms), *([HALL] if hall else [])]
        self.areas = [*spec.areas, *([0.0] if hall else [])]
        self.unknown = [*unknown, *((i, len(rooms)) for i in range(len(rooms) if hall else 0))]
        # a grid that is large enough for the outline
        roomy = _ROOMY * math.sqrt(max(1, spec.outline.elongation / 2))
        grid = math.ceil(roomy * PER_METRE * math.sqrt(sum(spec.areas)))
        if spec.outline.boundary is not None:
            grid = max(1, *spec.outline.size)
        else:
            grid = max(grid, self._least_grid())
        rule = BoxRule(
            grid=grid,
            threshold=math.floor(threshold_of("metres", None) * PER_METRE),
            min_side=min(grid, NARROWEST),
            max_aspect=LONGEST,
        )
        # constraints: boxes, then floors, shapes and sizes
        self.soft: list[SoftConstraint] = []
        self.inside = {(i, j) if r == INSIDE else (j, i) for i, j, r in relations if r in CONTAIN}
        self.in_corner: dict[tuple[int, int], Any] = {}
        super().__init__(len(self.rooms), relations, rule, buildable=True, unknown=self.unknown)
        self.floors = self._add_floors()
        self._add_shapes()
        self._add_sizes()

    def _add_soft(
        self, priority: Priority, *conditions: Any, requirement: Requirement = NO_REQUIREMENT
    ) -> Any:
        """Add a soft constraint. Returns its literal, which implies the conditions."""
        literal = self._if(*conditions)
        self.soft.append(SoftConstraint(priority, literal, requirement))
        return literal

    def _rule(self, name: str) -> Parameters | None:
        """Parameters of a rule; None if the plan need not keep it."""
        return self.spec.rules.rules.get(name)

    def _least_grid(self) -> int:
        """Least side of the grid in a free outline, decimetres."""
        return 0

    def _width_of(self, room: int) -> int:
        """Usual least width of a room, decimetres."""
        width = min_width(self.rooms[room], self.areas[room])
        return max(NARROWEST, math.floor(PER_METRE * width))

    def _add_apart(self, i: int, j: int) -> None:
        """Add that two rooms share no area, or the smaller one lies in a corner of the other's box.
        The latter is excluded if the other is inside a third, whose floor would lose its area
        twice."""
        ways = self._apart(i, j)
        # the smaller room in a corner of the larger
        u, v = sorted((i, j), key=lambda room: self.areas[room])
        is_nested = any(outer == u or inner == v for inner, outer in self.inside)
        if self.rooms[v] in BENT and not is_nested:
            ways.append(self._corner_literal(u, v))
        self.model.add_bool_or(ways)

    def _add_apart_or_within(self, i: int, j: int) -> None:
        """Add that two rooms share no area; rooms of an unknown relation are not nested here."""
        self._add_apart(i, j)

    def _corner_literal(self, u: int, v: int) -> Any:
        """Literal that u lies in a corner of the box of v, clear of its free strip."""
        # flush with v on each axis, with a passage left on the other side
        margins = self._margins(u, v)
        corner = self._if(*(margin >= 0 for margin in margins))
        flush = [self._if(margin == 0) for margin in margins]
        for axis in AXES:
            self.model.add_bool_or([*flush[axis::2], corner.negated()])
            self.model.add(sum(margins[axis::2]) >= PASSAGE).only_enforce_if(corner)
        # a hall on the centre of v would be read as a room that v is inside
        if u == self.hall:
            sides = zip(self._sides(u), self._sides(v), strict=True)
            off = [self._if(2 * own < others) for own, others in sides]
            self.model.add_bool_or([*off, corner.negated()])
        # elsewhere flush or a passage wide, with v's own width kept
        for margin, is_flush in zip(margins, flush, strict=True):
            self.model.add_bool_or([is_flush, self._if(margin >= PASSAGE), corner.negated()])
        for margin, is_free in zip(margins, self._free_sides(v), strict=True):
            self.model.add(margin >= self._width_of(v)).only_enforce_if(corner, is_free)
        # no chain of rooms in corners of each other
        for (_, outer), other in self.in_corner.items():
            if outer == u:
                self.model.add_bool_or([corner.negated(), other.negated()])
        for (inner, outer), other in self.in_corner.items():
            if inner == v and outer != u:
                self.model.add_bool_or([corner.negated(), other.negated()])
        self.in_corner[u, v] = corner
        return corner

    def _add_shapes(self) -> None:
        """Add soft constraints on usual widths and shapes. Rooms inside another leave no slivers
        next to them and do not split its floor."""
        for i, room in enumerate(self.rooms):
            width, height = self._sides(i)
            if i == self.hall:
                self._add_hall_sizes()
                continue
            # width and aspect ratio
            conditions = [side >= self._width_of(i) for side in (width, height)]
            conditions += [width <= MAX_ASPECTS[room] * height, height <= MAX_ASPECTS[room] * width]
            usual = self._add_soft(Priority.SHAPES, *conditions)
            for u, axis in product(sorted(u for u, v in self.inside if v == i), AXES):
                margins = self._margins(u, i)
                for margin in margins[axis::2]:
                    clear = [self._if(margin == 0), self._if(margin >= PASSAGE)]
                    self.model.add_bool_or([*clear, usual.negated()])
                # floor on both sides along one axis only if it touches a wall on the other
                around = [self._if(margin >= 1) for margin in margins[axis::2]]
                around += [self._if(margin == 0) for margin in margins[1 - axis :: 2]]
                self.model.add_bool_or([*around, usual.negated()])

    def _add_sizes(self) -> None:
        """Add soft constraints on the least widths and areas of the rules, and on target areas."""
        widths, areas = (self._least_of(name) for name in ("width", "area"))
        for i, kind in enumerate(self.kinds):
            # limits are rounded up to the grid, less the tolerance
            if (least := widths.get(kind)) is not None:
                narrow = math.ceil((least - TOLERANCE) * PER_METRE)
                sides = (side >= narrow for side in self._sides(i))
                requirement = Requirement(f"{{}} is at least {least:g} m wide", "width", (i,))
                self._add_soft(Priority.SIZES, *sides, requirement=requirement)
            if (least := areas.get(kind)) is not None:
                small = math.ceil((least - TOLERANCE) * PER_METRE**2)
                requirement = Requirement(f"{{}} has at least {least:g} m2", "area", (i,))
                self._add_soft(Priority.SIZES, self.floors[i] >= small, requirement=requirement)
        self._add_area_targets()

    def _add_area_targets(self) -> None:
        """Add soft constraints on areas within their tolerance, and on their sum within half of
        it."""
        tolerance, targets = self.spec.tolerance, self.spec.areas
        own = self.floors[: len(targets)]
        sizes = [(floor, area, tolerance) for floor, area in zip(own, targets, strict=True)]
        sizes.append((sum(own), sum(targets), tolerance / 2))
        # three tolerances, at three priorities
        for floor, area, share in sizes:
            for priority, off in (
                (Priority.AREAS, share),
                (Priority.ROUGH_AREAS, max(share, _ROUGHLY)),
                (Priority.LARGEST, max(share, _AT_MOST)),
            ):
                least, most = area_range(area, off)
                self._add_soft(priority, floor >= least, floor <= most)

    def _add_hall_sizes(self) -> None:
        """Add hard constraints that the hall is wide enough, and a small part of the plan."""
        assert self.hall is not None  # checked by the caller
        for side in self._sides(self.hall):
            self.model.add(side >= PASSAGE)
        most = round(100 * HALL_SHARE)
        self.model.add(100 * self.floors[self.hall] <= most * sum(self.floors))

    def _least_of(self, rule: str) -> Mapping[str, float]:
        """Least numbers of a rule by kind of room."""
        parameters = self._rule(rule)
        return {} if parameters is None else parameters["least"]

    def _add_floors(self) -> list[Any]:
        """Areas of the floors: of boxes, less the boxes directly inside them and in their
        corners."""
        grid, new = self.rule.grid, self.model.new_int_var
        boxes = [new(0, grid**2, "") for _ in self.rooms]
        for i, area in enumerate(boxes):
            self.model.add_multiplication_equality(area, self._sides(i))
        floors = []
        for v in range(len(self.rooms)):
            floors.append(floor := new(1, grid**2, ""))
            # rooms directly inside, not within another inner room
            inner = [
                u
                for u in range(len(boxes))
                if (u, v) in self.inside
                and not any(
                    (u, k) in self.inside and (k, v) in self.inside for k in range(len(boxes))
                )
            ]
            taken = [boxes[u] for u in inner]
            # rooms in a corner, if they are there
            for u in [u for u, outer in self.in_corner if outer == v]:
                taken.append(part := new(0, grid**2, ""))
                corner = self.in_corner[u, v]
                self.model.add(part == boxes[u]).only_enforce_if(corner)
                self.model.add(part == 0).only_enforce_if(corner.negated())
            self.model.add(floor == boxes[v] - sum(taken))
        return floors


def area_range(target: float, tolerance: float) -> tuple[int, int]:
    """Range of a floor in square decimetres around a target in square metres."""
    area = target * PER_METRE**2
    least, most = math.ceil(area * (1 - tolerance)), math.floor(area * (1 + tolerance))
    return max(1, least), max(1, most)
