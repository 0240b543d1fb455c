"""``SoftSearch``: search for boxes that satisfy most soft constraints, by priority."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

from floor_plans.plans.box_model import Boxes
from floor_plans.solver.outline_constraints import OutlineConstraints
from floor_plans.solver.spec import (
    NO_REQUIREMENT,
    NOTHING,
    ONLY_AREAS,
    Priority,
    Requirement,
    SoftConstraint,
)

_STEPS, _STEPS_OF_PLOTS = (4, 1), (4, 1, 2)
"""Decimetres of the grids searched for a plan that satisfies all soft constraints, in turn.

Most plans exist on grids of 0.4 m, where they are found three times as fast. The finest shows that
no plan does, and most clearly for an outline that is to be filled. It is not searched on coarser
grids that its corners are not on.
"""

_NEAR, _EACH = 6, 0.1  # radius of the local search in decimetres, and effort of each step

_APPROACHES: tuple[tuple[float, dict[str, Any]], ...] = (
    (_EACH, {"around": _NEAR}),
    (_EACH, {"around": 2 * _NEAR}),
    (3 * _EACH, {"light": True}),
    (3 * _EACH, {}),
)
"""Efforts and ways to reach soft constraints from boxes that violate some."""

_TO_REDUCE, _EFFORT_EACH = 5, 0.3
"""Effort to reduce a conflict, as a multiple of that to show it; effort of each attempt."""


@dataclass(frozen=True)
class _Incumbent:
    """Plan that satisfies ``soft``: the ``answer``, boxes and values if True, and the effort
    spent."""

    soft: Sequence[SoftConstraint] = ()
    answer: bool | None = None
    boxes: Boxes | None = None
    value: Any = None
    spent: float = 0.0


class SoftSearch:
    """Search for boxes that satisfy soft constraints together, by priority.

    ``missed``: priorities with violated soft constraints, after ``fix_met``.
    """

    def __init__(self, outline: OutlineConstraints) -> None:
        self._outline, self._soft = outline, outline.rooms.soft
        self._box_model, self._cp = outline.rooms.box_model, outline.cp
        self.missed: frozenset[Priority] = NOTHING
        # plans for most soft constraints; ``satisfy`` starts from the best
        self._asked: list[_Incumbent] = []
        self._has_climbed = False

    def meets(
        self, effort: float, seed: int, dropped: frozenset[Priority] = NOTHING
    ) -> bool | None:
        """Return True if some plan satisfies all soft constraints but ``dropped`` priorities, False
        if none does, None if undecided. Call it before ``satisfy``, which starts from the
        result."""
        self._asked.append(found := self.solve_all(dropped, effort, seed))
        return found.answer

    def climb(self, effort: float, seed: int) -> None:
        """Add all constraints that do not conflict to the best plan so far, or if that is
        undecided, one priority after the other; one that is undecided then is dropped. To a plan
        for rules, areas are left to the objective. ``satisfy`` and ``approach`` start from the
        result."""
        self._has_climbed, found = True, self._best()
        is_first, has_rules = not self._asked, bool(self._outline.spec.rules.rules)
        left_out = ONLY_AREAS if has_rules and not is_first else NOTHING
        rest = _not_among(self._remaining(left_out), found.soft)
        rest.sort(key=lambda constraint: constraint.priority)
        groups = [list(each) for _, each in groupby(rest, lambda constraint: constraint.priority)]
        if found.boxes is not None or is_first:
            groups.insert(0, rest)
        for new in groups:
            tried = [*found.soft, *new]
            answer, boxes = self._meet(tried, effort / 3, seed, found.boxes)
            if answer:
                found = _Incumbent(tried, answer, boxes, self._box_model.value)
                if new is rest:
                    break
        self._asked.append(found)

    def approach(self, dropped: frozenset[Priority], seed: int, *, far: bool = True) -> bool:
        """Move the best boxes so far until they satisfy all soft constraints but ``dropped``
        priorities: near them, and then, if ``far``, anywhere. Returns True if they keep all rules;
        ``satisfy`` starts from what they satisfy in any case."""
        model, soft, missed = self._box_model, self._remaining(dropped), math.inf
        if (boxes := self._best().boxes) is None:
            return False
        self._cp.minimize(sum(literal.negated() for literal in _literals(soft)))
        for effort, how in _APPROACHES if far else _APPROACHES[:2]:
            boxes, missed = self.improve(boxes, missed, effort, seed, **how)
            if not missed:
                break
        # all that these boxes satisfy
        self._cp.maximize(sum(_literals(self._soft)))
        boxes = model.solve(_EACH, seed=seed, hint=boxes, around=0)[1]
        self._cp.clear_objective()
        if boxes is not None:
            met = [each for each in self._soft if model.value(each.literal)]
            self._asked.append(_Incumbent(met, True, boxes, model.value))
        # are all rules kept?
        needed = self._remaining(self._outline.spec.dropped_for_rules)
        return not _not_among(needed, self._best().soft)

    def _best(self) -> _Incumbent:
        """Result with the most satisfied constraints that serve rules, if one has boxes."""
        dropped = self._outline.spec.dropped_for_rules

        def num_met(found: _Incumbent) -> tuple[int, int]:
            return sum(each.priority not in dropped for each in found.soft), len(found.soft)

        found = [each for each in self._asked if each.boxes is not None]
        return max(found, key=num_met, default=_Incumbent())

    def solve_all(self, dropped: frozenset[Priority], effort: float, seed: int) -> _Incumbent:
        """Find a plan that satisfies all soft constraints except ``dropped`` priorities. The search
        begins on a coarse grid, without cuts in the outline."""
        self._cp.clear_objective()
        soft = self._remaining(dropped)
        literals = _literals(soft)
        # searches in turn, each with a part of the effort
        uncut = [cut.is_used.negated() for cut in self._outline.cuts]
        spec, steps = self._outline.spec, [*_STEPS]
        if self._outline.filling:
            corners = (*spec.outline.size, *chain(*spec.outline.blocked))
            steps = [step for step in _STEPS_OF_PLOTS if not any(x % step for x in corners)]
        elif uncut and not dropped >= spec.dropped_for_rules:
            steps = steps[:1]  # of plans in a free outline, the finest is kept for the rules alone
        tries = [([*literals, *uncut], steps[0])] if uncut else []
        tries += [(literals, step) for step in steps]
        answer, boxes, spent = None, None, 0.0
        for k, (fixed, step) in enumerate(tries):
            each = max(0.0, effort - spent) / (len(tries) - k)
            answer, boxes = self._box_model.solve(
                each, seed=seed, fixed=fixed, light=True, step=step
            )
            spent += self._box_model.spent
            if answer is not None:
                break
        return _Incumbent(soft, answer, boxes, self._box_model.value, spent)

    def satisfy(self, effort: float, seed: int) -> tuple[bool | None, Boxes | None]:
        """Find boxes that satisfy as many soft constraints as possible: the answer of
        ``BoxModel.solve`` and the boxes. The search starts from the best result of ``meets``.
        Without one, all constraints that do not conflict are tried at once, and if that is
        undecided, priority by priority."""
        # what is known to be feasible; the objective adds what it can
        self._cp.clear_objective()
        if not self._has_climbed and self._best().boxes is None:
            self.climb(effort, seed)
        found, self._asked = self._best(), []
        # not even the first priority: any boxes will do
        if found.boxes is None:
            return self._box_model.solve(2 * effort, seed=seed, taking_turns=True)
        self._box_model.value = found.value
        return True, found.boxes

    def improve(
        self, boxes: Boxes, cost: float, effort: float, seed: int, **how: Any
    ) -> tuple[Boxes, float]:
        """Find boxes with a lower objective. Returns the boxes, or the given boxes if none are
        better, and their objective."""
        model = self._box_model
        found = model.solve(effort, seed=seed, hint=boxes, taking_turns=True, **how)[1]
        return (boxes, cost) if found is None or model.cost >= cost else (found, model.cost)

    def improve_nearby(
        self, boxes: Boxes, cost: float, effort: float, seed: int, **how: Any
    ) -> tuple[Boxes, float, float]:
        """Improve boxes by local search, as long as that lowers the objective; this is much faster
        than a global search. Returns the boxes, their objective and the effort spent."""
        spent = 0.0
        while spent < effort:
            before, each = cost, min(effort - spent, _EACH)
            boxes, cost = self.improve(boxes, cost, each, seed, around=_NEAR, **how)
            spent += self._box_model.spent
            if cost == before:
                break
        return boxes, cost, spent

    def fix_met(self) -> list[Any]:
        """Fix the soft constraints that the incumbent satisfies. Returns the literals of the
        violated soft constraints."""
        value = self._box_model.value
        missed = [constraint for constraint in self._soft if not value(constraint.literal)]
        self._cp.add_bool_and(_literals(_not_among(self._soft, missed)))
        self.missed = frozenset(constraint.priority for constraint in missed)
        return _literals(missed)

    def is_infeasible(
        self, requirements: Collection[Requirement], effort: float, seed: int
    ) -> bool:
        """Return True if the solver shows that no plan satisfies the soft constraints of these
        requirements."""
        fixed = _literals(each for each in self._soft if each.requirement in requirements)
        return self._box_model.solve(effort, seed=seed, fixed=fixed, light=True)[0] is False

    def can_keep(self, rules: Collection[str], effort: float, seed: int) -> bool | None:
        """Return True if some plan satisfies the soft constraints of these rules. Returns False if
        the solver shows the contrary, None if undecided or without such constraints. Call it before
        ``fix_met``, which adds to the model."""
        fixed = _literals(each for each in self._soft if each.requirement.rule in rules)
        return (
            self._box_model.solve(effort, seed=seed, fixed=fixed, light=True)[0] if fixed else None
        )

    def conflicting_requirements(
        self, effort: float, seed: int, dropped: frozenset[Priority]
    ) -> tuple[Requirement, ...]:
        """Find requirements that no plan satisfies together, except for ``dropped`` priorities;
        empty if no conflict is shown. They are reduced as far as the effort allows: first all of a
        rule at once, beginning with those of no rule, then single requirements."""
        soft = self._remaining(dropped)
        left = [each.requirement for each in soft if each.requirement != NO_REQUIREMENT]
        if not self.is_infeasible(left, effort, seed):
            return ()
        # a smaller conflict from the assumptions
        soft = [each for each in self._soft if each.requirement in left]
        if (
            self._box_model.solve(effort, seed=seed, assumed=_literals(soft), light=True)[0]
            is False
        ):
            core = {literal.index for literal in self._box_model.conflict}
            left = [each.requirement for each in soft if each.literal.index in core]
        # groups of a rule, then single requirements
        rules = dict.fromkeys(requirement.rule for requirement in reversed(left))
        groups = [{each for each in left if each.rule == rule} for rule in sorted(rules, key=bool)]
        budget = _TO_REDUCE * effort
        for group in (*groups, *({requirement} for requirement in reversed(left))):
            fewer = [requirement for requirement in left if requirement not in group]
            if budget > 0 and len(fewer) < len(left):
                # the others still conflict without this group
                if fewer and self.is_infeasible(fewer, min(budget, _EFFORT_EACH), seed):
                    left = fewer
                budget -= self._box_model.spent
        return tuple(left)

    def _remaining(self, dropped: frozenset[Priority]) -> list[SoftConstraint]:
        """Soft constraints except those of ``dropped`` priorities."""
        return [constraint for constraint in self._soft if constraint.priority not in dropped]

    def _meet(
        self, soft: list[SoftConstraint], effort: float, seed: int, hint: Boxes | None = None
    ) -> tuple[bool | None, Boxes | None]:
        """Solve with soft constraints; from each conflict drop one of the lowest priority."""
        model, left, is_light = self._box_model, effort, hint is not None
        while left > 0:
            literals = _literals(soft)
            # fixed literals are fast, but yield no conflict
            answer, boxes = model.solve(left, seed=seed, hint=hint, fixed=literals, light=is_light)
            left -= model.spent
            if answer is not False or not soft:
                return answer, boxes
            if left <= 0:
                break
            # so the conflict takes a second search
            answer, boxes = model.solve(
                left, seed=seed, hint=hint, assumed=literals, light=is_light
            )
            left -= model.spent
            if answer is not False or not model.conflict:
                return answer, boxes
            conflict = {literal.index for literal in model.conflict}
            del soft[max(k for k, literal in enumerate(literals) if literal.index in conflict)]
        return None, None


def _literals(soft: Iterable[SoftConstraint]) -> list[Any]:
    """Literals of soft constraints."""
    return [constraint.literal for constraint in soft]


def _not_among(
    soft: Sequence[SoftConstraint], others: Sequence[SoftConstraint]
) -> list[SoftConstraint]:
    """Constraints of ``soft`` that are not in ``others``."""
    indices = {constraint.literal.index for constraint in others}
    return [constraint for constraint in soft if constraint.literal.index not in indices]
