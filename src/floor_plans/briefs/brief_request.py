"""Brief of a request, its predicate, and samplers steered towards it, soft guidance included."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from discrete_diffusion.categorical import sample_categorical
from discrete_diffusion.config import is_number
from discrete_diffusion.runtime import GivenObjects
from discrete_diffusion.sampling import FirstHitting, PartialSamples
from floor_plans.briefs.brief import Brief
from floor_plans.briefs.checking import verdict
from floor_plans.briefs.feasibility import feasibility
from floor_plans.briefs.particles import Particles, Steered
from floor_plans.briefs.reading import brief_of, read_brief
from floor_plans.diagrams.vocabulary import vocabulary_of_graph
from floor_plans.learning.conditions.fact_sizes import OF_PLANS
from floor_plans.learning.conditions.facts import Facts
from floor_plans.plans.rejection import EFFORT, Buildable

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.evaluation import Request, TrainedModel
    from discrete_diffusion.layout import VocabConfig
    from discrete_diffusion.runtime import Shard
    from floor_plans.briefs.chances import BriefConstraint
    from floor_plans.diagrams.diagram import BubbleDiagram


@dataclass(kw_only=True)
class SoftGuidance(Steered):
    """First-hitting sampling with every token tilted towards ``constraint``, without weights.

    With h(C | x with v) the chance that a sample meets C, each token is sampled from

        r(v) proportional to D_l(v) max(h(x with v), doubt)^gamma.

    Nothing is resampled or rejected: samples may break C, and those that meet it are not
    distributed as p given C. This is guidance by a classifier of unfinished samples (Dhariwal and
    Nichol, arXiv 2105.05233; for graphs, Vignac et al., arXiv 2209.14734, section 4.3), with h in
    place of a trained classifier. ``doubt``: lower bound on h, since a trained classifier is never
    certain that C is out of reach; with 0, tokens that h excludes are never sampled, unless D
    allows no other. ``gamma=0`` is the model itself.

    ``log_weights`` of the result are 0. Raises ``ValueError`` for a ``gamma`` below 0 or a
    ``doubt`` outside [0, 1].
    """

    gamma: float = 1.0
    doubt: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_number(self.gamma) or not 0 <= self.gamma < math.inf:
            raise ValueError(f"gamma={self.gamma}: expected a number, 0 or more")
        if not 0 <= self.doubt <= 1:
            raise ValueError(f"doubt={self.doubt}: expected a share, 0 to 1")

    def run(self, samples: PartialSamples) -> None:
        # one network call reveals one token of every row that still has masks
        call, t = self.call_order(samples)
        left = call.amax(dim=1) + 1
        num_calls = int(left.max()) if len(left) else 0
        samples.calls.expect(num_calls)
        for k in range(num_calls):
            rows = (left > k).nonzero().squeeze(1)
            position = (call[rows] == k).int().argmax(dim=1)
            log_d, log_h = self._outlook(samples, rows, position, t[rows, k])
            # tilt by h^gamma in log space; rows that h excludes entirely fall back to D
            tilt = self.gamma * log_h.clamp(min=math.log(self.doubt) if self.doubt else -math.inf)
            log_r = log_d + (torch.zeros_like(tilt) if self.gamma == 0 else tilt)
            none = log_r.amax(dim=-1, keepdim=True) == -torch.inf
            log_r = torch.where(none, log_d, log_r).log_softmax(dim=-1)
            samples.x[rows, position] = sample_categorical(log_r, samples.generator)
            samples.record()
            if self.on_sampled is not None:
                self.on_sampled(len(rows))


logger = logging.getLogger(__name__)


def load_brief(request: Request, vocab: VocabConfig) -> Brief:
    """Load the brief of a request.

    Raises ``ValueError`` for a brief that is wrong or that no diagram meets, and for options that
    do not go with a brief.
    """
    # options that a brief replaces or excludes
    for key, why in (
        ("num_rooms", "write it into the brief, as in num_rooms: 5-7"),
        ("trajectory", "diagrams are chosen among many samples; leave it out"),
    ):
        if request.get(key):
            raise ValueError(f"{key}={request[key]} does not go with brief=: {why}")
    # values of buildable and habitable that fit a brief
    buildable = request.get("buildable")
    if buildable not in (None, False, True):
        raise ValueError(
            f"buildable={buildable} does not go with brief=, which rejects diagrams without "
            "a plan; take buildable=true"
        )
    slow = "given=" if request.get("given") else "method=particles"
    if request.get("habitable") and (request.get("given") or request.get("method") == "particles"):
        raise ValueError(
            f"habitable={request['habitable']} does not go with brief= and {slow}: finding a plan "
            "of every weighted sample takes too long; take buildable=true"
        )
    # read the brief, and refuse one that no diagram meets
    brief = check_brief(_requested_brief(request.brief), vocab, name_of_brief(request))
    return replace(brief, buildable=brief.buildable or bool(buildable))


def name_of_brief(request: Request) -> str:
    """Name of the brief in messages: ``brief=FILE``, or "the brief" if it came from no file."""
    return "the brief" if isinstance(request.brief, GivenObjects) else f"brief={request.brief}"


def check_brief(brief: Brief, vocab: VocabConfig, shown: str) -> Brief:
    """Return the brief; ``ValueError`` if no diagram meets it. ``shown``: its name in messages."""
    words = vocabulary_of_graph(vocab)
    found = feasibility(brief, vocab.n_max, words)
    if found.can_be_met is False:
        raise ValueError(verdict(found, brief, vocab.n_max, words, shown))
    return brief


def _requested_brief(given: str | GivenObjects) -> Brief:
    """Read the brief of a file or of an object; return a ``Brief`` as it stands."""
    if not isinstance(given, GivenObjects):
        return read_brief(given)
    alone = given.objects[0] if len(given.objects) == 1 else None
    return alone if isinstance(alone, Brief) else brief_of(given.one_object())


def stated_condition(
    brief: Brief, trained: TrainedModel, vocab: VocabConfig
) -> tuple[dict[str, Tensor], list[str]]:
    """Condition of the network for the brief, one row, and its meaning in words.

    Both are empty if the network was trained without ``data.condition``. A fact of plans that it
    was not trained on is left to the solver, with a warning.
    """
    # facts of plans that the model does not know
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
    """Float32[1, S]: values of the ``facts`` of a model that a brief states exactly."""
    return facts.stated(
        num_rooms=brief.num_rooms.exact,
        counts={rule.kind.types: rule.number.exact for rule in brief.counts},
        area=brief.plan_facts.area,
        outline=brief.plan_facts.outline,
        front_door=brief.plan_facts.front_door,
    )


@dataclass(frozen=True)
class BriefPredicate:
    """Predicate: a diagram meets a brief, with a floor plan if requested; None if undecided."""

    brief: Brief
    shard: Shard

    @cached_property
    def _have_plans(self) -> Buildable:
        """Predicate of all calls, so that verdicts are remembered."""
        return Buildable(EFFORT, self.shard)

    def __call__(self, diagrams: Sequence[BubbleDiagram]) -> list[bool | None]:
        met: list[bool | None] = [not self.brief.unmet(diagram) for diagram in diagrams]
        if not self.brief.buildable:
            return met
        # floor plans only of diagrams that meet the rules
        fit = [k for k, answer in enumerate(met) if answer]
        verdicts = self._have_plans([diagrams[k] for k in fit])
        for k, has_plan in zip(fit, verdicts, strict=True):
            met[k] = has_plan
        return met


def steered(sampler: Any, constraint: BriefConstraint, path: str) -> Particles:
    """Particles with the options of ``sampler``; ``ValueError`` unless it is first-hitting."""
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
    """Build the soft-guidance baseline with the options of ``sampler``."""
    return SoftGuidance(
        constraint=constraint,
        gamma=gamma,
        temperature=sampler.temperature,
        top_p=sampler.top_p,
        guidance=sampler.guidance,
    )
