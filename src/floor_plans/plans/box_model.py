"""``BoxModel``: the boxes of a diagram as variables of a constraint solver (CP-SAT of OR-Tools)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from importlib.util import find_spec
from itertools import chain, combinations
from typing import Any, ClassVar

from discrete_diffusion.runtime import install_command, is_stopping, progress
from floor_plans.diagrams.rooms import INSIDE, NO_EDGE, RELATIONS, SURROUNDING
from floor_plans.plans.box_rule import BoxRule, sectors_of

Relations = Iterable[tuple[int, int, int]]
"""(i, j, code) with i < j, as in ``BubbleDiagram``."""

Boxes = tuple[tuple[int, int, int, int], ...]
"""(x0, y0, x1, y1) of every room, y downwards."""

_SECTORS = {code: sectors_of(code) for code in range(len(RELATIONS) - 1) if code != SURROUNDING}

AXES = (0, 1)

CONTAIN = (INSIDE, SURROUNDING)
"""Relations of a room and one inside it."""


def is_installed() -> bool:
    """True if there is a solver."""
    return find_spec("ortools") is not None


def cp_sat() -> Any:
    """The module of the solver. Raises ``ValueError`` naming the extra that has it."""
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise ValueError(
            f"whether a plan exists takes OR-Tools: {install_command('plans')}"
        ) from error
    return cp_model


_LOOK = 0.1
"""Seconds between two looks whether a search is to be given up."""


def search(solver: Any, model: Any) -> Any:
    """Status of ``solver.solve(model)``. An exception in this thread ends the search, and a signal
    that ends the command does, with what was found by then: it runs in a thread of its own, as
    Python handles no signal while the solver is at work."""
    pool = ThreadPoolExecutor(1)
    work = pool.submit(solver.solve, model)
    try:
        while not wait([work], _LOOK).done:
            if is_stopping():
                solver.stop_search()
    finally:
        while not work.done():
            solver.stop_search()
            wait([work], _LOOK)
        pool.shutdown()
    return work.result()


class BoxModel:
    """All boxes that honour the relations of a diagram, as constraints on integers.

    ``buildable``: moreover two rooms share no area, unless a relation says that one is inside the
    other: then it lies within the other. A room with others inside keeps a strip along one of its
    sides free of them, at least ``rule.min_side`` wide.

    Room i is the box [low[0][i], high[0][i]] x [low[1][i], high[1][i]]. A pair of rooms i < j with
    relation r is read in either direction: the rule of ``relations_from_boxes`` says r of (i, j),
    or 9 - r of (j, i). A diagram whose rooms were renumbered does not say which of the two its
    relation was measured in, and the rule is not symmetric, so both count. A pair without a
    relation lies further apart than the threshold, which is the same in both directions.

    ``unknown``: pairs i < j that may have any relation, or none; boxes of this model then honour
    some diagram that agrees with this one about all other pairs.

    Centres are doubled, so that they are integers too.

    ``off_line``: 1 if no centre may lie on the line of another room's side, 0 if it may.
    """

    off_line: ClassVar[int] = 0

    def __init__(
        self,
        num_rooms: int,
        relations: Relations,
        rule: BoxRule,
        *,
        buildable: bool,
        unknown: Iterable[tuple[int, int]] = (),
    ) -> None:
        self._solver = cp_sat()
        self.model = self._solver.CpModel()
        self.rule, rooms = rule, range(num_rooms)
        self.value: Any = None
        self._free: dict[int, list[Any]] = {}
        new = self.model.new_int_var
        self.low = [[new(0, rule.grid, "") for _ in rooms] for _ in AXES]
        self.high = [[new(0, rule.grid, "") for _ in rooms] for _ in AXES]
        for i in rooms:
            width, height = self._sides(i)
            for side, other in ((width, height), (height, width)):
                self.model.add(side >= rule.min_side)
                self.model.add(side <= rule.max_aspect * other)
        codes = {(i, j): code for i, j, code in relations}
        is_unknown = frozenset(unknown)
        for i, j in combinations(rooms, 2):
            code = codes.get((i, j), NO_EDGE)
            if (i, j) in is_unknown:
                if buildable:
                    self._add_apart_or_within(i, j)
                continue
            if code == NO_EDGE:
                self._add_far(i, j)
                continue
            if buildable and code in CONTAIN:
                self._add_within(*((i, j) if code == INSIDE else (j, i)))
                continue
            self._add_near(i, j)
            self.model.add_bool_or([*self._read(i, j, code), *self._read(j, i, 9 - code)])
            if buildable:
                self._add_apart(i, j)

    def solve(
        self,
        effort: float,
        *,
        seed: int = 0,
        hint: Boxes | None = None,
        assumed: Sequence[Any] = (),
        fixed: Sequence[Any] = (),
        taking_turns: bool = False,
        light: bool = False,
        step: int = 1,
        around: int | None = None,
    ) -> tuple[bool | None, Boxes | None]:
        """True and boxes if there are such boxes; None if the ``effort`` does not do.
        Another ``seed`` finds others; those of a ``hint`` are tried first. ``assumed``: literals
        that are true; where there are no such boxes, ``conflict`` has those that exclude each
        other. ``fixed``: the same, sooner and without a conflict. ``taking_turns``: several
        searches do, which finds boxes sooner where few are left. ``light``: without linear bounds
        and probing, which finds and betters boxes sooner. ``step``: of boxes whose sides are
        multiples of it; that there are none says nothing of others, so that the answer is None
        then. ``around``: of boxes whose sides lie so near to the hint's. ``spent``: the effort it
        took; ``cost``: what the boxes cost, if that is minimised.

        ``effort``: in the solver's deterministic units, of a few CPU-seconds: the outcome does not
        depend on how busy the machine is. Once a signal ends the command, no answer takes any.
        """
        if is_stopping():
            self.spent = effort
            return None, None
        progress.step("search")
        sides = (*self.low, *self.high)
        if hint is not None:
            for variables, values in zip(sides, zip(*hint, strict=True), strict=True):
                for variable, value in zip(variables, values, strict=True):
                    self.model.add_hint(variable, value)
        solver = self._solver.CpSolver()
        solver.parameters.max_deterministic_time = effort
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = seed % 2**31  # the solver's are of 31 bits
        solver.parameters.catch_sigint_signal = False  # Ctrl-C is Python's; theirs aborts threads
        solver.parameters.interleave_search = taking_turns
        if light:
            solver.parameters.linearization_level = 0
            solver.parameters.cp_model_probing_level = 0
        self.model.clear_assumptions()
        self.model.add_assumptions(assumed)
        is_part = step > 1 or around is not None
        status = search(solver, self._with_fixed(fixed, step, hint or (), around))
        assert status != self._solver.MODEL_INVALID, self.model.validate()
        self.model.clear_hints()  # a second one of the same variable makes the model invalid
        self.spent = solver.response_proto.deterministic_time
        if status == self._solver.INFEASIBLE and not is_part:
            core = set(solver.sufficient_assumptions_for_infeasibility())
            self.conflict = [literal for literal in assumed if literal.index in core]
            return False, None
        if status not in (self._solver.OPTIMAL, self._solver.FEASIBLE):
            return None, None
        self.cost, self.value = solver.objective_value, solver.value
        return True, tuple(
            (solver.value(x0), solver.value(y0), solver.value(x1), solver.value(y1))
            for x0, y0, x1, y1 in zip(*sides, strict=True)
        )

    def _with_fixed(
        self, literals: Sequence[Any], step: int, near: Boxes, around: int | None
    ) -> Any:
        """The model, or a copy of it in which these literals are true, sides are multiples of
        ``step``, and lie so near to those of boxes: unlike assumptions that makes it smaller before
        the search."""
        if not literals and step == 1 and around is None:
            return self.model
        copy, sides = self.model.clone(), (*self.low, *self.high)
        copy.add_bool_and(literals)
        if step > 1:
            for side in chain(*sides):
                copy.add(side == step * copy.new_int_var(0, self.rule.grid // step, ""))
        if around is not None:
            for variables, values in zip(sides, zip(*near, strict=True), strict=True):
                for side, value in zip(variables, values, strict=True):
                    copy.add_linear_constraint(side, value - around, value + around)
        return copy

    def _if(self, *conditions: Any) -> Any:
        """A literal that implies the conditions."""
        literal = self.model.new_bool_var("")
        for condition in conditions:
            self.model.add(condition).only_enforce_if(literal)
        return literal

    def _sides(self, i: int) -> tuple[Any, Any]:
        """Width and height."""
        width, height = (self.high[a][i] - self.low[a][i] for a in AXES)
        return width, height

    def _margins(self, u: int, v: int) -> list[Any]:
        """Lengths of v before u, along each axis, and behind it; [a::2] are those of an axis."""
        before = [self.low[a][u] - self.low[a][v] for a in AXES]
        return before + [self.high[a][v] - self.high[a][u] for a in AXES]

    def _gaps(self, i: int, j: int) -> Iterable[Any]:
        """Distances by which one lies behind the other, along each axis in each direction."""
        for a in AXES:
            yield self.low[a][i] - self.high[a][j]
            yield self.low[a][j] - self.high[a][i]

    def _add_far(self, i: int, j: int) -> None:
        far = self.rule.threshold + 1
        self.model.add_bool_or([self._if(gap >= far) for gap in self._gaps(i, j)])

    def _add_near(self, i: int, j: int) -> None:
        for gap in self._gaps(i, j):
            self.model.add(gap <= self.rule.threshold)

    def _add_apart(self, i: int, j: int) -> None:
        """Add that two rooms share no area."""
        self.model.add_bool_or(self._apart(i, j))

    def _apart(self, i: int, j: int) -> list[Any]:
        """Literals of which one holds if they share no area."""
        return [self._if(gap >= 0) for gap in self._gaps(i, j)]

    def _add_apart_or_within(self, i: int, j: int) -> None:
        ways = [self.model.new_bool_var("") for _ in range(2)]
        self.model.add_bool_or([*self._apart(i, j), *ways])
        for way, (u, v) in zip(ways, ((i, j), (j, i)), strict=True):
            self._add_within(u, v, way)

    def _add_within(self, u: int, v: int, *way: Any) -> None:
        """u lies within v, so the rule says "inside" of (u, v), and off the strip v keeps free;
        only if the literal ``way`` holds, where there is one."""
        for margin, is_free in zip(self._margins(u, v), self._free_sides(v), strict=True):
            self.model.add(margin >= 0).only_enforce_if(*way)
            self.model.add(margin >= self.rule.min_side).only_enforce_if(*way, is_free)

    def _free_sides(self, v: int) -> list[Any]:
        """Literals: which sides of the room keep a strip free; one does."""
        if v not in self._free:
            self._free[v] = [self.model.new_bool_var("") for _ in range(4)]
            self.model.add_bool_or(self._free[v])
        return self._free[v]

    def _read(self, u: int, v: int, code: int) -> list[Any]:
        """Literals of which one holds if the rule says ``code`` of (u, v)."""
        if code == SURROUNDING:
            around = [self.low[a][u] <= self.low[a][v] - 1 for a in AXES]
            around += [self.high[a][u] >= self.high[a][v] + 1 for a in AXES]
            return [self._if(*around)]
        not_around = [self._if(self.low[a][u] >= self.low[a][v]) for a in AXES]
        not_around += [self._if(self.high[a][u] <= self.high[a][v]) for a in AXES]
        ways = []
        for sector in _SECTORS[code]:
            sides = [side for a in AXES for side in self._between(a, u, v, *sector[a])]
            ways.append(way := self._if(*sides))
            self.model.add_bool_or([*not_around, way.negated()])
        return ways

    def _between(self, axis: int, u: int, v: int, first: int, last: int) -> list[Any]:
        """The centre of u lies in the columns ``first`` to ``last`` of ``SECTORS`` against v: 0
        before its box, 1 on its lower side, 2 between, 3 on its upper side, 4 behind it."""
        centre, off = self.low[axis][u] + self.high[axis][u], self.off_line
        low, high = 2 * self.low[axis][v], 2 * self.high[axis][v]
        least = {1: low + off, 2: low + 1, 3: high + off, 4: high + 1}
        most = {0: low - 1, 1: low - off, 2: high - 1, 3: high - off}
        found = [centre >= least[first]] if first in least else []
        return found + ([centre <= most[last]] if last in most else [])


def boxes_of(
    graph: tuple[int, Relations],
    *,
    rule: BoxRule,
    buildable: bool,
    effort: float,
    unknown: Iterable[tuple[int, int]] = (),
    hint: Boxes | None = None,
) -> tuple[bool | None, Boxes | None]:
    """``BoxModel.solve`` of (number of rooms, relations); to be called in any thread."""
    model = BoxModel(*graph, rule, buildable=buildable, unknown=unknown)
    return model.solve(effort, hint=hint)
