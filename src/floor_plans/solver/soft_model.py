"""``SoftModel``: boxes that satisfy as many soft constraints as possible, by priority."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from floor_plans.plans.box_model import Boxes
from floor_plans.plans.soft_constraints import NO_REQUIREMENT, NOTHING, Priority, Requirement
from floor_plans.solver.outline_model import OutlineModel
from floor_plans.solver.room_model import SoftConstraint

_STEPS, _STEPS_OF_PLOTS = (4, 2, 1), (4, 1, 2)
"""Decimetres of the grids searched for a plan that satisfies all soft constraints, the coarsest
first.

Most plans exist on grids of 0.4 m, where they are found three times as fast. If an outline is to be
filled, a failure there usually means infeasibility, which the finest grid shows.
"""

_NEAR, _EACH = 6, 0.1
"""Radius of the local search in decimetres, and effort of each step."""

_TO_REDUCE, _EFFORT_EACH = 5, 0.3
"""Effort to reduce a conflict, as a multiple of that to show it; effort of each attempt."""


@dataclass(frozen=True)
class _Incumbent:
    """Result of ``solve`` for these constraints together: the ``answer``; if it is True, boxes and
    values; the effort ``spent``."""

    soft: Sequence[SoftConstraint] = ()
    answer: bool | None = None
    boxes: Boxes | None = None
    value: Any = None
    spent: float = 0.0


class SoftModel(OutlineModel):
    """Rooms in their outline, with soft constraints satisfied together by priority."""

    missed: frozenset[Priority] = NOTHING
    """Priorities with violated soft constraints, after ``find_best``."""
    _asked: Mapping[frozenset[Priority], _Incumbent] = MappingProxyType({})
    """Results of ``meets`` by dropped priorities. ``find_best`` starts from them."""

    def meets(
        self, effort: float, seed: int, dropped: frozenset[Priority] = NOTHING
    ) -> bool | None:
        """Return True if some plan satisfies all soft constraints except ``dropped`` priorities,
        False if none does, None if undecided. Call it before ``find_best``, which starts from the
        result."""
        found = self._solve_all(self._soft_without(dropped), effort, seed)
        self._asked = {**self._asked, dropped: found}
        return found.answer

    def _soft_without(self, dropped: frozenset[Priority]) -> list[SoftConstraint]:
        """Soft constraints except those of ``dropped`` priorities."""
        return [constraint for constraint in self.soft if constraint.priority not in dropped]

    def _solve_all(self, soft: Sequence[SoftConstraint], effort: float, seed: int) -> _Incumbent:
        """Find a plan that satisfies these constraints: first on a coarse grid, and there first
        without cuts."""
        self.model.clear_objective()
        literals = [constraint.literal for constraint in soft]
        # searches in turn, each with a part of the effort
        uncut = [cut.is_used.negated() for cut in self.cuts]
        tries = [(literals, step) for step in (_STEPS_OF_PLOTS if self.filling else _STEPS)]
        if uncut:
            tries.insert(0, ([*literals, *uncut], _STEPS[0]))
        answer, boxes, spent = None, None, 0.0
        for fixed, step in tries:
            is_fine = step == 1
            answer, boxes = self.solve(
                effort / len(tries),
                seed=seed,
                fixed=fixed,
                taking_turns=is_fine,
                light=not is_fine,
                step=step,
            )
            spent += self.spent
            # still undecided: fill the outline step by step
            if answer is None and is_fine:
                answer, boxes, more = self._solve_by_filling(soft, effort / len(tries), seed)
                spent += more
            if answer is not None:
                break
        return _Incumbent(soft, answer, boxes, self.value, spent)

    def _solve_by_filling(
        self, soft: Sequence[SoftConstraint], effort: float, seed: int
    ) -> tuple[bool | None, Boxes | None, float]:
        """Find boxes that satisfy all but the fill of the outline, then fill it by local search.
        Returns the answer of ``solve``, boxes that satisfy these constraints, and the effort
        spent."""
        literals = [constraint.literal for constraint in soft]
        others = [constraint.literal for constraint in _not_among(soft, self.filling)]
        if len(others) == len(literals):
            return None, None, 0.0
        # a plan that need not fill the outline
        boxes = self.solve(effort, seed=seed, fixed=others, light=True, step=_STEPS[0])[1]
        spent = self.spent
        if boxes is None:
            return None, None, spent
        # less dead area, by local search, then all constraints on the result
        self.model.minimize(self.dead)
        boxes, _, more = self._improve_nearby(boxes, math.inf, effort, seed, fixed=others)
        self.model.clear_objective()
        answer, met = self.solve(effort, seed=seed, hint=boxes, fixed=literals, around=0)
        return answer, met, spent + more + self.spent

    def _satisfy_soft(self, effort: float, seed: int) -> tuple[bool | None, Boxes | None]:
        """Find boxes that satisfy as many soft constraints as possible. Returns the answer of
        ``solve`` and the boxes.

        The search starts from the best result of ``meets``. Without one, all constraints are tried
        at once, without those that conflict. If that is undecided, they are added priority by
        priority.
        """
        # start from what is known to be feasible
        asked, self._asked = self._asked, {}
        self.model.clear_objective()
        soft = sorted(self.soft, key=lambda constraint: constraint.priority)
        met = [each for each in asked.values() if each.answer]
        found = max(met, key=lambda each: len(each.soft), default=_Incumbent())
        if not asked:
            answer, boxes = self._meet(soft, effort / 3, seed)
            if answer is not None:
                return answer, boxes
        found = self._add_by_priority(soft, found, effort, seed)
        # not even the first priority: any boxes will do
        if found.boxes is None:
            return self.solve(2 * effort, seed=seed, taking_turns=True)
        self.value = found.value
        return True, found.boxes

    def _improve(
        self, boxes: Boxes, cost: float, effort: float, seed: int, **how: Any
    ) -> tuple[Boxes, float]:
        """Find boxes of a lower objective. Returns these, or the given ones, and the objective."""
        found = self.solve(effort, seed=seed, hint=boxes, taking_turns=True, **how)[1]
        return (boxes, cost) if found is None or self.cost >= cost else (found, self.cost)

    def _improve_nearby(
        self, boxes: Boxes, cost: float, effort: float, seed: int, **how: Any
    ) -> tuple[Boxes, float, float]:
        """Improve boxes by local search, as long as that lowers the objective; this is much faster
        than a global search. Returns the effort spent in addition."""
        spent = 0.0
        while spent < effort:
            before, each = cost, min(effort - spent, _EACH)
            boxes, cost = self._improve(boxes, cost, each, seed, around=_NEAR, **how)
            spent += self.spent
            if cost == before:
                break
        return boxes, cost, spent

    def _fix_met(self) -> list[Any]:
        """Fix the soft constraints that the incumbent satisfies. Returns the literals of the
        others."""
        missed = [constraint for constraint in self.soft if not self.value(constraint.literal)]
        self.model.add_bool_and(
            [constraint.literal for constraint in _not_among(self.soft, missed)]
        )
        self.missed = frozenset(constraint.priority for constraint in missed)
        return [constraint.literal for constraint in missed]

    def _add_by_priority(
        self, soft: list[SoftConstraint], found: _Incumbent, effort: float, seed: int
    ) -> _Incumbent:
        """Add constraints to those that ``found`` satisfies, by priority, each with a third of the
        effort. An undecided priority is dropped."""
        for priority in Priority:
            new = _not_among(
                [constraint for constraint in soft if constraint.priority == priority], found.soft
            )
            if not new:
                continue
            # all constraints of the priority that are not satisfied yet
            tried = [*found.soft, *new]
            answer, boxes = self._meet(tried, effort / 3, seed, found.boxes)
            if answer:
                found = _Incumbent(tried, answer, boxes, self.value)
        return found

    def _meet(
        self, soft: list[SoftConstraint], effort: float, seed: int, hint: Boxes | None = None
    ) -> tuple[bool | None, Boxes | None]:
        """Solve with these constraints. Of those that conflict, one of the lowest priority is
        removed each time."""
        left = effort
        while left > 0:
            literals = [constraint.literal for constraint in soft]
            # fixed literals are fast, but yield no conflict
            answer, boxes = self.solve(left, seed=seed, hint=hint, fixed=literals)
            left -= self.spent
            if answer is not False or not soft:
                return answer, boxes
            if left <= 0:
                break
            # so the conflict takes a second search
            answer, boxes = self.solve(left, seed=seed, hint=hint, assumed=literals)
            left -= self.spent
            if answer is not False or not self.conflict:
                return answer, boxes
            conflict = {literal.index for literal in self.conflict}
            del soft[max(k for k, literal in enumerate(literals) if literal.index in conflict)]
        return None, None

    def boxes_dropping(
        self, priorities: frozenset[Priority], effort: float, seed: int
    ) -> tuple[Boxes | None, float]:
        """Find boxes that satisfy all soft constraints except those of these priorities. Returns
        them, or None, and the effort spent."""
        found = self._solve_all(self._soft_without(priorities), effort, seed)
        return found.boxes, found.spent

    def is_infeasible(
        self, requirements: Collection[Requirement], effort: float, seed: int
    ) -> bool:
        """Return True if the solver shows that no plan satisfies the soft constraints of these
        requirements."""
        literals = [
            constraint.literal for constraint in self.soft if constraint.requirement in requirements
        ]
        return self.solve(effort, seed=seed, fixed=literals, taking_turns=True)[0] is False

    def conflicting_requirements(
        self, effort: float, seed: int, dropped: frozenset[Priority]
    ) -> tuple[Requirement, ...]:
        """Find requirements that no plan satisfies together, except for ``dropped`` priorities.
        Empty if no conflict is shown.

        The conflict is reduced as far as the effort allows: requirements are removed, those of no
        rule first, while the others still conflict.
        """
        requirements = [
            constraint.requirement
            for constraint in self._soft_without(dropped)
            if constraint.requirement != NO_REQUIREMENT
        ]
        if not self.is_infeasible(requirements, effort, seed):
            return ()
        # a smaller conflict from the assumptions
        soft = [constraint for constraint in self.soft if constraint.requirement in requirements]
        assumed = [constraint.literal for constraint in soft]
        if self.solve(effort, seed=seed, assumed=assumed)[0] is False:
            core = {literal.index for literal in self.conflict}
            requirements = [
                constraint.requirement for constraint in soft if constraint.literal.index in core
            ]
        return self._reduce(requirements, effort, seed)

    def _reduce(
        self, requirements: Sequence[Requirement], effort: float, seed: int
    ) -> tuple[Requirement, ...]:
        """Remove requirements while the others still conflict: all of a rule at once, then single
        ones."""
        left, rules = (
            _TO_REDUCE * effort,
            dict.fromkeys(requirement.rule for requirement in reversed(requirements)),
        )
        # groups of a rule, those of no rule first
        groups = [
            {requirement for requirement in requirements if requirement.rule == rule}
            for rule in sorted(rules, key=bool)
        ]
        for group in (*groups, *({requirement} for requirement in reversed(requirements))):
            fewer = [requirement for requirement in requirements if requirement not in group]
            if left > 0 and len(fewer) < len(requirements):
                # the others still conflict without this group
                if fewer and self.is_infeasible(fewer, min(left, _EFFORT_EACH), seed):
                    requirements = fewer
                left -= self.spent
        return tuple(requirements)

    def can_keep(self, rules: Collection[str], effort: float, seed: int) -> bool | None:
        """Return True if some plan satisfies the soft constraints of these rules. False if the
        solver shows that none does, None if undecided or there are none. Call it before
        ``find_best``, which adds to the model."""
        literals = [
            constraint.literal for constraint in self.soft if constraint.requirement.rule in rules
        ]
        return self.solve(effort, seed=seed, fixed=literals)[0] if literals else None


def _not_among(
    soft: Sequence[SoftConstraint], kept: Sequence[SoftConstraint]
) -> list[SoftConstraint]:
    """Constraints that are not among the others."""
    found = {constraint.literal.index for constraint in kept}
    return [constraint for constraint in soft if constraint.literal.index not in found]
