"""``NearModel``: plans that stay near an earlier plan, and keep what is locked of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, permutations
from typing import Any

from floor_plans.plans.box_model import AXES, Boxes, Relations
from floor_plans.plans.outline import PER_METRE, Rectangle
from floor_plans.plans.soft_constraints import Priority
from floor_plans.solver.plan_model import PlanModel
from floor_plans.solver.room_model import Demands, within

PLACE, SIZE = LOCKS = ("place", "size")
"""What may be locked of a room: its box, or width and height of its box."""

SIDES = ("left", "top", "right", "bottom")
"""Sides of a box (x0, y0, x1, y1), y downwards."""

_PARTING = 4
"""Decimetres of change that a decimetre costs by which two rooms part that shared a wall, or by
which walls of neighbours come out of line."""

_LEAST_WALL = 5
"""Decimetres of wall that two rooms share at least to count as neighbours."""

_CLOSELY = 0.02
"""Share by which the area of a room may be off that was requested for this change."""

_REACHES = tuple(2**k for k in range(3, 11))
"""Decimetres of change within which a plan is looked for, one after the other."""

_SPARE = 1.5
"""Side of the grid / longest side of the earlier plan, at least."""


@dataclass(frozen=True)
class Near:
    """An earlier plan on the solver's grid, and what is kept and changed of it.

    ``boxes``: decimetres from the outline's origin, of every room; None of a room that is new.
    ``locked``: ``PLACE`` or ``SIZE`` by room. ``moved``: where a side, by room and side of
    ``SIDES``, is to be. ``wanted``: rooms whose target areas are requested; other rooms have those
    that come of it. ``hall``: the last room was added to the diagram.
    """

    boxes: tuple[Rectangle | None, ...]
    locked: Mapping[int, str]
    moved: Mapping[tuple[int, str], int]
    wanted: frozenset[int] = frozenset()
    hall: bool = False


class NearModel(PlanModel):
    """All plans of a diagram that keep what is locked. Looked for first: those within a small
    change that meet all that is wished and was met; where none is found, those within twice the
    change that the request takes, with as much of it as is found together. Of these the one that
    changes least.

    The change is the sum of the moves of all sides of rooms, in decimetres. Where two rooms shared
    a wall, each decimetre between them costs ``_PARTING`` more; with ``in_line`` so does each
    decimetre between walls of neighbours that were in one line. A free outline may begin
    elsewhere: ``shift`` has its least x and y in the earlier plan's coordinates.
    """

    def __init__(
        self,
        rooms: Sequence[int],
        relations: Relations,
        demands: Demands,
        near: Near,
        *,
        in_line: bool = False,
    ) -> None:
        self.near = near
        self._known = [(i, box) for i, box in enumerate(near.boxes) if box is not None]
        corners = [box for _, box in self._known]
        self._start = tuple(min(box[axis] for box in corners) for axis in AXES)
        self._longest = max(box[axis + 2] - self._start[axis] for box in corners for axis in AXES)
        self._requested: set[int] = set()
        self._reach: list[Any] = []
        """A literal that the change is small, which holds until ``best`` begins again."""
        super().__init__(rooms, relations, demands, hall=near.hall)
        reach = self.rule.grid if demands.outline.boundary is None else 0
        if not reach:
            self._start = (0, 0)
        self.shift = self._start
        self._shifts = [self.model.new_int_var(s - reach, s + reach, "") for s in self._start]
        self.kept = list(self._kept())
        """What is locked or moved, a room and one of ``LOCKS`` or ``SIDES``, and a literal that it
        is so."""
        self._change = sum(self._moves()) + _PARTING * sum(self._partings())
        if in_line:
            self._change += _PARTING * sum(self._jogged())

    def _least_grid(self) -> int:
        return round(_SPARE * self._longest)

    def _wish_areas(self) -> None:
        """Wish the areas that are requested for this change, as closely as can be."""
        for room in sorted(self.near.wanted):
            for off in (self.demands.tolerance, min(_CLOSELY, self.demands.tolerance)):
                least, most = within(self.demands.areas[room], off)
                floor = self.floors[room]
                literal = self._wish(Priority.ACCESS, floor >= least, floor <= most)
                self._requested.add(literal.index)

    def best(self, effort: float, polish: float, seed: int) -> tuple[bool | None, Boxes | None]:
        """As of ``PlanModel``, in the earlier plan's coordinates, with all of the polish for the
        least change. Where the solver shows that no plan keeps what is locked, ``excluded`` has
        what excludes each other, or the relations: nothing where these have no plan at all."""
        self._reach = []
        stays = self._leave_out_what_was_not_met(effort, seed)
        literals = [literal for _, literal in self.kept]
        self.model.clear_objective()
        asked = [stays, *literals, *(wish.literal for wish in self.wishes)]
        boxes = self.solve(effort, seed=seed, hint=self._earlier(), assumed=asked)[1]
        if boxes is not None:  # nothing has to move
            return True, self._moved(boxes, 1)
        answer, boxes = self.solve(effort, seed=seed, hint=self._earlier(), assumed=literals)
        if boxes is None:
            core = {literal.index for literal in self.conflict} if answer is False else set()
            self.excluded = [what for what, literal in self.kept if literal.index in core]
            return answer, None
        for literal in literals:
            self.model.add(literal == 1)
        boxes = self._with_wishes(effort, seed) or boxes
        self._keep_met()
        self.model.minimize(self._change)
        better = self.solve(polish, seed=seed, hint=boxes, taking_turns=True, light=True)[1]
        return True, self._moved(better or boxes, 1)

    def _with_wishes(self, effort: float, seed: int) -> Boxes | None:
        """Boxes near the earlier ones that meet all wishes. Where none are found, those near the
        nearest that meet what is requested, with as many wishes as are found together."""
        self.model.clear_objective()
        reaches = [self._if(self._change <= most) for most in _REACHES]
        every = [wish.literal for wish in self.wishes]
        requested = [literal for literal in every if literal.index in self._requested]
        look = partial(self.solve, effort / 3, seed=seed, hint=self._earlier())
        for reach in reaches:
            self._reach = [reach]
            if (boxes := look(fixed=every)[1]) is not None:
                return boxes
        for reach, further in pairwise([*reaches, reaches[-1]]):
            self._reach = [reach]
            if look(fixed=requested)[0]:
                self._reach = [further]
                break
        else:
            self._reach = []
        return self._meet_wishes(effort, seed)[1]

    def differ_from(self, boxes: Boxes) -> None:
        super().differ_from(self._moved(boxes, -1))

    def _moved(self, boxes: Boxes, sign: int) -> Boxes:
        """To the earlier plan's coordinates with ``sign`` 1, and back with -1."""
        x, y = (sign * shift for shift in self.shift)
        return tuple((x0 + x, y0 + y, x1 + x, y1 + y) for x0, y0, x1, y1 in boxes)

    def solve(self, effort: float, **options: Any) -> tuple[bool | None, Boxes | None]:
        fixed = [*options.pop("fixed", ()), *self._reach]
        answer, boxes = super().solve(effort, fixed=fixed, **options)
        if boxes is not None:
            self.shift = tuple(self.value(shift) for shift in self._shifts)
        return answer, boxes

    def _leave_out_what_was_not_met(self, effort: float, seed: int) -> Any:
        """Leave out wishes that the earlier plan does not meet, but for those of this change. If it
        is no plan of the diagram any more, all are wished. Returns a literal: all its rooms stay
        where they are."""
        stays = self.model.new_bool_var("")
        for i, box in self._known:
            for variable, value in zip(self._sides_of(i), box, strict=True):
                self.model.add(variable == value).only_enforce_if(stays)
        self.model.maximize(sum(wish.literal for wish in self.wishes))
        if self.solve(effort, seed=seed, hint=self._earlier(), assumed=[stays])[0]:
            self.wishes = [
                wish
                for wish in self.wishes
                if wish.literal.index in self._requested or self.value(wish.literal)
            ]
        return stays

    def _earlier(self) -> Boxes:
        """The earlier plan where the outline begins at 0; a new room anywhere."""
        x, y = self._start
        new = (x, y, x + PER_METRE, y + PER_METRE)
        boxes = tuple(box or new for box in self.near.boxes)
        return tuple((x0 - x, y0 - y, x1 - x, y1 - y) for x0, y0, x1, y1 in boxes)

    def _sides_of(self, i: int) -> list[Any]:
        """The sides of a room, in the order of ``SIDES``, in the earlier plan's coordinates."""
        ends = (self.low[0][i], self.low[1][i], self.high[0][i], self.high[1][i])
        return [end + self._shifts[k % 2] for k, end in enumerate(ends)]

    def _kept(self) -> Iterator[tuple[tuple[int, str], Any]]:
        for i, lock in self.near.locked.items():
            box = self.near.boxes[i]
            assert box is not None  # only rooms of the earlier plan are locked
            if lock == PLACE:
                pairs = zip(self._sides_of(i), box, strict=True)
                yield (i, lock), self._if(*(variable == value for variable, value in pairs))
            else:
                sizes = zip(self._sides(i), (box[2] - box[0], box[3] - box[1]), strict=True)
                yield (i, lock), self._if(*(variable == value for variable, value in sizes))
        for (i, side), to in self.near.moved.items():
            yield (i, side), self._if(self._sides_of(i)[SIDES.index(side)] == to)

    def _moves(self) -> Iterator[Any]:
        """Decimetres by which each side of a room is moved."""
        for i, box in self._known:
            for variable, value in zip(self._sides_of(i), box, strict=True):
                yield self._length(variable - value)

    def _partings(self) -> Iterator[Any]:
        """Decimetres between walls that were one: two rooms beside each other shared it, or one lay
        at a wall of the other's box."""
        for (i, u), (j, v) in permutations(self._known, 2):
            for a in AXES:
                o = 1 - a
                if min(u[o + 2], v[o + 2]) - max(u[o], v[o]) < _LEAST_WALL:
                    continue
                if u[a + 2] == v[a]:
                    yield self._length(self.low[a][j] - self.high[a][i])
                if u[a] >= v[a] and u[a + 2] <= v[a + 2] and u[o] >= v[o] and u[o + 2] <= v[o + 2]:
                    for ends, k in ((self.low, a), (self.high, a + 2)):
                        if u[k] == v[k]:
                            yield self._length(ends[a][i] - ends[a][j])

    def _jogged(self) -> Iterator[Any]:
        """Decimetres between walls that were in one line, of two rooms beside each other."""
        for (i, u), (j, v) in permutations(self._known, 2):
            for a in AXES:
                o = 1 - a
                if u[o + 2] == v[o]:  # one ends where the other begins
                    for ends, k in ((self.low, a), (self.high, a + 2)):
                        if u[k] == v[k]:
                            yield self._length(ends[a][i] - ends[a][j])

    def _length(self, difference: Any) -> Any:
        most = 4 * self.rule.grid
        length = self.model.new_int_var(0, most, "")
        self.model.add_abs_equality(length, difference)
        return length
