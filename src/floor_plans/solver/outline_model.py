"""``OutlineModel``: the rooms of a plan in their outline: what lies outside, and what is filled."""

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
from floor_plans.solver.room_model import Demands, Free, RoomModel, Wish

LOW, HIGH = 0, 1
"""Sides of a room along an axis."""

Span = tuple[Any, Any]
"""From where to where, along an axis."""

Held = tuple[int, Any, list[Any]]
"""A room in another, that it is off the other's wall, and literals that it does not lie in it."""

_UNEVEN, _EVEN, _OF_A_BOX = 0.05, 0.01, 4
"""Shares of the rooms' area that walls out of line and pockets of a compact plan take at most, and
of one that is tightened; the corners of a box."""

_LEAST_CUT = 5
"""Decimetres of the sides of a cut, at least: what is narrower is no place outside."""

_NEARLY_FILLED = (0.05, 0.1)
"""What an outline may be filled less than its rule says, where that excludes what comes before."""

BALCONY, BALCONY_WALL = ROOM_TYPES.index("Balcony"), 0.1
"""The type, and the metres of outer wall that one has at least."""


@dataclass(frozen=True)
class Cut:
    """A rectangle in a corner of the box around a plan, ``is_behind`` along each axis or before:
    where its ``edges`` lie, its ``area``, and a literal that it has one."""

    is_behind: tuple[bool, ...]
    edges: list[Any]
    area: Any
    is_used: Any


class OutlineModel(RoomModel):
    """Rooms within the outline that is demanded.

    ``size``: decimetres of the box around the plan; ``dead``: square decimetres of the outline that
    belong to no room. Wishes that rooms of the rules have outer walls, that balconies do, and that
    rooms fill an outline.
    """

    def __init__(
        self, rooms: Sequence[int], relations: Relations, demands: Demands, **free: Unpack[Free]
    ) -> None:
        super().__init__(rooms, relations, demands, **free)
        self.nested = {u for u, _ in self.inside}
        self.size = self._add_outline()
        self.dead = self._outline_area() - sum(self.floors)
        self._outer: dict[tuple[int, int], Any] = {}
        self.cuts = self._add_cuts()
        self._is_tight = False
        self.filling: list[Wish] = []
        self._add_facades()
        if demands.outline.boundary is None:
            self._wish_compact()
        elif (fill := self._rule("fill")) is not None:
            self._wish_filled(fill["share"], fill["wall"])

    def _wish_filled(self, share: float, wall: float) -> None:
        """Wish that rooms fill a share of the outline, as the rule counts: with half a wall around
        them. What is left may then be a square in a corner with sides half a wall longer; of other
        shapes more is wall, but not of a strip across a narrow plot: the rule itself judges every
        plan afterwards. Beside the rule, that they do without walls."""
        area = self.demands.outline.area
        left = (math.sqrt((1 - share) * area) + wall / 2) ** 2
        need = Requirement(f"rooms fill {share:.0%} of the outline", "fill")
        wishes = [
            (Priority.ROUGH_AREAS, (1 - share) * area, NO_REQUIREMENT),
            (Priority.FILL, left, need),
        ]
        wishes += [
            (Priority.FILL, (1 - share + less) * area, NO_REQUIREMENT) for less in _NEARLY_FILLED
        ]
        for layer, most, stands_for in wishes:
            self._wish(layer, self.dead <= math.floor(most * PER_METRE**2), need=stands_for)
            self.filling.append(self.wishes[-1])

    def _add_outline(self) -> tuple[Any, Any]:
        outline, grid = self.demands.outline, self.rule.grid
        width, height = (self.model.new_int_var(0, grid, "") for _ in AXES)
        for axis, end in enumerate((width, height)):
            self.model.add_max_equality(end, self.high[axis])
        if outline.boundary is not None:
            for end, most in zip((width, height), outline.size, strict=True):
                self.model.add(end <= most)
            for i, (x0, y0, x1, y1) in product(range(len(self.rooms)), outline.blocked):
                sides = [self.high[0][i] <= x0, self.low[0][i] >= x1]
                sides += [self.high[1][i] <= y0, self.low[1][i] >= y1]
                self.model.add_bool_or([self._if(side) for side in sides])
            return width, height
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
        if self.demands.outline.boundary is not None:
            return round(self.demands.outline.area * PER_METRE**2)
        area = self.model.new_int_var(0, self.rule.grid**2, "")
        self.model.add_multiplication_equality(area, self.size)
        self.model.add(area >= sum(self.floors))
        return area

    def _add_cuts(self) -> list[Cut]:
        """Rectangles in the corners of the box around a plan in which no room lies, where its
        outline is free and is to be compact."""
        if self.demands.outline.boundary is not None or self._rule("compact") is None:
            return []
        found = []
        for is_behind in product((False, True), repeat=2):
            sides = [self.model.new_int_var(0, self.rule.grid, "") for _ in AXES]
            area = self.model.new_int_var(0, self.rule.grid**2, "")
            self.model.add_multiplication_equality(area, sides)
            is_used = self.model.new_bool_var("")
            for side in sides:
                self.model.add(side == 0).only_enforce_if(is_used.negated())
                self.model.add(side >= _LEAST_CUT).only_enforce_if(is_used)
            edges = [
                self.size[a] - sides[a] if behind else sides[a]
                for a, behind in zip(AXES, is_behind, strict=True)
            ]
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

    def _wish_compact(self) -> None:
        """Wish that the box around a plan is filled but for its cuts, as many as the rule leaves
        corners for: an outline of that shape is as long as that of the box."""
        if (compact := self._rule("compact")) is not None:
            corners = int(compact["corners"]) - _OF_A_BOX
            few = 2 * sum(cut.is_used for cut in self.cuts) <= corners
            needed = Requirement("the outline is compact", "compact")
            self._wish(Priority.FILL, self._is_filled(_UNEVEN), few, need=needed)

    def tighten(self) -> None:
        """Demand what the wish for a compact outline leaves to chance: that hardly a pocket is
        left, and that the outline is as short for its area as the rule has it, which is that
        ``half`` of its length squared is at most 4 perimeter^2 x area. Most outlines are, without
        being asked; asked of all plans it makes the search slow."""
        if self._is_tight or (compact := self._rule("compact")) is None:
            return
        self._is_tight = True
        self.model.add(self._is_filled(_EVEN))
        half = self.model.new_int_var(0, 2 * self.rule.grid, "")
        square = self.model.new_int_var(0, 4 * self.rule.grid**2, "")
        self.model.add(half == sum(self.size))
        self.model.add_multiplication_equality(square, [half, half])
        longest = math.floor(100 * 4 * compact["perimeter"] ** 2)
        self.model.add(100 * square <= longest * sum(self.floors))

    def _is_filled(self, but: float) -> Any:
        """That the box less its cuts is filled but for a share of the rooms' area."""
        left = self.dead - sum(cut.area for cut in self.cuts)
        return left <= round(but * PER_METRE**2 * sum(self.demands.areas))

    def _add_facades(self) -> None:
        for i in range(len(self.rooms)):
            if lengths := self._facades_of(i):
                metres, rule = max((length, rule) for rule, length in lengths.items())
                length = math.ceil(PER_METRE * metres)
                wall = f"{length / PER_METRE:g} m of outer wall" if rule else "an outer wall"
                need = Requirement(f"{{}} has {wall}", rule, (i,))
                layer = Priority.FACADE if rule else Priority.BALCONIES
                self._wish(layer, self.outer_wall(i, length) == 1, need=need)

    def _facades_of(self, room: int) -> dict[str, float]:
        """Metres of outer wall that each rule demands of a room; of a balcony some, by no rule."""
        kind = self.kinds[room]
        lengths = {"": BALCONY_WALL} if self.rooms[room] == BALCONY else {}
        if (facade := self._rule("facade")) is not None and kind in facade["rooms"]:
            lengths["facade"] = facade["length"]
        if (window := self._rule("window")) is not None and kind in window["rooms"]:
            most = self.areas[room] * (1 + self.demands.tolerance)
            lengths["window"] = window["share"] * most / window["height"]
        return lengths

    def outer_wall(self, i: int, length: int) -> Any:
        """A literal: so many decimetres of one side of a room lie on the outline, and no room in it
        takes them."""
        if (i, length) not in self._outer:
            self._outer[i, length] = found = self.model.new_bool_var("")
            ways = []
            for a, side, at, along in self._outer_lines():
                ways.append(way := self._if((self.low, self.high)[side][a][i] == at))
                spans = [self._span(1 - a, i), *along]
                self.add_clear_wall(way, 1 - a, spans, length, self._held(i, a, side))
            self.model.add_bool_or(ways).only_enforce_if(found)
        return self._outer[i, length]

    def wall_at(self, i: int, point: Sequence[float], length: int) -> Any:
        """A literal: so many decimetres of a room's outer wall lie around a point of the boundary,
        which no room in it takes; decimetres from the outline's origin."""
        lines = list(self._outer_lines())
        off = [
            math.dist(point, [at if b == a else min(max(point[b], low), high) for b in AXES])
            for a, _, at, along in lines
            for low, high in along or [(0, self.demands.outline.size[1 - a])]
        ]
        a, side, at, along = lines[off.index(min(off))]
        first, last = along[0] if along else (0, self.demands.outline.size[1 - a])
        start = round(min(max(point[1 - a] - length / 2, first), last - length))
        way = self._if((self.low, self.high)[side][a][i] == at)
        spans = [self._span(1 - a, i), (start, start + length)]
        self.add_clear_wall(way, 1 - a, spans, length, self._held(i, a, side))
        return way

    def _outer_lines(self) -> Iterator[tuple[int, int, Any, list[Span]]]:
        """Where the outline is crossed along an axis: which side of a room is an outer wall there,
        where that is, and from where to where if not everywhere."""
        outline = self.demands.outline
        for a, end in zip(
            AXES, self.size if outline.boundary is None else outline.size, strict=True
        ):
            yield a, LOW, 0, []
            yield a, HIGH, end, []
        for closed, a in product(outline.blocked, AXES):
            along = [(closed[1 - a], closed[3 - a])]
            yield a, LOW, closed[a + 2], along
            yield a, HIGH, closed[a], along
        for cut, a in product(self.cuts, AXES):
            edge, other = cut.edges[a], cut.edges[1 - a]
            along = [(other, self.size[1 - a]) if cut.is_behind[1 - a] else (0, other)]
            yield a, HIGH if cut.is_behind[a] else LOW, edge, along

    def add_clear_wall(
        self, way: Any, axis: int, spans: Sequence[Span], length: int, held: Sequence[Held]
    ) -> None:
        """Add, if ``way`` is true, a piece of wall so long, along an axis, in all of the ``spans``
        and in no room that is ``held``: it lies before or after it, or away from it, or the room
        does not lie there."""
        if not held:
            for (low, _), (_, high) in product(spans, spans):
                self.model.add(high - low >= length).only_enforce_if(way)
            return
        start = self.model.new_int_var(0, self.rule.grid, "")
        for low, high in spans:
            self.model.add(start >= low).only_enforce_if(way)
            self.model.add(start + length <= high).only_enforce_if(way)
        for k, is_away, lies_elsewhere in held:
            sides = [self.high[axis][k] <= start, self.low[axis][k] >= start + length, is_away]
            clear = [self._if(side) for side in sides]
            self.model.add_bool_or([*clear, *lies_elsewhere, way.negated()])

    def _span(self, axis: int, room: int) -> Span:
        return self.low[axis][room], self.high[axis][room]

    def _held(self, room: int, axis: int, side: int) -> list[Held]:
        """Rooms that lie, or may lie, in the box of a room, and may take of one of its walls."""
        within: list[tuple[int, list[Any]]] = [
            (inner, []) for inner, outer in self.inside if outer == room
        ]
        within += [
            (inner, [lies.negated()])
            for (inner, outer), lies in self.in_corner.items()
            if outer == room
        ]
        low, high = self.low[axis], self.high[axis]
        return [
            (k, low[k] > low[room] if side == LOW else high[k] < high[room], elsewhere)
            for k, elsewhere in within
        ]
