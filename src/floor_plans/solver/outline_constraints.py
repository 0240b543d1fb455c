"""``OutlineConstraints``: keep rooms in the outline, give them facades, and fill the outline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from discrete_diffusion.layout import ROOM_TYPES
from floor_plans.plans.box_model import AXES
from floor_plans.plans.outline import PER_METRE
from floor_plans.solver.room_constraints import HIGH, LOW, Bend, RoomConstraints
from floor_plans.solver.spec import (
    NO_REQUIREMENT,
    Priority,
    Requirement,
    SoftConstraint,
    unfilled_area,
)

Line = tuple[int, int, Any, list[tuple[Any, Any]]]
"""Line of the outline across an axis: the axis, the side of a room that is an outer wall there, the
coordinate, and the range if it is limited."""

_UNEVEN, _EVEN, _OF_A_BOX = 0.05, 0.01, 4
"""Shares of the rooms' area that walls out of line and pockets take at most, in a compact plan and
in a tightened one; corners of a box."""

_SLITS = 175  # most square decimetres left empty in a tightened plan on a given outline

_LEAST_CUT = 9  # least sides of a cut, decimetres. A narrower cut is useless outdoors

_NEARLY_FILLED = (0.05, 0.1)
"""Shares by which an outline may miss the rule on filling, if priorities above exclude the rule."""

BALCONY, BALCONY_WALL = ROOM_TYPES.index("Balcony"), 0.1
"""Type of balconies, and the metres of facade that they have at least."""


@dataclass(frozen=True)
class Cut:
    """Rectangle cut from a corner of the box around a plan. ``is_behind``: for each axis, True if
    it is cut from the far end; ``edges``: its inner edges; ``is_used``: literal of a cut that is
    not empty."""

    is_behind: tuple[bool, ...]
    edges: list[Any]
    area: Any
    is_used: Any


class OutlineConstraints:
    """Constraints on ``rooms`` in the requested outline.

    ``size``: decimetres of the box around the plan; ``dead``: square decimetres of the outline that
    belong to no room. Soft constraints: balconies and the rooms that rules name have facade, and
    rooms fill the outline (``filling``).
    """

    def __init__(self, rooms: RoomConstraints) -> None:
        self.rooms, self.spec = rooms, rooms.spec
        self.cp, self.literal = rooms.cp, rooms.literal
        self.size = self._add_outline()
        # area of the outline, less the floors
        if self.spec.outline.boundary is not None:
            area: Any = round(self.spec.outline.area * PER_METRE**2)
        else:
            area = self.cp.new_int_var(0, rooms.grid**2, "")
            self.cp.add_multiplication_equality(area, self.size)
            self.cp.add(area >= sum(rooms.floors))
        self.dead = area - sum(rooms.floors)
        self._outer: dict[tuple[int, int, bool], Any] = {}
        is_compact = self.spec.rule("compact") is not None and self.spec.outline.boundary is None
        self.cuts = [self._cut(place) for place in product((False, True), repeat=2) if is_compact]
        self._is_tight = False
        self.filling: list[SoftConstraint] = []
        self._add_facades()
        compact = self.spec.rule("compact")
        if self.spec.outline.boundary is None and compact is not None:
            # the box around a plan, less a few cuts, is filled
            corners = int(compact["corners"]) - _OF_A_BOX
            few = 2 * sum(cut.is_used for cut in self.cuts) <= corners
            conditions = self._fill_condition(_UNEVEN), few
            needed = Requirement("the outline is compact", "compact")
            rooms.add_soft(Priority.FILL, *conditions, requirement=needed)
        elif (
            self.spec.outline.boundary is not None and (fill := self.spec.rule("fill")) is not None
        ):
            # rooms fill a share, half a wall included; the rule itself judges other shapes
            share, area = fill["share"], self.spec.outline.area
            left = unfilled_area(self.spec.outline, fill)
            requirement = Requirement(f"rooms fill {share:.0%} of the outline", "fill")
            for priority, most, needed in (
                (Priority.ROUGH_AREAS, (1 - share) * area, NO_REQUIREMENT),
                (Priority.FILL, left, requirement),
                *((Priority.FILL, (1 - share + x) * area, NO_REQUIREMENT) for x in _NEARLY_FILLED),
            ):
                dead = self.dead <= math.floor(most * PER_METRE**2)
                self.filling.append(rooms.add_soft(priority, dead, requirement=needed))

    def _add_outline(self) -> tuple[Any, Any]:
        """Add the hard constraints of the outline. Returns width and height of the box around
        it."""
        outline, box_model = self.spec.outline, self.rooms.box_model
        width, height = (self.cp.new_int_var(0, self.rooms.grid, "") for _ in AXES)
        # the box around all rooms
        for axis, end in enumerate((width, height)):
            self.cp.add_max_equality(end, box_model.high[axis])
        # a boundary: no room in a blocked rectangle
        if outline.boundary is not None:
            for end, most in zip((width, height), outline.size, strict=True):
                self.cp.add(end <= most)
            for i, blocked in product(range(len(self.rooms.rooms)), outline.blocked):
                ways = [b.bends for b in self.rooms.bends.get(i, []) if b.behind == blocked]
                for a in AXES:
                    low, high = self.rooms.span(a, i)
                    ways += [self.literal(high <= blocked[a])]
                    ways += [self.literal(low >= blocked[a + 2])]
                self.cp.add_bool_or(ways)
            return width, height
        # a free outline begins at 0 and has a bounded ratio
        for axis in AXES:
            self.cp.add_min_equality(0, box_model.low[axis])
        if outline.ratio is None:
            self.cp.add(width <= 2 * height)
            self.cp.add(height <= 2 * width)
        else:  # to within 2 %
            self.cp.add(1000 * width <= math.ceil(1020 * outline.ratio) * height)
            self.cp.add(1000 * width >= math.floor(980 * outline.ratio) * height)
        return width, height

    def _cut(self, is_behind: tuple[bool, ...]) -> Cut:
        """Add a rectangle without rooms in a corner of the box around a plan."""
        sides = [self.cp.new_int_var(0, self.rooms.grid, "") for _ in AXES]
        area = self.cp.new_int_var(0, self.rooms.grid**2, "")
        self.cp.add_multiplication_equality(area, sides)
        # an empty cut has no sides, another one is wide enough
        is_used = self.cp.new_bool_var("")
        for side in sides:
            self.cp.add(side == 0).only_enforce_if(is_used.negated())
            self.cp.add(side >= _LEAST_CUT).only_enforce_if(is_used)
        edges = [self.size[a] - sides[a] if is_behind[a] else sides[a] for a in AXES]
        # no room reaches into the cut
        for i in range(len(self.rooms.rooms)):
            off = []
            for a in AXES:
                low, high = self.rooms.span(a, i)
                off.append(self.literal(high <= edges[a] if is_behind[a] else low >= edges[a]))
            self.cp.add_bool_or(off)
        return Cut(is_behind, edges, area, is_used)

    def tighten(self) -> bool:
        """Add hard constraints: almost no area is left empty, and a free outline is as short for
        its area as the rule ``compact`` requires. Returns False if they are there already.

        With ``half`` of its length, the latter means half^2 <= 4 perimeter^2 x area. Most outlines
        satisfy this anyway, and as a constraint on all plans it slows the search.
        """
        if self._is_tight:
            return False
        self._is_tight = True
        if (compact := self.spec.rule("compact")) is None or self.spec.outline.boundary is not None:
            self.cp.add(self.dead <= _SLITS)
            return True
        self.cp.add(self._fill_condition(_EVEN))
        half = self.cp.new_int_var(0, 2 * self.rooms.grid, "")
        square = self.cp.new_int_var(0, 4 * self.rooms.grid**2, "")
        self.cp.add(half == sum(self.size))
        self.cp.add_multiplication_equality(square, [half, half])
        longest = math.floor(100 * 4 * compact["perimeter"] ** 2)
        self.cp.add(100 * square <= longest * sum(self.rooms.floors))
        return True

    def _fill_condition(self, but: float) -> Any:
        """Condition: rooms fill the box less its cuts, except for a share ``but`` of their area."""
        left = self.dead - sum(cut.area for cut in self.cuts)
        return left <= round(but * PER_METRE**2 * sum(self.spec.areas))

    def _add_facades(self) -> None:
        """Add soft constraints on the facade of each room."""
        for i, kind in enumerate(self.rooms.kinds):
            # metres of facade by rule; a balcony needs some, by no rule
            lengths = {"": BALCONY_WALL} if self.rooms.rooms[i] == BALCONY else {}
            if (facade := self.spec.rule("facade")) is not None and kind in facade["rooms"]:
                lengths["facade"] = facade["length"]
            if (window := self.spec.rule("window")) is not None and kind in window["rooms"]:
                # window area for the largest floor within tolerance
                most = self.rooms.areas[i] * (1 + self.spec.tolerance)
                lengths["window"] = window["share"] * most / window["height"]
            # the longest of them
            if lengths:
                metres, rule = max((length, rule) for rule, length in lengths.items())
                length = math.ceil(PER_METRE * metres)
                wall = f"{length / PER_METRE:g} m of outer wall" if rule else "an outer wall"
                needed = Requirement(f"{{}} has {wall}", rule, (i,))
                priority = Priority.FACADE if rule else Priority.BALCONIES
                self.rooms.add_soft(priority, self.outer_wall(i, length) == 1, requirement=needed)

    def outer_wall(self, i: int, length: int, *, door: bool = False) -> Any:
        """Literal: ``length`` decimetres of one side of a room lie on the outline, free of rooms
        inside, and for a ``door`` also of its free rectangle."""
        if (i, length, door) not in self._outer:
            self._outer[i, length, door] = found = self.cp.new_bool_var("")
            ways = [
                self._wall_on(i, line, line[-1], length, door=door) for line in self._outer_lines()
            ]
            for bend, a in product(self.rooms.bends.get(i, []), AXES):
                ways.append(self._wall_at_bend(i, bend, a, length, door=door))
            self.cp.add_bool_or(ways).only_enforce_if(found)
        return self._outer[i, length, door]

    def wall_at(self, i: int, point: Sequence[float], length: int) -> Any:
        """Literal: ``length`` decimetres of a room's outer wall lie around a point of the boundary,
        free of rooms inside that room. ``point``: decimetres from the outline's origin."""
        lines = list(self._outer_lines())
        ends = [along or [(0, self.spec.outline.size[1 - a])] for a, _, _, along in lines]
        # the line of the outline that is nearest to the point
        off = [
            math.dist(point, [at if b == a else min(max(point[b], low), high) for b in AXES])
            for (a, _, at, _), spans in zip(lines, ends, strict=True)
            for low, high in spans
        ]
        nearest = off.index(min(off))
        axis, (first, last) = lines[nearest][0], ends[nearest][0]
        start = round(min(max(point[1 - axis] - length / 2, first), last - length))
        return self._wall_on(i, lines[nearest], [(start, start + length)], length, door=True)

    def _wall_on(
        self, i: int, line: Line, along: Sequence[tuple[Any, Any]], length: int, *, door: bool
    ) -> Any:
        """Literal: ``length`` dm of a room's wall lie on a line, within ``along``, free of rooms
        inside."""
        axis, side, at, _ = line
        way = self.literal(self.rooms.span(axis, i)[side] == at)
        spans = [self.rooms.span(1 - axis, i), *along]
        occupants = self.rooms.occupants(i, axis, side, door=door)
        self.rooms.add_clear_wall(way, 1 - axis, spans, length, occupants)
        return way

    def _wall_at_bend(self, i: int, bend: Bend, axis: int, length: int, *, door: bool) -> Any:
        """Literal: ``length`` dm of a room's wall lie on a side of the corner that it bends around,
        free of rooms inside."""
        way, side = self.literal(bend.bends == 1), HIGH if bend.is_behind[axis] else LOW
        (low, high), at = self.rooms.span(1 - axis, i), bend.corner[1 - axis]
        spans = [(at, high) if bend.is_behind[1 - axis] else (low, at)]
        occupants = self.rooms.occupants(i, axis, side, door=door, at=bend.corner[axis])
        self.rooms.add_clear_wall(way, 1 - axis, spans, length, occupants)
        return way

    def _outer_lines(self) -> Iterator[Line]:
        """Lines of the outline that walls may lie on."""
        outline = self.spec.outline
        ends = self.size if outline.boundary is None else outline.size
        for a, side in product(AXES, (LOW, HIGH)):
            # the line without what is blocked at one of its ends
            span, at, o = [0, ends[1 - a]], ends[a] if side else 0, 1 - a
            for blocked in outline.blocked_corners:
                if blocked[a + 2 * side] == at:
                    span[blocked[o] > 0] = blocked[o if blocked[o] > 0 else o + 2]
            yield a, side, at, [(span[0], span[1])] if outline.blocked_corners else []
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
