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
from floor_plans.solver.room_model import PlanSpec, area_range

PLACE, SIZE = LOCKS = ("place", "size")
"""Locks of a room: its box, or the width and height of its box."""

SIDES = ("left", "top", "right", "bottom")
"""Sides of a box (x0, y0, x1, y1), y downwards."""

_PARTING = 4
"""Penalty per decimetre by which rooms part that shared a wall, or by which aligned walls of
neighbours come out of line."""

_LEAST_WALL = 5
"""Least decimetres of shared wall between neighbours."""

_CLOSELY = 0.02
"""Tolerance of an area that is requested for this change, as a share."""

_REACHES = tuple(2**k for k in range(3, 11))
"""Bounds on the change, in decimetres, tried one after the other."""

_SPARE = 1.5
"""Least ratio of the grid's side to the longest side of the earlier plan."""


@dataclass(frozen=True)
class EarlierPlan:
    """Earlier plan on the solver's grid, and what is kept and changed of it.

    ``boxes``: decimetres from the outline's origin, by room; None for a new room. ``locked``:
    ``PLACE`` or ``SIZE`` by room. ``moved``: new place of a side, by room and side of ``SIDES``.
    ``wanted``: rooms with a requested area; areas of other rooms are free. ``hall``: the last room
    was added to the diagram.
    """

    boxes: tuple[Rectangle | None, ...]
    locked: Mapping[int, str]
    moved: Mapping[tuple[int, str], int]
    wanted: frozenset[int] = frozenset()
    hall: bool = False


class NearModel(PlanModel):
    """Plans of a diagram near an earlier plan, with what is locked in place.

    Plans within a small change that satisfy all soft constraints are searched first. If there are
    none, the search allows twice the change that the request takes, and satisfies as many soft
    constraints as it can. The objective is the change.

    The change is the sum of the moves of all sides of rooms, in decimetres. Rooms that part from a
    shared wall cost ``_PARTING`` per decimetre in addition. With ``in_line`` so do walls of
    neighbours that were aligned. A free outline may shift: ``shift`` is its least x and y in the
    coordinates of the earlier plan.
    """

    def __init__(
        self,
        rooms: Sequence[int],
        relations: Relations,
        spec: PlanSpec,
        near: EarlierPlan,
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
        """Literal that bounds the change until ``find_best`` begins again."""
        super().__init__(rooms, relations, spec, hall=near.hall)
        # a free outline may shift, a boundary may not
        reach = self.rule.grid if spec.outline.boundary is None else 0
        if not reach:
            self._start = (0, 0)
        self.shift = self._start
        self._shifts = [self.model.new_int_var(s - reach, s + reach, "") for s in self._start]
        self.locks = list(self._lock_literals())
        """Locks and moves, as a room and one of ``LOCKS`` or ``SIDES``, each with its literal."""
        # objective: moves, and penalties for walls that part
        self._change = sum(self._moves()) + _PARTING * sum(self._partings())
        if in_line:
            self._change += _PARTING * sum(self._jog_lengths())

    def _least_grid(self) -> int:
        """Side of the grid: room for the earlier plan to grow."""
        return round(_SPARE * self._longest)

    def _add_area_targets(self) -> None:
        """Add the areas requested for this change, first within the tolerance, then closely."""
        for room in sorted(self.near.wanted):
            for off in (self.spec.tolerance, min(_CLOSELY, self.spec.tolerance)):
                least, most = area_range(self.spec.areas[room], off)
                floor = self.floors[room]
                literal = self._add_soft(Priority.ACCESS, floor >= least, floor <= most)
                self._requested.add(literal.index)

    def find_best(
        self, effort: float, polish: float, seed: int
    ) -> tuple[bool | None, Boxes | None]:
        """Find the plan of least change, in the earlier plan's coordinates, see
        ``PlanModel.find_best``.

        If no plan keeps what is locked, ``excluded`` holds the locks that contradict each other or
        the relations. It is empty if the relations alone are infeasible.
        """
        self._reach = []
        stays = self._drop_unmet(effort, seed)
        # perhaps nothing has to move
        literals = [literal for _, literal in self.locks]
        self.model.clear_objective()
        asked = [stays, *literals, *(constraint.literal for constraint in self.soft)]
        boxes = self.solve(effort, seed=seed, hint=self._earlier_boxes(), assumed=asked)[1]
        if boxes is not None:
            return True, self._shifted(boxes, 1)
        # any plan that keeps the locks, or the locks that contradict each other
        answer, boxes = self.solve(effort, seed=seed, hint=self._earlier_boxes(), assumed=literals)
        if boxes is None:
            core = {literal.index for literal in self.conflict} if answer is False else set()
            self.excluded = [what for what, literal in self.locks if literal.index in core]
            return answer, None
        # fix the locks, satisfy soft constraints, then minimise the change
        for literal in literals:
            self.model.add(literal == 1)
        boxes = self._soft_near(effort, seed) or boxes
        self._fix_met()
        self.model.minimize(self._change)
        better = self.solve(polish, seed=seed, hint=boxes, taking_turns=True, light=True)[1]
        return True, self._shifted(better or boxes, 1)

    def _soft_near(self, effort: float, seed: int) -> Boxes | None:
        """Find boxes near the earlier ones that satisfy all soft constraints. If there are none,
        satisfy what is requested and as many others as possible."""
        self.model.clear_objective()
        reaches = [self._if(self._change <= most) for most in _REACHES]
        every = [constraint.literal for constraint in self.soft]
        requested = [literal for literal in every if literal.index in self._requested]
        look = partial(self.solve, effort / 3, seed=seed, hint=self._earlier_boxes())
        # all soft constraints, within a growing bound
        for reach in reaches:
            self._reach = [reach]
            if (boxes := look(fixed=every)[1]) is not None:
                return boxes
        # otherwise twice the least bound that satisfies the request
        for reach, further in pairwise([*reaches, reaches[-1]]):
            self._reach = [reach]
            if look(fixed=requested)[0]:
                self._reach = [further]
                break
        else:
            self._reach = []
        return self._satisfy_soft(effort, seed)[1]

    def differ_from(self, boxes: Boxes) -> None:
        super().differ_from(self._shifted(boxes, -1))

    def _shifted(self, boxes: Boxes, sign: int) -> Boxes:
        """Boxes in the earlier plan's coordinates for ``sign`` 1, and back for -1."""
        x, y = (sign * shift for shift in self.shift)
        return tuple((x0 + x, y0 + y, x1 + x, y1 + y) for x0, y0, x1, y1 in boxes)

    def solve(self, effort: float, **options: Any) -> tuple[bool | None, Boxes | None]:
        fixed = [*options.pop("fixed", ()), *self._reach]
        answer, boxes = super().solve(effort, fixed=fixed, **options)
        if boxes is not None:
            self.shift = tuple(self.value(shift) for shift in self._shifts)
        return answer, boxes

    def _drop_unmet(self, effort: float, seed: int) -> Any:
        """Drop soft constraints that the earlier plan violates, except those of this change.
        Returns a literal that all its rooms stay in place.

        Nothing is dropped if the earlier plan violates the hard constraints of the diagram.
        """
        stays = self.model.new_bool_var("")
        # all known rooms stay in place
        for i, box in self._known:
            for variable, value in zip(self._sides_of(i), box, strict=True):
                self.model.add(variable == value).only_enforce_if(stays)
        # the most soft constraints that hold there
        self.model.maximize(sum(constraint.literal for constraint in self.soft))
        if self.solve(effort, seed=seed, hint=self._earlier_boxes(), assumed=[stays])[0]:
            self.soft = [
                constraint
                for constraint in self.soft
                if constraint.literal.index in self._requested or self.value(constraint.literal)
            ]
        return stays

    def _earlier_boxes(self) -> Boxes:
        """Boxes of the earlier plan, with the outline at 0; a new room lies anywhere."""
        x, y = self._start
        new = (x, y, x + PER_METRE, y + PER_METRE)
        boxes = tuple(box or new for box in self.near.boxes)
        return tuple((x0 - x, y0 - y, x1 - x, y1 - y) for x0, y0, x1, y1 in boxes)

    def _sides_of(self, i: int) -> list[Any]:
        """Sides of a room in the order of ``SIDES``, in the earlier plan's coordinates."""
        ends = (self.low[0][i], self.low[1][i], self.high[0][i], self.high[1][i])
        return [end + self._shifts[k % 2] for k, end in enumerate(ends)]

    def _lock_literals(self) -> Iterator[tuple[tuple[int, str], Any]]:
        """Locks and moves, each with a literal that it holds."""
        for i, lock in self.near.locked.items():
            box = self.near.boxes[i]
            assert box is not None  # only rooms of the earlier plan are locked
            # the whole box, or only its size
            if lock == PLACE:
                pairs = zip(self._sides_of(i), box, strict=True)
                yield (i, lock), self._if(*(variable == value for variable, value in pairs))
            else:
                sizes = zip(self._sides(i), (box[2] - box[0], box[3] - box[1]), strict=True)
                yield (i, lock), self._if(*(variable == value for variable, value in sizes))
        for (i, side), to in self.near.moved.items():
            yield (i, side), self._if(self._sides_of(i)[SIDES.index(side)] == to)

    def _moves(self) -> Iterator[Any]:
        """Decimetres by which each side of a room moves."""
        for i, box in self._known:
            for variable, value in zip(self._sides_of(i), box, strict=True):
                yield self._absolute(variable - value)

    def _partings(self) -> Iterator[Any]:
        """Decimetres between walls that coincided: of neighbours, or of a room at the wall of a box
        around it."""
        for (i, u), (j, v) in permutations(self._known, 2):
            for a in AXES:
                o = 1 - a
                if min(u[o + 2], v[o + 2]) - max(u[o], v[o]) < _LEAST_WALL:
                    continue
                # the far wall of u was the near wall of v
                if u[a + 2] == v[a]:
                    yield self._absolute(self.low[a][j] - self.high[a][i])
                # u lay within the box of v, at one of its walls
                if u[a] >= v[a] and u[a + 2] <= v[a + 2] and u[o] >= v[o] and u[o + 2] <= v[o + 2]:
                    for ends, k in ((self.low, a), (self.high, a + 2)):
                        if u[k] == v[k]:
                            yield self._absolute(ends[a][i] - ends[a][j])

    def _jog_lengths(self) -> Iterator[Any]:
        """Decimetres between walls of neighbours that were aligned."""
        for (i, u), (j, v) in permutations(self._known, 2):
            for a in AXES:
                o = 1 - a
                if u[o + 2] == v[o]:  # one ends where the other begins
                    for ends, k in ((self.low, a), (self.high, a + 2)):
                        if u[k] == v[k]:
                            yield self._absolute(ends[a][i] - ends[a][j])

    def _absolute(self, difference: Any) -> Any:
        """Variable for the absolute value of a difference."""
        most = 4 * self.rule.grid
        length = self.model.new_int_var(0, most, "")
        self.model.add_abs_equality(length, difference)
        return length
