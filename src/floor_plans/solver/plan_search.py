"""``PlanSearch`` and ``explain_conflicts``: models to search for plans, and why no plan keeps all
rules."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.geometry import relations_from_boxes, threshold_of
from floor_plans.diagrams.rooms import NO_EDGE, RELATIONS
from floor_plans.plans.contradiction import Member, member_text
from floor_plans.plans.outline import PER_METRE
from floor_plans.plans.soft_constraints import ONLY_AREAS, WITHOUT_RULES, Requirement
from floor_plans.rules.judging import judge
from floor_plans.solver.hall import CIRCULATION_RULES, plan_of
from floor_plans.solver.plan_model import PlanModel
from floor_plans.solver.room_model import PlanSpec, dropped_for_rules

EFFORT = 0.6
"""Effort of the solver, see ``BoxModel.solve``, to find a first plan."""

_EFFORT_AREAS, _EFFORT_RULES = 0.9, 1.2
"""Efforts to decide whether all soft constraints but areas can be satisfied, and those of the
rules."""

_PROVABLE = ("front", "access", "bath", "width", "area")
"""Rules whose soft constraints are necessary for the rule. If these are infeasible, so is the rule.
Soft constraints of other rules may be stricter than the rule."""


class PlanSearch:
    """Search for plans of a diagram, with an added hall if one is allowed.

    ``excluded``, after ``models``: True if the solver showed that no plan it considers keeps all
    rules, with or without a hall.
    """

    def __init__(
        self, diagram: BubbleDiagram, spec: PlanSpec, seed: int, *, may_have_hall: bool
    ) -> None:
        self._graph, self.spec, self.seed = (diagram.rooms, diagram.relations), spec, seed
        self._may_have_hall = may_have_hall
        self.excluded = False

    def models(self, *, meet_all: bool) -> Iterator[PlanModel]:
        """Yield the models to search, the most promising first.

        A model with a hall comes first if it satisfies more than areas, keeps all rules, or may
        keep more of ``CIRCULATION_RULES``. ``meet_all``: yield nothing unless all soft constraints
        can be satisfied without a hall.
        """
        plain = self._model(hall=False)
        if plain.meets(EFFORT, self.seed) or not self.spec.rules.rules:
            yield plain
            return
        if meet_all:
            return
        halls = [self._model(hall=True)] if self._may_have_hall else []
        rules_alone = dropped_for_rules(self.spec)
        for dropped, effort in ((ONLY_AREAS, _EFFORT_AREAS), (rules_alone, _EFFORT_RULES)):
            answers = []
            for model in (plain, *halls):
                answers.append(answer := model.meets(effort, self.seed, dropped))
                if answer:
                    yield from (model, plain) if model in halls else (plain,)
                    return
            # every answer is a proof, of all rules
            self.excluded = dropped == WITHOUT_RULES and None not in answers
        # no model keeps all rules: does a hall help with circulation?
        kept = plain.can_keep(CIRCULATION_RULES, EFFORT, self.seed)
        with_hall = (
            []
            if kept
            else [each for each in halls if each.can_keep(CIRCULATION_RULES, EFFORT, self.seed)]
        )
        yield from (*with_hall, plain) if kept is False else (plain, *with_hall)

    def proved(self, broken: Collection[str]) -> frozenset[str]:
        """Return the ``broken`` rules that the solver shows to be infeasible, with and without a
        hall."""
        # infeasible in every model
        halls = (False, True) if self._may_have_hall else (False,)
        models = [self._model(hall=hall) for hall in halls]
        return frozenset(
            rule
            for rule in broken
            if rule in _PROVABLE
            and all(model.can_keep((rule,), EFFORT, self.seed) is False for model in models)
        )

    def _model(self, *, hall: bool) -> PlanModel:
        return PlanModel(*self._graph, self.spec, hall=hall)


_EFFORT = 0.6
"""Effort of the solver, see ``BoxModel.solve``, to show that requirements conflict, and again to
reduce the conflict."""

_EFFORT_INSTEAD, _EFFORT_EACH = 1.5, 0.3
"""Effort to find another relation, and of each one that is tried."""

_AT_MOST = 6
"""Requirements that a sentence names."""


@dataclass(frozen=True)
class Conflict:
    """Requirements that no plan considered by the solver satisfies together. ``hall``: with an
    added hall, or without; None: either way, or a hall is not allowed."""

    requirements: tuple[Requirement, ...]
    hall: bool | None = None

    def sentence(self, names: Sequence[str]) -> str:
        """Return ``ruled out without a hall: kitchen is reached through common rooms``. ``names``:
        of all rooms, the hall's last."""
        where = {None: "", True: " with a hall", False: " without a hall"}[self.hall]
        together = " together" if len(self.requirements) > 1 else ""
        named = [requirement.sentence(names) for requirement in self.requirements[:_AT_MOST]]
        if left := len(self.requirements) - len(named):
            named.append(f"{left} more")
        return f"ruled out{together}{where}: {', '.join(named)}"

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        return {
            "hall": self.hall,
            "needs": [requirement.to_json(names) for requirement in self.requirements],
        }


@dataclass(frozen=True)
class Explanation:
    """Explanation why no plan keeps all rules. ``conflicts``: those the solver shows, without a
    hall and with one. ``instead``: a relation of the diagram, or its absence, and a replacement
    that lets a plan keep all rules."""

    conflicts: tuple[Conflict, ...] = ()
    instead: tuple[Member, Member] | None = None

    @property
    def excludes(self) -> bool:
        """True if the conflicts rule out every plan, with a hall and without."""
        halls = {conflict.hall for conflict in self.conflicts}
        return None in halls or halls == {True, False}

    def sentences(self, names: Sequence[str]) -> list[str]:
        """Return ``possible with kitchen above bathroom (now left-above)``. ``names``: as for
        ``Conflict.sentence``."""
        said = [conflict.sentence(names) for conflict in self.conflicts]
        if self.instead is not None:
            (*_, now), new = self.instead
            named = "not related" if now == NO_EDGE else RELATIONS[now]
            said.append(f"possible with {member_text(new, names)} (now {named})")
        return said

    def renumbered(self, rooms: Sequence[int]) -> Explanation:
        """Return the explanation for a diagram in which room k has the number ``rooms[k]``, a hall
        the last."""
        conflicts = tuple(
            replace(
                each,
                requirements=tuple(
                    requirement.renumbered(rooms) for requirement in each.requirements
                ),
            )
            for each in self.conflicts
        )
        if self.instead is None:
            return Explanation(conflicts)
        now, new = ((rooms[i], rooms[j], code) for i, j, code in self.instead)
        return Explanation(conflicts, (now, new))

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.conflicts:
            found["conflicts"] = [conflict.to_json(names) for conflict in self.conflicts]
        if self.instead is not None:
            (*rooms, now), (*_, new) = self.instead
            names_of = {"now": RELATIONS[now], "relation": RELATIONS[new]}
            found["instead"] = {"rooms": rooms} | names_of
        return found


NO_EXPLANATION = Explanation()


def explain_conflicts(
    diagram: BubbleDiagram,
    spec: PlanSpec,
    seed: int,
    *,
    may_have_hall: bool,
    broken: Collection[int] = (),
) -> Explanation:
    """Explain why no plan of a diagram keeps all rules, and look for a relation that would allow
    one.

    Shapes and areas of rooms are free, apart from the least widths and areas of the rules. The
    relation allows a plan without a hall. ``broken``: rooms of rules that the best plan breaks.
    """
    conflicts = tuple(_conflicts(diagram, spec, seed, may_have_hall))
    concerned = {
        room
        for conflict in conflicts
        for requirement in conflict.requirements
        for room in requirement.rooms
    }
    return Explanation(conflicts, _instead(diagram, spec, seed, concerned or broken))


def _conflicts(
    diagram: BubbleDiagram, spec: PlanSpec, seed: int, may_have_hall: bool
) -> Iterator[Conflict]:
    """Conflicts without a hall and with one, or of both together."""
    model = PlanModel(diagram.rooms, diagram.relations, spec)
    requirements = model.conflicting_requirements(_EFFORT, seed, WITHOUT_RULES)
    if not may_have_hall:
        if requirements:
            yield Conflict(requirements)
        return
    with_hall = PlanModel(diagram.rooms, diagram.relations, spec, hall=True)
    # a hall does not resolve the conflict
    if requirements and with_hall.is_infeasible(requirements, _EFFORT, seed):
        yield Conflict(requirements)
        return
    if requirements:
        yield Conflict(requirements, hall=False)
    if requirements := with_hall.conflicting_requirements(_EFFORT, seed, WITHOUT_RULES):
        yield Conflict(requirements, hall=True)


def _instead(
    diagram: BubbleDiagram, spec: PlanSpec, seed: int, concerned: Collection[int]
) -> tuple[Member, Member] | None:
    """Find another relation of a pair with which a plan without a hall keeps all rules. Pairs of
    the ``concerned`` rooms are tried first."""
    codes = {(i, j): code for i, j, code in diagram.relations}
    pairs = sorted(
        combinations(range(diagram.num_rooms), 2),
        key=lambda pair: (-sum(room in concerned for room in pair), pair not in codes),
    )
    left = _EFFORT_INSTEAD
    for pair in pairs:
        if left <= 0:
            break
        # leave the pair open and see what the solver chooses
        others = [relation for relation in diagram.relations if relation[:2] != pair]
        model = PlanModel(diagram.rooms, others, spec, unknown=[pair])
        boxes, spent = model.boxes_dropping(dropped_for_rules(spec), _EFFORT_EACH, seed)
        left -= spent
        if boxes is None:
            continue
        # check the relation on the plan itself
        metres = np.array(boxes) / PER_METRE
        code = int(relations_from_boxes(metres, threshold_of("metres", None))[pair])
        new = tuple(sorted([*others, *([(*pair, code)] if code != NO_EDGE else [])]))
        plan = plan_of(replace(diagram, relations=new), spec, boxes)
        if plan.honours_diagram and not judge(plan, spec.rules).broken:
            return (*pair, codes.get(pair, NO_EDGE)), (*pair, code)
    return None
