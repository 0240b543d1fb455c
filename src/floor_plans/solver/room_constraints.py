"""``RoomConstraints``: rooms of a floor plan, with their shapes and areas, in decimetres."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from discrete_diffusion.layout import ROOM_TYPES
from floor_plans.diagrams.geometry import threshold_of
from floor_plans.diagrams.vocabulary import INSIDE
from floor_plans.plans.box_model import AXES, CONTAIN, BoxModel, BoxRule
from floor_plans.plans.outline import PER_METRE, Rectangle
from floor_plans.rules.finding import HALL, TOLERANCE
from floor_plans.solver.spec import (
    MASTER,
    MAX_ASPECTS,
    NO_REQUIREMENT,
    OTHER_BEDROOMS,
    PlanSpec,
    Priority,
    Requirement,
    SoftConstraint,
    area_range,
    min_width,
)

BENT = tuple(
    k
    for k, name in enumerate(ROOM_TYPES)
    if name not in ("Bathroom", "Balcony", "Storage", "Wall-in")
)
"""Rooms that may be L-shaped: another room may lie in a corner of their box."""

PASSAGE = 9
"""Clear width in decimetres of a hall, and next to a room inside another that does not touch its
walls."""

STRIP = 13  # the same in decimetres, if a rule on shapes is to be kept

HALL_SHARE = 0.12  # largest share of the area of all rooms that an added hall has

HALL_TYPE = ROOM_TYPES.index("Entrance")
"""Type of an added hall in a diagram; files say "corridor" for it."""

NARROWEST, LONGEST = 5, 12
"""Least side in decimetres, and largest ratio of sides, of rooms as hard constraints."""

_ROUGHLY, _AT_MOST = 0.5, 1.0
"""Looser tolerances of areas, with priority over a filled outline, and over walls: no room has more
than twice its area."""

_CLOSELY = 0.02  # tolerance of an area that is requested for a change, as a share

_ROOMY = 2.2
"""Side of the grid / side of a square as large as all rooms, for outlines up to twice as long as
wide."""

LOW, HIGH = 0, 1  # sides of a room along an axis

Occupant = tuple[int, Any, list[Any]]
"""A room that may lie in another and take part of its wall: its number, the condition that it is
off the wall, and literals that are true if it lies elsewhere."""


@dataclass(frozen=True)
class Bend:
    """Bend of a room around a ``corner`` of the outline, with a blocked rectangle ``behind`` it.
    ``is_behind``: for each axis, True if the rectangle lies at the far end; ``arms``: for each
    axis, from the corner to the other side of the room; ``bends``: literal."""

    corner: tuple[int, ...]
    is_behind: tuple[bool, ...]
    behind: Rectangle
    arms: list[Any]
    bends: Any


@dataclass(frozen=True)
class FreeRectangle:
    """Rectangle in a room that ``holds`` keeps clear of doors, and of ``deep`` decimetres in front
    of them. ``low``, ``high``: its sides by axis."""

    low: list[Any]
    high: list[Any]
    holds: Any
    deep: int


class RoomConstraints:
    """Constraints on the shapes and floors of rooms, for the boxes of ``box_model``.

    ``floors``: square decimetres of every room's floor. ``inside``: pairs (inner, outer) by their
    relations; ``in_corner``: literal of each pair whose first room may lie in a corner of the
    second's box. ``free``: rectangles of rooms that doors keep clear of.
    ``bends``: how each room may bend around corners of the outline. ``unrelated``: pairs of rooms
    without a relation.
    ``soft``: soft constraints, also of other groups. Rooms without a relation are at least 0.7 m
    apart, as the rule relates rooms up to 0.63 m. No centre lies on the line of a side: the rule
    could read it on either side, as decimetres are not exact in metres.

    ``hall``: number of an added room, the last one, or None. It has any relation to others, but
    does not overlap them; ``kinds`` and ``areas`` (targets, 0 for it) include it. ``unknown``:
    pairs with any relation, including the pairs of the hall. ``least_grid``: minimum side of the
    grid in a free outline, decimetres.
    """

    def __init__(
        self,
        rooms: Sequence[int],
        relations: Sequence[tuple[int, int, int]],
        spec: PlanSpec,
        *,
        hall: bool,
        unknown: Iterable[tuple[int, int]],
        least_grid: int,
    ) -> None:
        self.spec, self.hall = spec, len(rooms) if hall else None
        self.rooms = [*rooms, *([HALL_TYPE] if hall else [])]
        self.kinds = [*(ROOM_TYPES[room] for room in rooms), *([HALL] if hall else [])]
        self.areas = [*spec.areas, *([0.0] if hall else [])]
        self.unknown = [*unknown, *((i, len(rooms)) for i in range(len(rooms) if hall else 0))]
        # a grid that is large enough for the outline
        if spec.outline.boundary is not None:
            grid = max(1, *spec.outline.size)
        else:
            roomy = _ROOMY * math.sqrt(max(1, spec.outline.elongation / 2))
            grid = max(math.ceil(roomy * PER_METRE * math.sqrt(sum(spec.areas))), least_grid)
        self.grid = grid
        threshold = math.floor(threshold_of("metres", None) * PER_METRE)
        rule = BoxRule(grid, threshold, min_side=min(grid, NARROWEST), max_aspect=LONGEST)
        # constraints: boxes, then floors, shapes and least sizes
        self.soft: list[SoftConstraint] = []
        self.inside = {(i, j) if r == INSIDE else (j, i) for i, j, r in relations if r in CONTAIN}
        known = {(i, j) for i, j, _ in relations} | {*self.unknown}
        self.unrelated = [p for p in combinations(range(len(self.rooms)), 2) if p not in known]
        self.in_corner: dict[tuple[int, int], Any] = {}
        self.free: dict[int, FreeRectangle] = {}
        self.bends: dict[int, list[Bend]] = {}
        self._passage = PASSAGE if spec.rule("shape") is None else STRIP
        self.box_model = BoxModel(len(self.rooms), rule, off_line=1)
        self.cp, self.literal = self.box_model.model, self.box_model.literal
        self.box_model.add_relations(
            relations, buildable=True, unknown=self.unknown, add_apart=self._add_apart
        )
        self.floors = self._add_floors()
        self._add_shapes()
        self._add_least_sizes()

    def one_of(self, ways: Iterable[Any]) -> Any:
        """Return a new literal that implies one of the literals ``ways``."""
        literal = self.cp.new_bool_var("")
        self.cp.add_bool_or([*ways, literal.negated()])
        return literal

    def add_soft(
        self, priority: Priority, *conditions: Any, requirement: Requirement = NO_REQUIREMENT
    ) -> SoftConstraint:
        """Add and return a soft constraint, whose literal implies the conditions."""
        self.soft.append(SoftConstraint(priority, self.literal(*conditions), requirement))
        return self.soft[-1]

    def add_literal(
        self, priority: Priority, literal: Any, text: str, rule: str, *rooms: int
    ) -> None:
        """Add a literal as a soft constraint; the other arguments are its ``Requirement``."""
        self.soft.append(SoftConstraint(priority, literal, Requirement(text, rule, rooms)))

    def add_area_targets(self, requested: Collection[int] | None) -> list[SoftConstraint]:
        """Add soft constraints: areas are within their tolerance, and their sum within half of it,
        each at three tolerances with three priorities. ``requested``: constrain these rooms alone,
        first within the tolerance, then closely, and return these constraints."""
        tolerance, targets = self.spec.tolerance, self.spec.areas
        if requested is not None:
            ranges = product(sorted(requested), (tolerance, min(_CLOSELY, tolerance)))
            return [
                self._add_area(Priority.ACCESS, self.floors[k], targets[k], off)
                for k, off in ranges
            ]
        own = self.floors[: len(targets)]
        sizes = [(floor, area, tolerance) for floor, area in zip(own, targets, strict=True)]
        for floor, area, share in (*sizes, (sum(own), sum(targets), tolerance / 2)):
            for priority, off in (
                (Priority.AREAS, share),
                (Priority.ROUGH_AREAS, max(share, _ROUGHLY)),
                (Priority.LARGEST, max(share, _AT_MOST)),
            ):
                self._add_area(priority, floor, area, off)
        # a master room that should be the largest bedroom is
        for k, j in product(range(len(own)), repeat=2):
            is_bedroom = self.kinds[k] == MASTER and self.kinds[j] in OTHER_BEDROOMS
            if is_bedroom and targets[k] >= targets[j]:
                self.add_soft(Priority.ROUGH_AREAS, own[k] >= own[j])
        return []

    def _add_area(
        self, priority: Priority, floor: Any, target: float, off: float
    ) -> SoftConstraint:
        """Add the soft constraint that a floor is within the share ``off`` of its target."""
        least, most = area_range(target, off)
        return self.add_soft(priority, floor >= least, floor <= most)

    def span(self, axis: int, room: int) -> tuple[Any, Any]:
        """Range of a room along an axis, or of the free rectangle of room -1 - ``room``."""
        if room < 0:
            return self.free[~room].low[axis], self.free[~room].high[axis]
        return self.box_model.low[axis][room], self.box_model.high[axis][room]

    def occupants(
        self, room: int, axis: int, side: int, *, door: bool = False, at: int | None = None
    ) -> list[Occupant]:
        """Rooms that lie or may lie in the box of a room and take part of one of its walls. For a
        ``door``, the room's free rectangle with the space in front of the wall is one too. ``at``:
        coordinate of the wall, if it is not at the side of the box."""
        found: list[tuple[int, list[Any]]] = [(u, []) for u, v in self.inside if v == room]
        found += [(u, [lies.negated()]) for (u, v), lies in self.in_corner.items() if v == room]
        low, high = self.box_model.low[axis], self.box_model.high[axis]
        wall = (low, high)[side][room] if at is None else at
        taken = [
            (k, low[k] > wall if side == LOW else high[k] < wall, elsewhere)
            for k, elsewhere in found
        ]
        if door and (free := self.free.get(room)) is not None:
            away = free.low[axis] >= wall + free.deep
            if side == HIGH:
                away = free.high[axis] <= wall - free.deep
            taken.append((~room, away, [free.holds.negated()]))
        return taken

    def add_clear_wall(
        self,
        way: Any,
        axis: int,
        spans: Sequence[tuple[Any, Any]],
        length: int,
        occupants: Sequence[Occupant],
    ) -> None:
        """Require a free piece of wall along ``axis`` if the literal ``way`` is true.

        The piece has the given ``length``, lies within all ``spans``, and overlaps no occupant.
        Occupants that are off the wall or elsewhere do not count, see ``Occupant``."""
        if not occupants:
            for (low, _), (_, high) in product(spans, spans):
                self.cp.add(high - low >= length).only_enforce_if(way)
            return
        # the piece lies within every span
        start = self.cp.new_int_var(0, self.grid, "")
        for low, high in spans:
            self.cp.add(start >= low).only_enforce_if(way)
            self.cp.add(start + length <= high).only_enforce_if(way)
        # and clear of every occupant
        for k, is_away, lies_elsewhere in occupants:
            low, high = self.span(axis, k)
            clear = [self.literal(side) for side in (high <= start, low >= start + length, is_away)]
            self.cp.add_bool_or([*clear, *lies_elsewhere, way.negated()])

    def _width_of(self, room: int) -> int:
        """Usual minimum width of a room, decimetres."""
        width = min_width(self.rooms[room], self.areas[room])
        return max(NARROWEST, math.floor(PER_METRE * width))

    def _add_apart(self, i: int, j: int) -> None:
        """Make two rooms share no area, or the smaller lie in a corner of the other's box."""
        ways = self.box_model.apart(i, j)
        # the larger room is not nested, or a floor around both would lose the area twice
        u, v = sorted((i, j), key=lambda room: self.areas[room])
        is_nested = any(outer == u or inner == v for inner, outer in self.inside)
        if self.rooms[v] in BENT and not is_nested:
            ways.append(self._corner_literal(u, v))
        self.cp.add_bool_or(ways)

    def _corner_literal(self, u: int, v: int) -> Any:
        """Literal that implies: u is in a corner of the box of v, clear of the free strip of v."""
        # flush with v on each axis, with a passage left on the other side
        margins = self.box_model.margins(u, v)
        corner = self.literal(*(margin >= 0 for margin in margins))
        flush = [self.literal(margin == 0) for margin in margins]
        for axis in AXES:
            self.cp.add_bool_or([*flush[axis::2], corner.negated()])
            self.cp.add(sum(margins[axis::2]) >= self._passage).only_enforce_if(corner)
        # a hall on the centre of v would be read as a room that v is inside
        if u == self.hall:
            sides = zip(self.box_model.sides(u), self.box_model.sides(v), strict=True)
            off = [self.literal(2 * own < others) for own, others in sides]
            self.cp.add_bool_or([*off, corner.negated()])
        # elsewhere flush or a passage wide, with v's own width kept
        for margin, is_flush in zip(margins, flush, strict=True):
            self.cp.add_bool_or([is_flush, self.literal(margin >= self._passage), corner.negated()])
        for margin, is_free in zip(margins, self.box_model.free_sides(v), strict=True):
            self.cp.add(margin >= self._width_of(v)).only_enforce_if(corner, is_free)
        # no chain of rooms in corners of each other
        before = [other for (_, outer), other in self.in_corner.items() if outer == u]
        behind = [
            other for (inner, outer), other in self.in_corner.items() if inner == v and outer != u
        ]
        for other in (*before, *behind):
            self.cp.add_bool_or([corner.negated(), other.negated()])
        self.in_corner[u, v] = corner
        return corner

    def _add_shapes(self) -> None:
        """Add constraints on usual widths and shapes: hard for the hall, soft for other rooms."""
        for i, room in enumerate(self.rooms):
            width, height = self.box_model.sides(i)
            # the hall is wide enough, and a small part of the plan
            if i == self.hall:
                for side in (width, height):
                    self.cp.add(side >= PASSAGE)
                self.cp.add(100 * self.floors[i] <= round(100 * HALL_SHARE) * sum(self.floors))
                continue
            # width and aspect ratio
            conditions = [side >= self._width_of(i) for side in (width, height)]
            conditions += [width <= MAX_ASPECTS[room] * height, height <= MAX_ASPECTS[room] * width]
            usual = self.add_soft(Priority.SHAPES, *conditions).literal
            for u in sorted(u for u, v in self.inside if v == i):
                self.keep_to_walls(u, i, PASSAGE, usual)

    def keep_to_walls(self, u: int, v: int, passage: int, literal: Any) -> None:
        """Keep u, inside v, at each wall or a ``passage`` away if the literal is true. The floor
        lies on both sides of u along one axis only if u touches a wall on the other."""
        for axis in AXES:
            margins = self.box_model.margins(u, v)
            for margin in margins[axis::2]:
                clear = [self.literal(margin == 0), self.literal(margin >= passage)]
                self.cp.add_bool_or([*clear, literal.negated()])
            around = [self.literal(margin >= 1) for margin in margins[axis::2]]
            around += [self.literal(margin == 0) for margin in margins[1 - axis :: 2]]
            self.cp.add_bool_or([*around, literal.negated()])

    def _add_least_sizes(self) -> None:
        """Add soft constraints: rooms have the minimum widths and areas that the rules require."""
        widths, areas = (
            (self.spec.rule(name) or {"least": {}})["least"] for name in ("width", "area")
        )
        for i, kind in enumerate(self.kinds):
            if (least := widths.get(kind)) is not None:
                narrow = math.ceil((least - TOLERANCE) * PER_METRE)
                wide = [side >= narrow for side in self.box_model.sides(i)]
                requirement = Requirement(f"{{}} is at least {least:g} m wide", "width", (i,))
                self.add_soft(Priority.SIZES, *wide, requirement=requirement)
            if (least := areas.get(kind)) is not None:
                small = math.ceil((least - TOLERANCE) * PER_METRE**2)
                requirement = Requirement(f"{{}} has at least {least:g} m2", "area", (i,))
                self.add_soft(Priority.SIZES, self.floors[i] >= small, requirement=requirement)

    def _bend(self, room: int, behind: Rectangle, new: Callable[..., Any]) -> Any:
        """Let a room bend around the corner of a blocked rectangle that lies in a corner of the
        outline. Returns the area in its box that is blocked."""
        literal, lost, arms = self.cp.new_bool_var(""), [], []
        is_behind = tuple(behind[a] > 0 for a in AXES)
        corner = tuple(behind[a] if is_behind[a] else behind[a + 2] for a in AXES)
        for a in AXES:
            low, high = self.span(a, room)
            # an arm as wide as the room, and another that reaches past the corner
            near, past = corner[a] - low, high - corner[a]
            if not is_behind[a]:
                near, past = high - corner[a], corner[a] - low
            for length, least in ((near, self._width_of(room)), (past, self._passage)):
                self.cp.add(length >= least).only_enforce_if(literal)
            arms.append(near)
            lost.append(side := new(0, self.grid, ""))
            self.cp.add(side == past).only_enforce_if(literal)
            self.cp.add(side == 0).only_enforce_if(literal.negated())
        self.bends.setdefault(room, []).append(Bend(corner, is_behind, behind, arms, literal))
        self.cp.add_multiplication_equality(area := new(0, self.grid**2, ""), lost)
        return area

    def _add_floors(self) -> list[Any]:
        """Floor area of each room: its box, less the boxes directly inside it or in its corners,
        and less what is not in the outline."""
        most, new = self.grid**2, self.cp.new_int_var
        boxes = [new(0, most, "") for _ in self.rooms]
        for i, area in enumerate(boxes):
            self.cp.add_multiplication_equality(area, self.box_model.sides(i))
        floors = []
        for v in range(len(self.rooms)):
            floors.append(floor := new(1, most, ""))
            # rooms directly inside, not within another inner room
            inner = [u for u in range(len(boxes)) if (u, v) in self.inside]
            taken = [boxes[u] for u in inner if not any((u, k) in self.inside for k in inner)]
            # rooms in a corner, if they are there
            for (u, outer), corner in self.in_corner.items():
                if outer == v:
                    taken.append(part := new(0, most, ""))
                    self.cp.add(part == boxes[u]).only_enforce_if(corner)
                    self.cp.add(part == 0).only_enforce_if(corner.negated())
            # the outline, if the room bends around one of its corners
            if self.rooms[v] in BENT and v != self.hall:
                taken += [self._bend(v, each, new) for each in self.spec.outline.blocked_corners]
            self.cp.add(floor == boxes[v] - sum(taken))
        return floors
