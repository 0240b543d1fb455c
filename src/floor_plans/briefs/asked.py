"""The brief that a request names, what meets it, and particles that are steered towards it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from discrete_diffusion.runtime import GivenObjects
from discrete_diffusion.sampling import FirstHitting, Particles
from floor_plans.briefs.brief import Brief
from floor_plans.briefs.checking import verdict
from floor_plans.briefs.feasibility import feasibility
from floor_plans.briefs.reading import brief_of, read_brief
from floor_plans.briefs.soft_guidance import SoftGuidance
from floor_plans.diagrams.vocabulary import vocabulary_of_graph
from floor_plans.learning.conditions.facts import OF_PLANS, Facts
from floor_plans.plans.rejection import EFFORT, Buildable

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.evaluation import Request, TrainedModel
    from discrete_diffusion.layout import VocabConfig
    from discrete_diffusion.runtime import Shard
    from floor_plans.briefs.chances import BriefConstraint
    from floor_plans.diagrams.diagram import BubbleDiagram

logger = logging.getLogger(__name__)


def load_brief(request: Request, vocab: VocabConfig) -> Brief:
    """Brief of a request; ``ValueError`` for one that is wrong or that no diagram meets, and for
    options that do not go with one."""
    for key, why in (
        ("num_rooms", "write it into the brief, as in num_rooms: 5-7"),
        ("trajectory", "diagrams are chosen among many samples; leave it out"),
    ):
        if request.get(key):
            raise ValueError(f"{key}={request[key]} does not go with brief=: {why}")
    buildable = request.get("buildable")
    if buildable not in (None, False, True):
        raise ValueError(
            f"buildable={buildable} does not go with brief=, which rejects diagrams without "
            "a plan; take buildable=true"
        )
    slow = "given=" if request.get("given") else "method=particles"
    if request.get("habitable") and (request.get("given") or request.get("method") == "particles"):
        raise ValueError(
            f"habitable={request['habitable']} does not go with brief= and {slow}: the plans of "
            "all that are weighed take too long; take buildable=true"
        )
    brief = check_brief(_requested_brief(request.brief), vocab, name_of_brief(request))
    return replace(brief, buildable=brief.buildable or bool(buildable))


def name_of_brief(request: Request) -> str:
    """Name of the brief in messages: ``brief=FILE``, or "the brief" if it came from no file."""
    return "the brief" if isinstance(request.brief, GivenObjects) else f"brief={request.brief}"


def check_brief(brief: Brief, vocab: VocabConfig, shown: str) -> Brief:
    """The brief itself; ``ValueError`` for one that no diagram meets. ``shown``: where it is
    from."""
    words = vocabulary_of_graph(vocab)
    found = feasibility(brief, vocab.n_max, words)
    if found.can_be_met is False:
        raise ValueError(verdict(found, brief, vocab.n_max, words, shown))
    return brief


def _requested_brief(given: str | GivenObjects) -> Brief:
    """A ``Brief``, or what its keys say: those of an object or of a file."""
    if not isinstance(given, GivenObjects):
        return read_brief(given)
    alone = given.objects[0] if len(given.objects) == 1 else None
    return alone if isinstance(alone, Brief) else brief_of(given.one_object())


def stated_condition(
    brief: Brief, trained: TrainedModel, vocab: VocabConfig
) -> tuple[dict[str, Tensor], list[str]]:
    """The condition of one row that the network is given for the brief, and what it says, in words;
    nothing if the network was trained without ``data.condition``. A fact of plans that it was not
    trained on is left to the solver, and said."""
    facts = Facts.of(trained.data_config, vocab)
    known = () if facts is None else facts.names
    if unknown := [name for name in brief.plan_facts.names if name not in known]:
        learned = [*known, *(name for name in unknown if name in OF_PLANS)]
        it = "it" if len(unknown) == 1 else "them"
        logger.warning(
            "%s: %s was not trained on %s, so the diagrams are drawn as without %s; plans make "
            "brief= gives %s to the solver%s",
            *(", ".join(unknown), trained.path, it, it, it),
            f", data.condition=[{', '.join(learned)}] in training to a model"
            if len(learned) > len(known)
            else "",
        )
    if facts is None:
        return {}, []
    condition = condition_of(brief, facts)
    return {"condition": condition}, facts.known(condition)


def condition_of(brief: Brief, facts: Facts) -> Tensor:
    """Float32[1, S]: what a brief says exactly, of the ``facts`` that a model knows."""
    return facts.stated(
        num_rooms=brief.num_rooms.exact,
        counts={rule.kind.types: rule.number.exact for rule in brief.counts},
        area=brief.plan_facts.area,
        outline=brief.plan_facts.outline,
        front_door=brief.plan_facts.front_door,
    )


@dataclass(frozen=True)
class BriefPredicate:
    """Predicate: a diagram meets a brief, floor plan included if requested; None: undecided."""

    brief: Brief
    shard: Shard

    @cached_property
    def _have_plans(self) -> Buildable:
        """One for all calls: it remembers verdicts."""
        return Buildable(EFFORT, self.shard)

    def __call__(self, diagrams: Sequence[BubbleDiagram]) -> list[bool | None]:
        met: list[bool | None] = [not self.brief.unmet(diagram) for diagram in diagrams]
        if not self.brief.buildable:
            return met
        fit = [k for k, answer in enumerate(met) if answer]
        verdicts = self._have_plans([diagrams[k] for k in fit])
        for k, has_plan in zip(fit, verdicts, strict=True):
            met[k] = has_plan
        return met


def steered(sampler: Any, constraint: BriefConstraint, path: str) -> Particles:
    """Particles that are sampled as ``sampler`` samples; ``ValueError`` for one of another kind."""
    if not isinstance(sampler, FirstHitting):
        raise ValueError(
            f"method=particles reveals tokens one by one, but {path} is sampled by {sampler.name}; "
            "take sampling=first-hitting or method=rejection"
        )
    return Particles(
        constraint=constraint,
        temperature=sampler.temperature,
        top_p=sampler.top_p,
        guidance=sampler.guidance,
    )


def softly_steered(
    sampler: FirstHitting, constraint: BriefConstraint, gamma: float
) -> SoftGuidance:
    """The baseline, sampled as ``sampler`` samples."""
    return SoftGuidance(
        constraint=constraint,
        gamma=gamma,
        temperature=sampler.temperature,
        top_p=sampler.top_p,
        guidance=sampler.guidance,
    )
