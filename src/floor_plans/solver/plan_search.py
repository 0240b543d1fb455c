"""``PlanSearch``: in which models plans of a diagram are looked for, and which rules none keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.plans.soft_constraints import ONLY_AREAS, WITHOUT_RULES
from floor_plans.solver.hall import LED_FROM
from floor_plans.solver.plan_model import PlanModel
from floor_plans.solver.room_model import Demands, for_rules

EFFORT = 0.6
"""Effort of the solver, see ``BoxModel.solve``, to find a first plan."""

_EFFORT_AREAS, _EFFORT_RULES = 0.9, 1.2
"""Efforts to tell whether all wishes but areas can be met, and those that rules need."""

_PROVABLE = ("front", "access", "bath", "width", "area")
"""Rules of which the solver's wishes demand no more than the rule does of plans that it draws: that
these exclude the relations proves that the rule does. For others they may demand more."""


class PlanSearch:
    """Plans of a diagram for some demands: of its own rooms, and with a hall if one may be added.

    ``excluded``: after ``models``, whether the solver showed that no plan that it considers keeps
    all rules, with a hall or without.
    """

    def __init__(
        self, diagram: BubbleDiagram, demands: Demands, seed: int, *, may_have_hall: bool
    ) -> None:
        self._graph, self.demands, self.seed = (diagram.rooms, diagram.relations), demands, seed
        self._may_have_hall = may_have_hall
        self.excluded = False

    def models(self, *, meet_all: bool) -> Iterator[PlanModel]:
        """What to look for plans in, the best first: without a hall, and with one where that meets
        more than areas, keeps all rules, or may keep more of what a hall is for. ``meet_all``:
        nothing, unless all wishes are met without a hall."""
        plain = self._model(hall=False)
        if plain.meets(EFFORT, self.seed) or not self.demands.rules.rules:
            yield plain
            return
        if meet_all:
            return
        halls = [self._model(hall=True)] if self._may_have_hall else []
        rules_alone = for_rules(self.demands)
        for without, effort in ((ONLY_AREAS, _EFFORT_AREAS), (rules_alone, _EFFORT_RULES)):
            answers = []
            for model in (plain, *halls):
                answers.append(answer := model.meets(effort, self.seed, without))
                if answer:
                    yield from (model, plain) if model in halls else (plain,)
                    return
            self.excluded = without == WITHOUT_RULES and None not in answers
        kept = plain.keeps(LED_FROM, EFFORT, self.seed)
        led = [] if kept else [each for each in halls if each.keeps(LED_FROM, EFFORT, self.seed)]
        yield from (*led, plain) if kept is False else (plain, *led)

    def proved(self, broken: Collection[str]) -> frozenset[str]:
        """Those of the ``broken`` rules of which the solver shows that no plan keeps them, with a
        hall or without."""
        halls = (False, True) if self._may_have_hall else (False,)
        models = [self._model(hall=hall) for hall in halls]
        return frozenset(
            rule
            for rule in broken
            if rule in _PROVABLE
            and all(model.keeps((rule,), EFFORT, self.seed) is False for model in models)
        )

    def _model(self, *, hall: bool) -> PlanModel:
        return PlanModel(*self._graph, self.demands, hall=hall)
