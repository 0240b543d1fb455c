"""``WishModel``: boxes that meet as many wishes as can be, those of the highest layers first."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from floor_plans.plans.box_model import Boxes
from floor_plans.plans.soft_constraints import NO_REQUIREMENT, NOTHING, Priority, Requirement
from floor_plans.solver.outline_model import OutlineModel
from floor_plans.solver.room_model import Wish

_STEPS, _STEPS_OF_PLOTS = (4, 2, 1), (4, 1, 2)
"""Decimetres of the grids on which a plan that meets all wishes is looked for, the coarsest first:
on those of 0.4 m most plans that there are are found, three times as fast. Where an outline is to
be filled, most that is not found there is impossible, which the finest grid shows."""

_NEAR, _EACH = 6, 0.1
"""Decimetres by which sides move at a time when a plan is bettered, and effort of each time."""

_TO_REDUCE, _EFFORT_EACH = 5, 0.3
"""Times the effort to show a conflict, to leave needs out of it; effort of each that is tried."""


@dataclass(frozen=True)
class _Found:
    """``answer`` of ``solve`` to these ``wishes`` together; if it is true, its boxes and values;
    the effort ``spent``."""

    wishes: Sequence[Wish] = ()
    answer: bool | None = None
    boxes: Boxes | None = None
    value: Any = None
    spent: float = 0.0


class WishModel(OutlineModel):
    """Rooms in their outline, and how the wishes about them are met together."""

    missed: frozenset[Priority] = NOTHING
    """Layers of wishes that the plan does not meet, after ``best``."""
    _asked: Mapping[frozenset[Priority], _Found] = MappingProxyType({})
    """What was found by ``meets``, by the layers left out, until ``best`` begins with it."""

    def meets(
        self, effort: float, seed: int, without: frozenset[Priority] = NOTHING
    ) -> bool | None:
        """True if some plan meets all wishes but those of the layers ``without``, False if none
        does, None if the effort does not do. To be asked before ``best``, which begins with what
        was found."""
        found = self._met_together(self._but(without), effort, seed)
        self._asked = {**self._asked, without: found}
        return found.answer

    def _but(self, without: frozenset[Priority]) -> list[Wish]:
        return [wish for wish in self.wishes if wish.layer not in without]

    def _met_together(self, wishes: Sequence[Wish], effort: float, seed: int) -> _Found:
        """A plan that meets these wishes: one on a coarse grid is looked for first, and there one
        without cuts."""
        self.model.clear_objective()
        literals = [wish.literal for wish in wishes]
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
            if answer is None and is_fine:
                answer, boxes, more = self._met_by_filling(wishes, effort / len(tries), seed)
                spent += more
            if answer is not None:
                break
        return _Found(wishes, answer, boxes, self.value, spent)

    def _met_by_filling(
        self, wishes: Sequence[Wish], effort: float, seed: int
    ) -> tuple[bool | None, Boxes | None, float]:
        """Answer of ``solve``, boxes that meet these wishes, and the effort that took: boxes that
        meet all but those to fill the outline are made fuller as far as boxes near by are."""
        literals = [wish.literal for wish in wishes]
        others = [wish.literal for wish in _lost(wishes, self.filling)]
        if len(others) == len(literals):
            return None, None, 0.0
        boxes = self.solve(effort, seed=seed, fixed=others, light=True, step=_STEPS[0])[1]
        spent = self.spent
        if boxes is None:
            return None, None, spent
        self.model.minimize(self.dead)
        boxes, _, more = self._settled(boxes, math.inf, effort, seed, fixed=others)
        self.model.clear_objective()
        answer, met = self.solve(effort, seed=seed, hint=boxes, fixed=literals, around=0)
        return answer, met, spent + more + self.spent

    def _meet_wishes(self, effort: float, seed: int) -> tuple[bool | None, Boxes | None]:
        """Answer of ``solve``, and boxes that meet as many wishes as are found together.

        It begins with the most that ``meets`` found. Unless that was asked, all wishes are tried at
        once, without those that exclude others. Where it does not tell, they are added layer by
        layer.
        """
        asked, self._asked = self._asked, {}
        self.model.clear_objective()
        wishes = sorted(self.wishes, key=lambda wish: wish.layer)
        met = [each for each in asked.values() if each.answer]
        found = max(met, key=lambda each: len(each.wishes), default=_Found())
        if not asked:
            answer, boxes = self._meet(wishes, effort / 3, seed)
            if answer is not None:
                return answer, boxes
        found = self._by_layers(wishes, found, effort, seed)
        if found.boxes is None:
            return self.solve(2 * effort, seed=seed, taking_turns=True)
        self.value = found.value
        return True, found.boxes

    def _cheaper(
        self, boxes: Boxes, cost: float, effort: float, seed: int, **how: Any
    ) -> tuple[Boxes, float]:
        """Boxes that cost less, if any are found, and what they cost."""
        found = self.solve(effort, seed=seed, hint=boxes, taking_turns=True, **how)[1]
        return (boxes, cost) if found is None or self.cost >= cost else (found, self.cost)

    def _settled(
        self, boxes: Boxes, cost: float, effort: float, seed: int, **how: Any
    ) -> tuple[Boxes, float, float]:
        """The same, as often as the best boxes near to the last ones cost less: these are found
        much sooner than better ones anywhere. And the effort that took."""
        spent = 0.0
        while spent < effort:
            before, each = cost, min(effort - spent, _EACH)
            boxes, cost = self._cheaper(boxes, cost, each, seed, around=_NEAR, **how)
            spent += self.spent
            if cost == before:
                break
        return boxes, cost, spent

    def _keep_met(self) -> list[Any]:
        """The wishes that the boxes found last meet stay met; literals of the others."""
        missed = [wish for wish in self.wishes if not self.value(wish.literal)]
        self.model.add_bool_and([wish.literal for wish in _lost(self.wishes, missed)])
        self.missed = frozenset(wish.layer for wish in missed)
        return [wish.literal for wish in missed]

    def _by_layers(self, wishes: list[Wish], found: _Found, effort: float, seed: int) -> _Found:
        """Add wishes to those that are ``found`` to be met, layer by layer, the most important
        first, each with a third of the effort; a layer that is not decided is left out."""
        for layer in Priority:
            new = _lost([wish for wish in wishes if wish.layer == layer], found.wishes)
            if not new:
                continue
            tried = [*found.wishes, *new]
            answer, boxes = self._meet(tried, effort / 3, seed, found.boxes)
            if answer:
                found = _Found(tried, answer, boxes, self.value)
        return found

    def _meet(
        self, wishes: list[Wish], effort: float, seed: int, hint: Boxes | None = None
    ) -> tuple[bool | None, Boxes | None]:
        """Answer of ``solve`` with these wishes, from which conflicts are taken out: of those that
        exclude each other one of the lowest layer."""
        left = effort
        while left > 0:
            literals = [wish.literal for wish in wishes]
            answer, boxes = self.solve(left, seed=seed, hint=hint, fixed=literals)
            left -= self.spent
            if answer is not False or not wishes:
                return answer, boxes
            if left <= 0:
                break
            answer, boxes = self.solve(left, seed=seed, hint=hint, assumed=literals)
            left -= self.spent
            if answer is not False or not self.conflict:
                return answer, boxes
            conflict = {literal.index for literal in self.conflict}
            del wishes[max(k for k, literal in enumerate(literals) if literal.index in conflict)]
        return None, None

    def boxes_without(
        self, layers: frozenset[Priority], effort: float, seed: int
    ) -> tuple[Boxes | None, float]:
        """Boxes of a plan that meets all wishes but those of these layers, if any are found; the
        effort that took."""
        found = self._met_together(self._but(layers), effort, seed)
        return found.boxes, found.spent

    def excludes(self, needs: Collection[Requirement], effort: float, seed: int) -> bool:
        """Whether the solver shows that no plan meets all wishes of these needs."""
        literals = [wish.literal for wish in self.wishes if wish.need in needs]
        return self.solve(effort, seed=seed, fixed=literals, taking_turns=True)[0] is False

    def conflict_of_needs(
        self, effort: float, seed: int, without: frozenset[Priority]
    ) -> tuple[Requirement, ...]:
        """Needs that no plan meets together, but for those of the layers ``without``; none if that
        is not shown. As far as the effort does, those are left out without which the others exclude
        each other too; needs of no rule first."""
        needs = [wish.need for wish in self._but(without) if wish.need != NO_REQUIREMENT]
        if not self.excludes(needs, effort, seed):
            return ()
        wishes = [wish for wish in self.wishes if wish.need in needs]
        assumed = [wish.literal for wish in wishes]
        if self.solve(effort, seed=seed, assumed=assumed)[0] is False:
            core = {literal.index for literal in self.conflict}
            needs = [wish.need for wish in wishes if wish.literal.index in core]
        return self._least(needs, effort, seed)

    def _least(
        self, needs: Sequence[Requirement], effort: float, seed: int
    ) -> tuple[Requirement, ...]:
        """What is left of needs that exclude each other when, as far as the effort does, all of a
        rule and then single ones are left out without which the others do too."""
        left, rules = _TO_REDUCE * effort, dict.fromkeys(need.rule for need in reversed(needs))
        groups = [{need for need in needs if need.rule == rule} for rule in sorted(rules, key=bool)]
        for group in (*groups, *({need} for need in reversed(needs))):
            fewer = [need for need in needs if need not in group]
            if left > 0 and len(fewer) < len(needs):
                if fewer and self.excludes(fewer, min(left, _EFFORT_EACH), seed):
                    needs = fewer
                left -= self.spent
        return tuple(needs)

    def keeps(self, rules: Collection[str], effort: float, seed: int) -> bool | None:
        """True if some plan meets all wishes of these rules beside what plans always do, False if
        the solver shows that none does, None if the effort does not do, or there are no wishes. To
        be asked before ``best``, which adds to the model."""
        literals = [wish.literal for wish in self.wishes if wish.need.rule in rules]
        return self.solve(effort, seed=seed, fixed=literals)[0] if literals else None


def _lost(wishes: Sequence[Wish], kept: Sequence[Wish]) -> list[Wish]:
    """Wishes that are not among the kept ones."""
    found = {wish.literal.index for wish in kept}
    return [wish for wish in wishes if wish.literal.index not in found]
