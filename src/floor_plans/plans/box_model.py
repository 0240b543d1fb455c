"""``BoxModel``: room boxes of a diagram as variables of a constraint solver (OR-Tools CP-SAT)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, combinations, combinations_with_replacement, product
from typing import Any

import numpy as np

from discrete_diffusion.config import Checked, Count, CountOrZero
from discrete_diffusion.layout import RELATIONS
from discrete_diffusion.runtime import install_command, is_stopping, progress
from floor_plans.diagrams.geometry import SECTORS
from floor_plans.diagrams.vocabulary import INSIDE, NO_EDGE, SURROUNDING

Relations = Iterable[tuple[int, int, int]]  # (i, j, code) with i < j, as in ``BubbleDiagram``
Boxes = tuple[tuple[int, int, int, int], ...]  # (x0, y0, x1, y1) of every room, y downwards
AXES = (0, 1)  # horizontal and vertical axis
CONTAIN = (INSIDE, SURROUNDING)  # relations of a room to a room inside it, in both directions
_POLL_INTERVAL = 0.1  # seconds between two checks for a signal that ends the search

effort_left: ContextVar[float] = ContextVar("effort_left", default=math.inf)
"""What further calls of ``BoxModel.solve`` may spend together, see ``limited_effort``."""


@contextmanager
def limited_effort(most: float) -> Iterator[None]:
    """Limit what all calls of ``BoxModel.solve`` of this thread in the body spend together."""
    token = effort_left.set(most)
    try:
        yield
    finally:
        effort_left.reset(token)


@dataclass(frozen=True)
class BoxRule(Checked):
    """Boxes with corners on a grid of ``grid`` x ``grid`` unit squares.

    ``threshold``: largest gap between two related boxes, as in ``relations_from_boxes``.
    ``min_side``: shortest side of a room; ``max_aspect``: its longest side / its shortest. The
    defaults are those of RPLAN, 256 pixels for 18 m: a side is at least 0.56 m.

    Raises ``ValueError`` for values that no box satisfies.
    """

    grid: Count = 256
    threshold: CountOrZero = 9
    min_side: Count = 8
    max_aspect: Count = 6

    def __post_init__(self) -> None:
        if self.min_side > self.grid:
            raise ValueError(f"min_side={self.min_side}: no such box fits grid={self.grid}")


Sector = tuple[tuple[int, int], tuple[int, int]]
"""(first, last) column and (first, last) row of a rectangle in ``SECTORS``."""


def sectors_of(code: int) -> tuple[Sector, ...]:
    """Rectangles of ``SECTORS`` that together cover a code other than "surrounding". A sector says
    where the centre of room i lies relative to the box of room j."""
    if code == SURROUNDING:
        raise ValueError("'surrounding' depends on all four sides, not on a centre; take another")
    cells = {tuple(cell) for cell in np.argwhere(np.equal(SECTORS, code)).tolist()}
    spans = list(combinations_with_replacement(range(5), 2))
    rectangles = [each for each in product(spans, spans) if _cells_of_sector(each) <= cells]
    # greedy cover: the rectangle with most cells that are not covered yet
    found: list[Sector] = []
    left = set(cells)
    while left:
        largest = max(rectangles, key=lambda rectangle: len(_cells_of_sector(rectangle) & left))
        found.append(largest)
        left -= _cells_of_sector(largest)
    return tuple(found)


def _cells_of_sector(sector: Sector) -> set[tuple[int, int]]:
    """Cells (row, column) of a sector."""
    (left, right), (top, bottom) = sector
    return {*product(range(top, bottom + 1), range(left, right + 1))}


_SECTORS = {code: sectors_of(code) for code in range(len(RELATIONS) - 1) if code != SURROUNDING}


def is_installed() -> bool:
    """Return True if OR-Tools is installed."""
    return find_spec("ortools") is not None


def cp_sat() -> Any:
    """Import the solver. Raises ``ValueError`` naming the extra that installs it."""
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise ValueError(
            f"the search for floor plans needs OR-Tools: {install_command('plans')}"
        ) from error
    return cp_model


def solve_in_thread(solver: Any, model: Any) -> Any:
    """Solve a model in another thread, as Python handles no signal while the solver runs, and
    return its status. A signal ends the search with the incumbent."""
    pool = ThreadPoolExecutor(1)
    work = pool.submit(solver.solve, model)
    try:
        # wait in short steps, so that signals are seen
        while not wait([work], _POLL_INTERVAL).done:
            if is_stopping():
                solver.stop_search()
    finally:
        # an exception arrived: stop the solver before the pool is shut down
        while not work.done():
            solver.stop_search()
            wait([work], _POLL_INTERVAL)
        pool.shutdown()
    return work.result()


class BoxModel:
    """Boxes of rooms as integer variables of ``model``, a ``CpModel``.

    Room i is the box [low[0][i], high[0][i]] x [low[1][i], high[1][i]]. Centres are doubled to
    keep them integers. ``off_line``: 1 if no centre may lie on the line of another room's side, 0
    if it may. ``always``: literals fixed to true in every call of ``solve``.
    """

    def __init__(self, num_rooms: int, rule: BoxRule, *, off_line: int = 0) -> None:
        self._solver = cp_sat()
        self.model = self._solver.CpModel()
        self.rule, self._off_line, rooms = rule, off_line, range(num_rooms)
        self.value: Any = None
        self.always: list[Any] = []
        self._free: dict[int, list[Any]] = {}
        new = self.model.new_int_var
        # corners of the boxes
        self.low = [[new(0, rule.grid, "") for _ in rooms] for _ in AXES]
        self.high = [[new(0, rule.grid, "") for _ in rooms] for _ in AXES]
        # least side and largest aspect ratio of each room
        for i in rooms:
            width, height = self.sides(i)
            for side, other in ((width, height), (height, width)):
                self.model.add(side >= rule.min_side)
                self.model.add(side <= rule.max_aspect * other)

    def add_relations(
        self,
        relations: Relations,
        *,
        buildable: bool,
        unknown: Iterable[tuple[int, int]] = (),
        add_apart: Callable[[int, int], None] | None = None,
    ) -> None:
        """Add constraints: each pair of rooms i < j has its relation, or none.

        The relation r of a pair holds if ``relations_from_boxes`` yields r for (i, j), or 9 - r for
        (j, i). Both count, because that function is not symmetric and a renumbered diagram does not
        record the direction it was measured in. Rooms without a relation are further apart than the
        threshold, which is symmetric.

        ``buildable``: two rooms may share area only if a relation says that one is inside the
        other; it then lies within the other. A room that contains others keeps a strip along one of
        its sides free of them, at least ``rule.min_side`` wide. ``unknown``: pairs that may have
        any relation, or none. The boxes then satisfy some diagram that agrees with this one on all
        other pairs. ``add_apart``: function that adds the constraint that a pair shares no area; a
        pair of unknown relation is then not nested.
        """
        codes = {(i, j): code for i, j, code in relations}
        is_unknown = frozenset(unknown)
        for i, j in combinations(range(len(self.low[0])), 2):
            code = codes.get((i, j), NO_EDGE)
            if (i, j) in is_unknown:
                if buildable and add_apart is not None:
                    add_apart(i, j)
                elif buildable:
                    # they share no area, or one is within the other
                    nested = [self.model.new_bool_var("") for _ in range(2)]
                    self.model.add_bool_or([*self.apart(i, j), *nested])
                    self._add_within(i, j, nested[0])
                    self._add_within(j, i, nested[1])
            elif code == NO_EDGE:
                # further apart than the threshold in some direction
                far = self.rule.threshold + 1
                self.model.add_bool_or([self.literal(gap >= far) for gap in self.gaps(i, j)])
            elif buildable and code in CONTAIN:
                self._add_within(*((i, j) if code == INSIDE else (j, i)))
            else:
                for gap in self.gaps(i, j):
                    self.model.add(gap <= self.rule.threshold)
                # the relation is read in one of its two directions
                self.model.add_bool_or(
                    [*self._ways_to_read(i, j, code), *self._ways_to_read(j, i, 9 - code)]
                )
                if add_apart is not None:
                    add_apart(i, j)
                elif buildable:
                    self.model.add_bool_or(self.apart(i, j))

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
        """Search for boxes. Returns True and the boxes, False if there are none, None if undecided
        within ``effort``.

        ``effort`` counts the solver's deterministic units of a few CPU-seconds, so the outcome does
        not depend on the load of the machine. After a signal that ends the command, and once the
        limit of ``limited_effort`` is spent, every call returns None at once.

        ``seed``: another seed finds other boxes. ``hint``: boxes that are tried first. ``assumed``:
        literals assumed true; if they are infeasible, ``conflict`` holds an infeasible subset.
        ``fixed``: literals fixed to true, which is faster but yields no conflict. ``taking_turns``:
        interleave several searches, which is faster where few solutions exist. ``light``: skip
        linear relaxation and probing, to find and improve incumbents sooner. ``step``:
        restrict sides to multiples of it; ``around``: restrict sides to this distance from the
        hint. With such a restriction infeasibility proves nothing, so the answer is None.

        Sets ``spent``, the effort used, and ``cost``, the objective of the boxes, if it has one.
        """
        left = effort_left.get()
        if is_stopping() or left <= 0:
            self.spent = effort
            return None, None
        progress.step("search")
        # hints: the boxes that are tried first
        sides = (*self.low, *self.high)
        if hint is not None:
            for variable, value in _sides_with_values(sides, hint):
                self.model.add_hint(variable, value)
        # one worker and a deterministic limit make the outcome reproducible
        solver = self._solver.CpSolver()
        solver.parameters.max_deterministic_time = min(effort, left)
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = seed % 2**31  # the solver's are of 31 bits
        solver.parameters.catch_sigint_signal = False  # Ctrl-C is Python's; theirs aborts threads
        solver.parameters.interleave_search = taking_turns
        if light:
            solver.parameters.linearization_level = 0
            solver.parameters.cp_model_probing_level = 0
        # solve, restricted to the fixed literals
        self.model.clear_assumptions()
        self.model.add_assumptions(assumed)
        is_part = step > 1 or around is not None
        literals = [*fixed, *self.always]
        status = solve_in_thread(solver, self._restricted_model(literals, step, hint or (), around))
        assert status != self._solver.MODEL_INVALID, self.model.validate()
        self.model.clear_hints()  # a second one of the same variable makes the model invalid
        self.spent = solver.response_proto.deterministic_time
        effort_left.set(left - self.spent)
        # infeasible: the assumptions that conflict
        if status == self._solver.INFEASIBLE and not is_part:
            core = set(solver.sufficient_assumptions_for_infeasibility())
            self.conflict = [literal for literal in assumed if literal.index in core]
            return False, None
        if status not in (self._solver.OPTIMAL, self._solver.FEASIBLE):
            return None, None
        # feasible: the boxes of the solution
        self.cost, self.value = solver.objective_value, solver.value
        values = ([solver.value(side) for side in each] for each in sides)
        return True, tuple(zip(*values, strict=True))

    def _restricted_model(
        self, literals: Sequence[Any], step: int, near: Boxes, around: int | None
    ) -> Any:
        """Return the model, or a smaller copy with the restrictions of ``solve``."""
        if not literals and step == 1 and around is None:
            return self.model
        copy, sides = self.model.clone(), (*self.low, *self.high)
        copy.add_bool_and(literals)
        if step > 1:
            for side in chain(*sides):
                copy.add(side == step * copy.new_int_var(0, self.rule.grid // step, ""))
        if around is not None:
            for side, value in _sides_with_values(sides, near):
                copy.add_linear_constraint(side, value - around, value + around)
        return copy

    def literal(self, *conditions: Any) -> Any:
        """Return a new literal that implies the conditions."""
        literal = self.model.new_bool_var("")
        for condition in conditions:
            self.model.add(condition).only_enforce_if(literal)
        return literal

    def sides(self, i: int) -> tuple[Any, Any]:
        """Width and height of a room."""
        width, height = (self.high[a][i] - self.low[a][i] for a in AXES)
        return width, height

    def margins(self, u: int, v: int) -> list[Any]:
        """Margins of u within v: below u along each axis, then above it. The slice [a::2] has the
        margins of axis a."""
        before = [self.low[a][u] - self.low[a][v] for a in AXES]
        return before + [self.high[a][v] - self.high[a][u] for a in AXES]

    def gaps(self, i: int, j: int) -> Iterable[Any]:
        """Distances by which one room lies behind the other, for each axis and direction."""
        for a in AXES:
            yield self.low[a][i] - self.high[a][j]
            yield self.low[a][j] - self.high[a][i]

    def apart(self, i: int, j: int) -> list[Any]:
        """Literals, at least one of which holds if two rooms share no area."""
        return [self.literal(gap >= 0) for gap in self.gaps(i, j)]

    def _add_within(self, u: int, v: int, *way: Any) -> None:
        """Make u lie within v, clear of the free strip of v, if the literal ``way`` holds."""
        for margin, is_free in zip(self.margins(u, v), self.free_sides(v), strict=True):
            self.model.add(margin >= 0).only_enforce_if(*way)
            self.model.add(margin >= self.rule.min_side).only_enforce_if(*way, is_free)

    def free_sides(self, v: int) -> list[Any]:
        """Four literals for the sides of a room that may keep a strip free. At least one holds."""
        if v not in self._free:
            self._free[v] = [self.model.new_bool_var("") for _ in range(4)]
            self.model.add_bool_or(self._free[v])
        return self._free[v]

    def _ways_to_read(self, u: int, v: int, code: int) -> list[Any]:
        """Literals, one of which holds if the relation of (u, v) is ``code``."""
        # u reaches beyond v on all four sides
        if code == SURROUNDING:
            around = [self.low[a][u] <= self.low[a][v] - 1 for a in AXES]
            return [self.literal(*around, *(self.high[a][u] >= self.high[a][v] + 1 for a in AXES))]
        # otherwise u does not surround v, and its centre lies in a sector of the code
        not_around = [self.literal(self.low[a][u] >= self.low[a][v]) for a in AXES]
        not_around += [self.literal(self.high[a][u] <= self.high[a][v]) for a in AXES]
        ways = []
        for sector in _SECTORS[code]:
            sides = [side for a in AXES for side in self._centre_in_sector(a, u, v, *sector[a])]
            ways.append(way := self.literal(*sides))
            self.model.add_bool_or([*not_around, way.negated()])
        return ways

    def _centre_in_sector(self, axis: int, u: int, v: int, first: int, last: int) -> list[Any]:
        """Conditions: the centre of u lies in columns of ``SECTORS`` relative to v: 0 before its
        box, 1 on its lower side, 2 between, 3 on its upper side, 4 behind it."""
        centre, off = self.low[axis][u] + self.high[axis][u], self._off_line
        low, high = 2 * self.low[axis][v], 2 * self.high[axis][v]
        least = {1: low + off, 2: low + 1, 3: high + off, 4: high + 1}
        most = {0: low - 1, 1: low - off, 2: high - 1, 3: high - off}
        found = [centre >= least[first]] if first in least else []
        return found + ([centre <= most[last]] if last in most else [])


def _sides_with_values(sides: Sequence[Sequence[Any]], boxes: Boxes) -> Iterable[tuple[Any, int]]:
    """Variable of each side, with its value in ``boxes``."""
    for variables, values in zip(sides, zip(*boxes, strict=True), strict=True):
        yield from zip(variables, values, strict=True)


def boxes_of_graph(
    graph: tuple[int, Relations],
    *,
    rule: BoxRule,
    buildable: bool,
    effort: float,
    unknown: Iterable[tuple[int, int]] = (),
    hint: Boxes | None = None,
) -> tuple[bool | None, Boxes | None]:
    """Solve the ``BoxModel`` of (number of rooms, relations). Safe to call in any thread."""
    num_rooms, relations = graph
    model = BoxModel(num_rooms, rule)
    model.add_relations(relations, buildable=buildable, unknown=unknown)
    return model.solve(effort, hint=hint)
