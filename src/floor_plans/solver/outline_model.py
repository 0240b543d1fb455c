"""``OutlineModel``: rooms in their outline, with facades, cuts in corners, and the share that is
filled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Unpack

from floor_plans.diagrams.rooms import ROOM_TYPES
from floor_plans.plans.box_model import AXES, Relations
from floor_plans.plans.outline import PER_METRE
from floor_plans.plans.soft_constraints import NO_REQUIREMENT, Priority, Requirement
from floor_plans.solver.room_model import ModelOptions, PlanSpec, RoomModel, SoftConstraint

LOW, HIGH = 0, 1
"""Sides of a room along an axis."""

Span = tuple[Any, Any]
"""Ends of a range along an axis."""

Occupant = tuple[int, Any, list[Any]]
"""A room that may lie in another and take part of its wall: its number, the condition that it is
off the wall, and literals that it lies elsewhere."""

_UNEVEN, _EVEN, _OF_A_BOX = 0.05, 0.01, 4
"""Shares of the rooms' area that walls out of line and pockets take at most, in a compact plan and
in a tightened one; corners of a box."""

_LEAST_CUT = 5
"""Least sides of a cut, decimetres. A narrower cut is useless outdoors."""

_NEARLY_FILLED = (0.05, 0.1)
"""Shares by which an outline may miss the rule on filling, if priorities above exclude the rule."""

BALCONY, BALCONY_WALL = ROOM_TYPES.index("Balcony"), 0.1
"""Type of balconies, and the metres of facade that they have at least."""


@dataclass(frozen=True)
class Cut:
    """Rectangle cut from a corner of the box around a plan.

    ``is_behind``: its place along each axis; ``edges``: its inner edges; ``is_used``: literal that
    it is not empty.
    """

    is_behind: tuple[bool, ...]
    edges: list[Any]
    area: Any
    is_used: Any


class OutlineModel(RoomModel):
    """Rooms within the requested outline.

    ``size``: decimetres of the box around the plan; ``dead``: square decimetres of the outline that
    belong to no room. Soft constraints: rooms of the rules and balconies have facade, and rooms
    fill the outline.
    """

    def __init__(
        self,
        rooms: Sequence[int],
        relations: Relations,
        spec: PlanSpec,
        **free: Unpack[ModelOptions],
    ) -> None:
        super().__init__(rooms, relations, spec, **free)
        self.nested = {u for u, _ in self.inside}
        self.size = self._add_outline()
        self.dead = self._outline_area() - sum(self.floors)
        self._outer: dict[tuple[int, int], Any] = {}
        self.cuts = self._add_cuts()
        self._is_tight = False
        self.filling: list[SoftConstraint] = []
        self._add_facades()
        if spec.outline.boundary is None:
            self._add_compactness()
        elif (fill := self._rule("fill")) is not None:
            self._add_fill(fill["share"], fill["wall"])

    def _add_fill(self, share: float, wall: float) -> None:
        """Add soft constraints that rooms fill a share of the outline, as the rule counts: with
        half a wall around them.

        The rest may be a square in a corner with sides half a wall longer. Rests of other shapes
        are more wall, except for a strip across a narrow plot, so the rule itself judges every plan
        afterwards. Further soft constraints, of no rule, ask for a filled outline without walls.
        """
        # the rest as a square in a corner, half a wall longer
        area = self.spec.outline.area
        left = (math.sqrt((1 - share) * area) + wall / 2) ** 2
        requirement = Requirement(f"rooms fill {share:.0%} of the outline", "fill")
        soft = [
            (Priority.ROUGH_AREAS, (1 - share) * area, NO_REQUIREMENT),
            (Priority.FILL, left, requirement),
        ]
        soft += [
            (Priority.FILL, (1 - share + less) * area, NO_REQUIREMENT) for less in _NEARLY_FILLED
        ]
        for priority, most, requirement in soft:
            self._add_soft(
                priority, self.dead <= math.floor(most * PER_METRE**2), requirement=requirement
            )
            self.filling.append(self.soft[-1])

    def _add_outline(self) -> tuple[Any, Any]:
        """Add the hard constraints of the outline. Returns width and height of the box around the
        plan."""
        outline, grid = self.spec.outline, self.rule.grid
        width, height = (self.model.new_int_var(0, grid, "") for _ in AXES)
        # the box around all rooms
        for axis, end in enumerate((width, height)):
            self.model.add_max_equality(end, self.high[axis])
        # a boundary: no room in a blocked rectangle
        if outline.boundary is not None:
            for end, most in zip((width, height), outline.size, strict=True):
                self.model.add(end <= most)
            for i, (x0, y0, x1, y1) in product(range(len(self.rooms)), outline.blocked):
                sides = [self.high[0][i] <= x0, self.low[0][i] >= x1]
                sides += [self.high[1][i] <= y0, self.low[1][i] >= y1]
                self.model.add_bool_or([self._if(side) for side in sides])
            return width, height
        # a free outline begins at 0 and has a bounded ratio
        for axis in AXES:
            self.model.add_min_equality(0, self.low[axis])
        if outline.ratio is None:
            self.model.add(width <= 2 * height)
            self.model.add(height <= 2 * width)
        else:  # to within 2 %
            self.model.add(1000 * width <= math.ceil(1020 * outline.ratio) * height)
            self.model.add(1000 * width >= math.floor(980 * outline.ratio) * height)
        return width, height

    def _outline_area(self) -> Any:
        """Area of the outline, in square decimetres."""
        if self.spec.outline.boundary is not None:
            return round(self.spec.outline.area * PER_METRE**2)
        area = self.model.new_int_var(0, self.rule.grid**2, "")
        self.model.add_multiplication_equality(area, self.size)
        self.model.add(area >= sum(self.floors))
        return area

    def _add_cuts(self) -> list[Cut]:
        """Add rectangles without rooms in the corners of the box around a plan, if its outline is
        free and is to be compact."""
        if self.spec.outline.boundary is not None or self._rule("compact") is None:
            return []
        found = []
        for is_behind in product((False, True), repeat=2):
            sides = [self.model.new_int_var(0, self.rule.grid, "") for _ in AXES]
            area = self.model.new_int_var(0, self.rule.grid**2, "")
            self.model.add_multiplication_equality(area, sides)
            # an empty cut has no sides, another one is wide enough
            is_used = self.model.new_bool_var("")
            for side in sides:
                self.model.add(side == 0).only_enforce_if(is_used.negated())
                self.model.add(side >= _LEAST_CUT).only_enforce_if(is_used)
            edges = [
                self.size[a] - sides[a] if behind else sides[a]
                for a, behind in zip(AXES, is_behind, strict=True)
            ]
            # no room reaches into the cut
            for i in range(len(self.rooms)):
                off = [
                    self._if(
                        self.high[a][i] <= edges[a] if is_behind[a] else self.low[a][i] >= edges[a]
                    )
                    for a in AXES
                ]
                self.model.add_bool_or(off)
            found.append(Cut(is_behind, edges, area, is_used))
        return found

    def _add_compactness(self) -> None:
        """Add the soft constraint that the box around a plan, less its cuts, is filled. The rule's
        number of corners limits the cuts. An outline of that shape is as long as that of the
        box."""
        if (compact := self._rule("compact")) is not None:
            corners = int(compact["corners"]) - _OF_A_BOX
            few = 2 * sum(cut.is_used for cut in self.cuts) <= corners
            needed = Requirement("the outline is compact", "compact")
            self._add_soft(Priority.FILL, self._fill_condition(_UNEVEN), few, requirement=needed)

    def tighten(self) -> None:
        """Add hard constraints on a compact outline: hardly a pocket is left, and the outline is as
        short for its area as the rule requires.

        With ``half`` of its length, the latter means half^2 <= 4 perimeter^2 x area. Most outlines
        satisfy this anyway, and as a constraint on all plans it slows the search.
        """
        if self._is_tight or (compact := self._rule("compact")) is None:
            return
        self._is_tight = True
        self.model.add(self._fill_condition(_EVEN))
        half = self.model.new_int_var(0, 2 * self.rule.grid, "")
        square = self.model.new_int_var(0, 4 * self.rule.grid**2, "")
        self.model.add(half == sum(self.size))
        self.model.add_multiplication_equality(square, [half, half])
        longest = math.floor(100 * 4 * compact["perimeter"] ** 2)
        self.model.add(100 * square <= longest * sum(self.floors))

    def _fill_condition(self, but: float) -> Any:
        """Condition that the box less its cuts is filled, except for a share ``but`` of the rooms'
        area."""
        left = self.dead - sum(cut.area for cut in self.cuts)
        return left <= round(but * PER_METRE**2 * sum(self.spec.areas))

    def _add_facades(self) -> None:
        """Add soft constraints on the facade of each room."""
        for i in range(len(self.rooms)):
            if lengths := self._facades_of(i):
                metres, rule = max((length, rule) for rule, length in lengths.items())
                length = math.ceil(PER_METRE * metres)
                wall = f"{length / PER_METRE:g} m of outer wall" if rule else "an outer wall"
                requirement = Requirement(f"{{}} has {wall}", rule, (i,))
                priority = Priority.FACADE if rule else Priority.BALCONIES
                self._add_soft(priority, self.outer_wall(i, length) == 1, requirement=requirement)

    def _facades_of(self, room: int) -> dict[str, float]:
        """Metres of facade that each rule requires of a room; a balcony needs some, by no rule."""
        kind = self.kinds[room]
        lengths = {"": BALCONY_WALL} if self.rooms[room] == BALCONY else {}
        if (facade := self._rule("facade")) is not None and kind in facade["rooms"]:
            lengths["facade"] = facade["length"]
        if (window := self._rule("window")) is not None and kind in window["rooms"]:
            # window area for the largest floor within tolerance
            most = self.areas[room] * (1 + self.spec.tolerance)
            lengths["window"] = window["share"] * most / window["height"]
        return lengths

    def outer_wall(self, i: int, length: int) -> Any:
        """Literal that ``length`` decimetres of one side of a room lie on the outline, free of
        rooms inside it."""
        if (i, length) not in self._outer:
            self._outer[i, length] = found = self.model.new_bool_var("")
            ways = []
            for a, side, at, along in self._outer_lines():
                ways.append(way := self._if((self.low, self.high)[side][a][i] == at))
                spans = [self._span(1 - a, i), *along]
                self.add_clear_wall(way, 1 - a, spans, length, self._occupants(i, a, side))
            self.model.add_bool_or(ways).only_enforce_if(found)
        return self._outer[i, length]

    def wall_at(self, i: int, point: Sequence[float], length: int) -> Any:
        """Literal that ``length`` decimetres of a room's outer wall lie around a point of the
        boundary, free of rooms inside it. ``point``: decimetres from the outline's origin."""
        lines = list(self._outer_lines())
        # the line of the outline that is nearest to the point
        off = [
            math.dist(point, [at if b == a else min(max(point[b], low), high) for b in AXES])
            for a, _, at, along in lines
            for low, high in along or [(0, self.spec.outline.size[1 - a])]
        ]
        a, side, at, along = lines[off.index(min(off))]
        first, last = along[0] if along else (0, self.spec.outline.size[1 - a])
        start = round(min(max(point[1 - a] - length / 2, first), last - length))
        way = self._if((self.low, self.high)[side][a][i] == at)
        spans = [self._span(1 - a, i), (start, start + length)]
        self.add_clear_wall(way, 1 - a, spans, length, self._occupants(i, a, side))
        return way

    def _outer_lines(self) -> Iterator[tuple[int, int, Any, list[Span]]]:
        """Lines of the outline across an axis: the side of a room that is an outer wall there, the
        coordinate, and the range if it is limited."""
        outline = self.spec.outline
        for a, end in zip(
            AXES, self.size if outline.boundary is None else outline.size, strict=True
        ):
            yield a, LOW, 0, []
            yield a, HIGH, end, []
        # sides of blocked rectangles
        for blocked, a in product(outline.blocked, AXES):
            along = [(blocked[1 - a], blocked[3 - a])]
            yield a, LOW, blocked[a + 2], along
            yield a, HIGH, blocked[a], along
        # sides of cuts
        for cut, a in product(self.cuts, AXES):
            edge, other = cut.edges[a], cut.edges[1 - a]
            along = [(other, self.size[1 - a]) if cut.is_behind[1 - a] else (0, other)]
            yield a, HIGH if cut.is_behind[a] else LOW, edge, along

    def add_clear_wall(
        self, way: Any, axis: int, spans: Sequence[Span], length: int, occupants: Sequence[Occupant]
    ) -> None:
        """Add that ``way`` implies a piece of wall along an axis, as long as ``length``. It lies
        within all ``spans`` and clear of occupants.

        It lies before or behind an occupant, or the occupant is off the wall or lies elsewhere.
        """
        if not occupants:
            for (low, _), (_, high) in product(spans, spans):
                self.model.add(high - low >= length).only_enforce_if(way)
            return
        # the piece lies within every span
        start = self.model.new_int_var(0, self.rule.grid, "")
        for low, high in spans:
            self.model.add(start >= low).only_enforce_if(way)
            self.model.add(start + length <= high).only_enforce_if(way)
        # and clear of every occupant
        for k, is_away, lies_elsewhere in occupants:
            sides = [self.high[axis][k] <= start, self.low[axis][k] >= start + length, is_away]
            clear = [self._if(side) for side in sides]
            self.model.add_bool_or([*clear, *lies_elsewhere, way.negated()])

    def _span(self, axis: int, room: int) -> Span:
        """Range of a room along an axis."""
        return self.low[axis][room], self.high[axis][room]

    def _occupants(self, room: int, axis: int, side: int) -> list[Occupant]:
        """Rooms that lie or may lie in the box of a room and take part of one of its walls."""
        area_range: list[tuple[int, list[Any]]] = [
            (inner, []) for inner, outer in self.inside if outer == room
        ]
        area_range += [
            (inner, [lies.negated()])
            for (inner, outer), lies in self.in_corner.items()
            if outer == room
        ]
        low, high = self.low[axis], self.high[axis]
        return [
            (k, low[k] > low[room] if side == LOW else high[k] < high[room], elsewhere)
            for k, elsewhere in area_range
        ]
