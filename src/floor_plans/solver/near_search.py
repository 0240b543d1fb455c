"""``NearSearch``: search for plans near an earlier plan that keep its locked rooms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, permutations
from typing import Any

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.plans.box_model import AXES, Boxes, Relations
from floor_plans.plans.contradiction import room_names
from floor_plans.plans.outline import PER_METRE, Rectangle
from floor_plans.solver.plan_model import PlanModel
from floor_plans.solver.spec import PlanSpec

PLACE, SIZE = LOCKS = ("place", "size")
"""Locks of a room: its box, or the width and height of its box."""

SIDES = ("left", "top", "right", "bottom")  # sides of a box (x0, y0, x1, y1), y downwards

_PARTING = 4
"""Penalty per decimetre by which rooms part that shared a wall, or by which aligned walls of
neighbours come out of line."""

_LEAST_WALL = 5  # least decimetres of shared wall between neighbours

_REACHES = tuple(2**k for k in range(3, 11))
"""Bounds on the change, in decimetres, tried one after the other."""

_SPARE = 1.5  # least ratio of the grid's side to the longest side of the earlier plan


@dataclass(frozen=True)
class EarlierPlan:
    """Earlier plan on the solver's grid. ``boxes``: decimetres from the outline's origin, None for
    a new room. ``locked``: ``PLACE`` or ``SIZE`` by room. ``moved``: new coordinate of a side, by
    room and name of the side. ``wanted``: rooms with a requested area; areas of others are free.
    ``hall``: the last room was added to the diagram."""

    boxes: tuple[Rectangle | None, ...]
    locked: Mapping[int, str]
    moved: Mapping[tuple[int, str], int]
    wanted: frozenset[int] = frozenset()
    hall: bool = False


class NearSearch:
    """Search for plans near an earlier plan that keep its locks; ``plan``: the ``PlanModel``.

    Plans within a small change that satisfy all soft constraints are searched first, then plans
    within twice the least change, with as many of them as possible. The objective is the change:
    the decimetres by which sides of rooms move, plus ``_PARTING`` per decimetre for rooms that part
    from a shared wall and, with ``in_line``, for aligned walls of neighbours. A free outline may
    shift. ``locks``: locks and moved sides, as a room and one of ``LOCKS`` or ``SIDES``, each with
    its literal.
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
        self._near = near
        self._known = [(i, box) for i, box in enumerate(near.boxes) if box is not None]
        corners = [box for _, box in self._known]
        start = tuple(min(box[axis] for box in corners) for axis in AXES)
        longest = max(box[axis + 2] - start[axis] for box in corners for axis in AXES)
        # the grid has room for the earlier plan to grow
        self.plan = PlanModel(
            rooms,
            relations,
            spec,
            hall=near.hall,
            requested=near.wanted,
            least_grid=round(_SPARE * longest),
        )
        self._box_model, self._cp = self.plan.box_model, self.plan.cp
        self._requested = {each.literal.index for each in self.plan.requested}
        # a free outline may shift, a boundary may not
        reach = self.plan.rooms.grid if spec.outline.boundary is None else 0
        self._start = start if reach else (0, 0)
        self._shifts = [self._cp.new_int_var(s - reach, s + reach, "") for s in self._start]
        # locks and moved sides, each with a literal that is true if it holds
        literal, self.locks = self.plan.rooms.literal, list[tuple[tuple[int, str], Any]]()
        for i, lock in near.locked.items():
            box = near.boxes[i]
            assert box is not None  # only rooms of the earlier plan are locked
            # the whole box, or only its size
            sides, values = self._sides_of(i), list(box)
            if lock != PLACE:
                sides, values = [*self._box_model.sides(i)], [box[2] - box[0], box[3] - box[1]]
            pairs = zip(sides, values, strict=True)
            self.locks.append(((i, lock), literal(*(side == value for side, value in pairs))))
        for (i, side), to in near.moved.items():
            self.locks.append(((i, side), literal(self._sides_of(i)[SIDES.index(side)] == to)))
        # objective: moves, and penalties for walls that part
        moves = [
            self._absolute(variable - value)
            for i, box in self._known
            for variable, value in zip(self._sides_of(i), box, strict=True)
        ]
        self._change = sum(moves) + _PARTING * sum(self._partings())
        if in_line:
            # walls in line, one room behind the end of another
            jogs = [
                length
                for (i, u), (j, v) in permutations(self._known, 2)
                for a in AXES
                if u[3 - a] == v[1 - a]
                for length in self._off_line(a, (i, u), (j, v))
            ]
            self._change += _PARTING * sum(jogs)

    def find_best(
        self, effort: float, polish: float, seed: int
    ) -> tuple[bool | None, Boxes | None]:
        """Find the plan of least change, in the earlier plan's coordinates, see
        ``PlanModel.find_best``. If no plan keeps what is locked, ``excluded`` holds the locks that
        contradict each other or the relations; it is empty if the relations alone are
        infeasible."""
        self._box_model.always = []
        stays = self._drop_unmet(effort, seed)
        # perhaps nothing has to move
        literals = [literal for _, literal in self.locks]
        self._cp.clear_objective()
        soft = [constraint.literal for constraint in self.plan.rooms.soft]
        look = partial(self._box_model.solve, effort, seed=seed, hint=self._earlier_boxes())
        boxes = look(assumed=[stays, *literals, *soft])[1]
        if boxes is not None:
            return True, self._shifted(boxes, 1)
        # any plan that keeps the locks, or the locks that contradict each other
        answer, boxes = look(assumed=literals)
        if boxes is None:
            conflict = self._box_model.conflict if answer is False else []
            core = {literal.index for literal in conflict}
            self.excluded = [what for what, literal in self.locks if literal.index in core]
            return answer, None
        # fix the locks, satisfy soft constraints, then minimise the change
        for literal in literals:
            self._cp.add(literal == 1)
        boxes = self._soft_near(effort, seed) or boxes
        self.plan.search.fix_met()
        self._cp.minimize(self._change)
        better = self._box_model.solve(
            polish, seed=seed, hint=boxes, taking_turns=True, light=True
        )[1]
        return True, self._shifted(better or boxes, 1)

    def differ_from(self, boxes: Boxes) -> None:
        """Add ``PlanModel.differ_from`` for ``boxes`` in the earlier plan's coordinates."""
        self.plan.differ_from(self._shifted(boxes, -1))

    def _soft_near(self, effort: float, seed: int) -> Boxes | None:
        """Find boxes near the earlier boxes, with all requests and many soft constraints."""
        self._cp.clear_objective()
        reaches = [self.plan.rooms.literal(self._change <= most) for most in _REACHES]
        every = [constraint.literal for constraint in self.plan.rooms.soft]
        requested = [literal for literal in every if literal.index in self._requested]
        look = partial(self._box_model.solve, effort / 3, seed=seed, hint=self._earlier_boxes())
        # all soft constraints, within a growing bound
        for reach in reaches:
            self._box_model.always = [reach]
            if (boxes := look(fixed=every)[1]) is not None:
                return boxes
        # otherwise twice the least bound that satisfies the request
        for reach, further in pairwise([*reaches, reaches[-1]]):
            self._box_model.always = [reach]
            if look(fixed=requested)[0]:
                self._box_model.always = [further]
                break
        else:
            self._box_model.always = []
        return self.plan.search.satisfy(effort, seed)[1]

    def _drop_unmet(self, effort: float, seed: int) -> Any:
        """Drop soft constraints that the earlier plan violates. Returns a literal: all rooms
        stay."""
        stays, soft = self._cp.new_bool_var(""), self.plan.rooms.soft
        # all known rooms stay in place
        for i, box in self._known:
            for variable, value in zip(self._sides_of(i), box, strict=True):
                self._cp.add(variable == value).only_enforce_if(stays)
        # the most soft constraints that hold there, if hard ones do; requested ones stay
        self._cp.maximize(sum(constraint.literal for constraint in soft))
        hint = self._earlier_boxes()
        if self._box_model.solve(effort, seed=seed, hint=hint, assumed=[stays])[0]:
            soft[:] = [
                constraint
                for constraint in soft
                if constraint.literal.index in self._requested
                or self._box_model.value(constraint.literal)
            ]
        return stays

    def _shifted(self, boxes: Boxes, sign: int) -> Boxes:
        """Convert boxes to the earlier plan's coordinates (``sign`` 1) or from them (-1)."""
        x, y = (sign * self._box_model.value(shift) for shift in self._shifts)
        return tuple((x0 + x, y0 + y, x1 + x, y1 + y) for x0, y0, x1, y1 in boxes)

    def _earlier_boxes(self) -> Boxes:
        """Boxes of the earlier plan, with the outline at 0; a new room lies anywhere."""
        x, y = self._start
        new = (x, y, x + PER_METRE, y + PER_METRE)
        boxes = tuple(box or new for box in self._near.boxes)
        return tuple((x0 - x, y0 - y, x1 - x, y1 - y) for x0, y0, x1, y1 in boxes)

    def _sides_of(self, i: int) -> list[Any]:
        """Sides of a room in the order of ``SIDES``, in the earlier plan's coordinates."""
        return [end + self._shifts[k % 2] for k, end in enumerate(self.plan.sides_of(i))]

    def _partings(self) -> Iterator[Any]:
        """Decimetres between walls that coincided: of neighbours, or of nested rooms."""
        low, high = self._box_model.low, self._box_model.high
        for (i, u), (j, v) in permutations(self._known, 2):
            for a in AXES:
                o = 1 - a
                if min(u[o + 2], v[o + 2]) - max(u[o], v[o]) < _LEAST_WALL:
                    continue
                # the far wall of u was the near wall of v
                if u[a + 2] == v[a]:
                    yield self._absolute(low[a][j] - high[a][i])
                # u lay within the box of v, at one of its walls
                if u[a] >= v[a] and u[a + 2] <= v[a + 2] and u[o] >= v[o] and u[o + 2] <= v[o + 2]:
                    yield from self._off_line(a, (i, u), (j, v))

    def _off_line(
        self, a: int, one: tuple[int, Rectangle], other: tuple[int, Rectangle]
    ) -> Iterator[Any]:
        """Decimetres between walls of two rooms, across axis ``a``, that were in line."""
        (i, u), (j, v) = one, other
        for ends, k in ((self._box_model.low, a), (self._box_model.high, a + 2)):
            if u[k] == v[k]:
                yield self._absolute(ends[a][i] - ends[a][j])

    def _absolute(self, difference: Any) -> Any:
        """Variable for the absolute value of a difference."""
        length = self._cp.new_int_var(0, 4 * self.plan.rooms.grid, "")
        self._cp.add_abs_equality(length, difference)
        return length


def locks_text(diagram: BubbleDiagram, locks: Sequence[tuple[int, str]]) -> str:
    """Text such as ``the place of kitchen and the left wall of kitchen where it is to be``."""
    names = [*room_names(diagram), "the hall"]
    words = [
        f"the {what} of {names[room]}"
        if what in LOCKS
        else f"the {what} wall of {names[room]} where it is to be"
        for room, what in locks
    ]
    return " and ".join(words) or "near to the earlier plan"
