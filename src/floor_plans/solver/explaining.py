"""Why no plan keeps the rules: what excludes each other, and what other relation would do."""

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
from floor_plans.plans.soft_constraints import WITHOUT_RULES, Requirement
from floor_plans.rules.judging import judge
from floor_plans.solver.plan_model import PlanModel
from floor_plans.solver.plan_of_boxes import plan_of
from floor_plans.solver.room_model import Demands, for_rules

_EFFORT = 0.6
"""Effort of the solver, see ``BoxModel.solve``, to show that needs exclude each other; as much to
leave some out."""

_EFFORT_INSTEAD, _EFFORT_EACH = 1.5, 0.3
"""Effort to find another relation, and of each that is tried."""

_AT_MOST = 6
"""Needs that a sentence names."""


@dataclass(frozen=True)
class Conflict:
    """``needs`` that no plan which the solver considers meets together. ``hall``: of plans with an
    added hall, or without; None: of both, or a hall was not allowed."""

    needs: tuple[Requirement, ...]
    hall: bool | None = None

    def sentence(self, names: Sequence[str]) -> str:
        """``ruled out without a hall: kitchen is reached through common rooms``; ``names`` of all
        rooms, the hall's last."""
        where = {None: "", True: " with a hall", False: " without a hall"}[self.hall]
        together = " together" if len(self.needs) > 1 else ""
        named = [need.sentence(names) for need in self.needs[:_AT_MOST]]
        if left := len(self.needs) - len(named):
            named.append(f"{left} more")
        return f"ruled out{together}{where}: {', '.join(named)}"

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        return {"hall": self.hall, "needs": [need.to_json(names) for need in self.needs]}


@dataclass(frozen=True)
class Why:
    """Why no plan keeps all rules. ``conflicts``: of plans without a hall and with one, where the
    solver shows any. ``instead``: a relation of the diagram, or that a pair has none, and another
    one with which a plan keeps all rules, where one was found."""

    conflicts: tuple[Conflict, ...] = ()
    instead: tuple[Member, Member] | None = None

    @property
    def excludes(self) -> bool:
        """Whether no plan is left, with a hall or without."""
        halls = {conflict.hall for conflict in self.conflicts}
        return None in halls or halls == {True, False}

    def sentences(self, names: Sequence[str]) -> list[str]:
        """``possible with kitchen above bathroom (now left-above)``; ``names`` as of a conflict."""
        said = [conflict.sentence(names) for conflict in self.conflicts]
        if self.instead is not None:
            (*_, now), new = self.instead
            named = "not related" if now == NO_EDGE else RELATIONS[now]
            said.append(f"possible with {member_text(new, names)} (now {named})")
        return said

    def renumbered(self, rooms: Sequence[int]) -> Why:
        """For a diagram in which room k has the number ``rooms[k]``, a hall the last."""
        conflicts = tuple(
            replace(each, needs=tuple(need.renumbered(rooms) for need in each.needs))
            for each in self.conflicts
        )
        if self.instead is None:
            return Why(conflicts)
        now, new = ((rooms[i], rooms[j], code) for i, j, code in self.instead)
        return Why(conflicts, (now, new))

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.conflicts:
            found["conflicts"] = [conflict.to_json(names) for conflict in self.conflicts]
        if self.instead is not None:
            (*rooms, now), (*_, new) = self.instead
            names_of = {"now": RELATIONS[now], "relation": RELATIONS[new]}
            found["instead"] = {"rooms": rooms} | names_of
        return found


NO_REASON = Why()


def explained(
    diagram: BubbleDiagram,
    demands: Demands,
    seed: int,
    *,
    may_have_hall: bool,
    broken: Collection[int] = (),
) -> Why:
    """Why no plan of a diagram keeps all rules, as far as the solver tells, whatever the shapes and
    areas of rooms, but for the least widths and areas of the rules; and another relation with which
    a plan without a hall keeps them. ``broken``: rooms of rules that the plan found breaks."""
    conflicts = tuple(_conflicts(diagram, demands, seed, may_have_hall))
    concerned = {room for conflict in conflicts for need in conflict.needs for room in need.rooms}
    return Why(conflicts, _instead(diagram, demands, seed, concerned or broken))


def _conflicts(
    diagram: BubbleDiagram, demands: Demands, seed: int, may_have_hall: bool
) -> Iterator[Conflict]:
    model = PlanModel(diagram.rooms, diagram.relations, demands)
    needs = model.conflict_of_needs(_EFFORT, seed, WITHOUT_RULES)
    if not may_have_hall:
        if needs:
            yield Conflict(needs)
        return
    led = PlanModel(diagram.rooms, diagram.relations, demands, hall=True)
    if needs and led.excludes(needs, _EFFORT, seed):
        yield Conflict(needs)
        return
    if needs:
        yield Conflict(needs, hall=False)
    if needs := led.conflict_of_needs(_EFFORT, seed, WITHOUT_RULES):
        yield Conflict(needs, hall=True)


def _instead(
    diagram: BubbleDiagram, demands: Demands, seed: int, concerned: Collection[int]
) -> tuple[Member, Member] | None:
    """A pair of rooms, and another relation of theirs with which a plan without a hall keeps all
    rules; pairs of the rooms ``concerned`` are tried first."""
    codes = {(i, j): code for i, j, code in diagram.relations}
    pairs = sorted(
        combinations(range(diagram.num_rooms), 2),
        key=lambda pair: (-sum(room in concerned for room in pair), pair not in codes),
    )
    left = _EFFORT_INSTEAD
    for pair in pairs:
        if left <= 0:
            break
        others = [relation for relation in diagram.relations if relation[:2] != pair]
        model = PlanModel(diagram.rooms, others, demands, unknown=[pair])
        boxes, spent = model.boxes_without(for_rules(demands), _EFFORT_EACH, seed)
        left -= spent
        if boxes is None:
            continue
        metres = np.array(boxes) / PER_METRE
        code = int(relations_from_boxes(metres, threshold_of("metres", None))[pair])
        new = tuple(sorted([*others, *([(*pair, code)] if code != NO_EDGE else [])]))
        plan = plan_of(replace(diagram, relations=new), demands, boxes)
        if plan.honours_diagram and not judge(plan, demands.rules).broken:
            return (*pair, codes.get(pair, NO_EDGE)), (*pair, code)
    return None
