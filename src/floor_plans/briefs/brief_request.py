"""Briefs of requests: load and check them, choose completions that meet them, rewards."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.categorical import effective_number, make_generator, uniform_draws
from discrete_diffusion.domains import SampleScore
from discrete_diffusion.evaluation import Request, SampleRequest, TrainedModel
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.runtime import GivenObjects, Shard
from discrete_diffusion.sampling import FirstHitting
from floor_plans.briefs.brief import SOLVER_HAS_FACTS, Brief
from floor_plans.briefs.chances import BriefConstraint
from floor_plans.briefs.checking import brief_verdict
from floor_plans.briefs.feasibility import feasibility
from floor_plans.briefs.particles import steered_particles, systematic_rows
from floor_plans.briefs.reading import brief_of, read_brief
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import property_flags
from floor_plans.diagrams.vocabulary import OF_PLANS, vocabulary_of_graph
from floor_plans.learning.completions import Choose, Completions, Draw
from floor_plans.learning.conditions import Facts
from floor_plans.plans.buildable import EFFORT, Buildable

logger = logging.getLogger(__name__)

PARTICLES = 512  # default of ``particles``, for each partial diagram
TRIES = 200  # default of ``max_tries``: most completions of rejection for each requested one

_PILOT, _LEAST_SHARE = 32, 0.1
"""Completions of each line that are tried, and the share of them that has to meet the brief for
rejection to be the default."""


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
    buildable = request.get("buildable")
    if buildable not in (None, False, True):
        raise ValueError(
            f"buildable={buildable} does not go with brief=, which rejects diagrams without "
            "a plan; take buildable=true"
        )
    slow = "given=" if request.get("given") else "method=smc"
    if request.get("livable") and (request.get("given") or request.get("method") == "smc"):
        raise ValueError(
            f"livable={request['livable']} does not go with brief= and {slow}: finding a plan "
            "of every weighted sample takes too long; take buildable=true"
        )
    # read the brief, and refuse one that no diagram meets
    given = request.brief
    if isinstance(given, GivenObjects):
        alone = given.objects[0] if len(given.objects) == 1 else None
        brief = alone if isinstance(alone, Brief) else brief_of(given.one_object())
    else:
        brief = read_brief(given)
    brief = check_brief(brief, vocab, name_of_brief(request))
    return replace(brief, buildable=brief.buildable or bool(buildable))


def name_of_brief(request: Request) -> str:
    """Name of the brief in messages: ``brief=FILE``, or "the brief" without a file."""
    return "the brief" if isinstance(request.brief, GivenObjects) else f"brief={request.brief}"


def check_brief(brief: Brief, vocab: VocabConfig, shown: str) -> Brief:
    """Return the brief; raise ``ValueError`` if no diagram meets it. ``shown``: name for
    messages."""
    words = vocabulary_of_graph(vocab)
    found = feasibility(brief, vocab.n_max, words)
    if found.can_be_met is False:
        raise ValueError(brief_verdict(found, brief, vocab.n_max, words, shown))
    return brief


def stated_condition(
    brief: Brief, trained: TrainedModel, vocab: VocabConfig
) -> tuple[dict[str, Tensor], list[str]]:
    """Return the condition of the network for the brief, one row, and its meaning in words.

    Both are empty if the network was trained without ``data.condition_on``. A fact of plans that it
    was not trained on is left to the solver, with a warning unless it has it.
    """
    # facts of plans that the model does not know
    facts = Facts.of(trained.data_config, vocab)
    known = () if facts is None else facts.names
    unknown = [name for name in brief.plan_facts.names if name not in known]
    if unknown and not SOLVER_HAS_FACTS.get():
        learned = [*known, *(name for name in unknown if name in OF_PLANS)]
        it = "it" if len(unknown) == 1 else "them"
        logger.warning(
            "%s: %s was not trained on %s, so the diagrams are drawn as without %s; plans make "
            "brief= gives %s to the solver%s",
            *(", ".join(unknown), trained.path, it, it, it),
            f", data.condition_on=[{', '.join(learned)}] in training to a model"
            if len(learned) > len(known)
            else "",
        )
    if facts is None:
        return {}, []
    condition = condition_of(brief, facts)
    return {"condition": condition}, facts.known(condition)


def condition_of(brief: Brief, facts: Facts) -> Tensor:
    """Values of the ``facts``, Float32[1, S]; NaN unless the brief states a fact exactly."""
    return facts.stated(
        num_rooms=brief.num_rooms.exact,
        counts={rule.kind.types: rule.number.exact for rule in brief.counts},
        area=brief.plan_facts.area,
        outline=brief.plan_facts.outline,
        front_door=brief.plan_facts.front_door,
    )


@dataclass(frozen=True)
class BriefPredicate:
    """Predicate: True if a diagram meets a brief, and has a floor plan if the brief requires one;
    None if the solver cannot decide. With ``entropy`` diagrams that meet it are also rejected at
    random, with probability 1 - ``Brief.preference``."""

    brief: Brief
    shard: Shard
    entropy: tuple[int, ...] | None = None

    @cached_property
    def _have_plans(self) -> Buildable:
        """Judge of whether diagrams have floor plans; it reuses verdicts between calls."""
        return Buildable(EFFORT, self.shard)

    @cached_property
    def _generator(self) -> torch.Generator:
        return make_generator(*(self.entropy or ()))

    def __call__(self, diagrams: Sequence[BubbleDiagram]) -> list[bool | None]:
        met: list[bool | None] = [not self.brief.unmet(diagram) for diagram in diagrams]
        if self.entropy is not None and self.brief.should:
            draws = uniform_draws((len(diagrams),), self._generator).tolist()
            likely = [u < self.brief.preference(d) for u, d in zip(draws, diagrams, strict=True)]
            met = [each and is_likely for each, is_likely in zip(met, likely, strict=True)]
        if not self.brief.buildable:
            return met
        # floor plans only of diagrams that meet the rules
        fit = [k for k, answer in enumerate(met) if answer]
        verdicts = self._have_plans([diagrams[k] for k in fit])
        for k, has_plan in zip(fit, verdicts, strict=True):
            met[k] = has_plan
        return met


def chosen_by_brief(request: SampleRequest, trained: TrainedModel, vocab: VocabConfig) -> Choose:
    """Build the ``Choose`` of completions that meet ``brief``.

    Raises ``ValueError`` if ``load_brief`` does, or if the brief states facts of the plan.
    """
    brief = load_brief(request, vocab)
    if brief.plan_facts.names:
        raise ValueError(
            f"{brief.plan_facts.names[0]} of {name_of_brief(request)} does not go with given= yet; "
            "leave one of them out"
        )
    return BriefChoice(request, trained, brief, vocab)


_Rows = list[tuple[Completions, int]]  # completions, and the row of one that is chosen


@dataclass(frozen=True)
class BriefChoice:
    """A ``Choose`` of completions that meet ``brief``, by the ``method`` of the request."""

    request: SampleRequest
    trained: TrainedModel
    brief: Brief
    vocab: VocabConfig

    def __call__(
        self, lines: Sequence[int], draw: Draw, num: int, shard: Shard
    ) -> tuple[Completions, dict[str, Any]]:
        """Sample ``num`` completions of each of the ``lines``; also return facts of the sampling.

        Raises ``ValueError`` naming a line with too few completions.
        """
        sampler, meets = self.trained.sampler, BriefPredicate(self.brief, shard)
        if (method := self.request.method) is None:
            # rejection if enough of a few completions of every line meet the brief
            met = meets(draw(sampler, _PILOT, (3,)).diagrams)
            hits = [met[k : k + _PILOT].count(True) for k in range(0, len(met), _PILOT)]
            common = min(hits) / _PILOT >= _LEAST_SHARE
            is_particle = isinstance(sampler, FirstHitting) and not common
            method = "particles" if is_particle else "rejection"
        choose = self._choose_by_rejection if method == "rejection" else self._choose_by_particles
        chosen, facts = choose(lines, draw, num, meets)
        # gather the chosen rows, with equal weights
        first, rows = chosen[0][0], torch.tensor([row for _, row in chosen])
        completed = replace(
            first,
            diagrams=[part.diagrams[row] for part, row in chosen],
            network_calls=torch.stack([part.network_calls[row] for part, row in chosen]),
            real=first.real[rows],
            known=first.known[rows],
            log_weights=torch.zeros(len(chosen), dtype=torch.float64),
        )
        facts["network_calls_per_sample"] /= len(chosen)
        return completed, {"brief": str(self.request.brief), "method": method, **facts}

    def _choose_by_rejection(
        self, lines: Sequence[int], draw: Draw, num: int, meets: BriefPredicate
    ) -> tuple[_Rows, dict[str, Any]]:
        """Choose the first ``num`` completions of each line that meet the brief."""
        max_tries = self.request.max_tries or TRIES
        judge = replace(meets, entropy=(self.request.seed, 4))
        # rounds of num completions for each line, until every line has enough
        kept: list[_Rows] = [[] for _ in lines]
        drawn = calls = 0
        for turn in range(max_tries):
            if all(len(found) >= num for found in kept):
                break
            new = draw(self.trained.sampler, num, (1, turn))
            met = judge(new.diagrams)
            drawn, calls = drawn + len(met), calls + int(new.network_calls.sum())
            for row, answer in enumerate(met):
                if answer:
                    kept[row // num].append((new, row))
        # lines with too few matches
        short = [line for line, found in zip(lines, kept, strict=True) if len(found) < num]
        if short:
            raise ValueError(
                f"line {short[0]}: fewer than {num} of {num * max_tries:,} completions meet the "
                f"brief; max_tries={max_tries}: raise it, or take method=smc"
            )
        chosen = [pair for found in kept for pair in found[:num]]
        return chosen, {"num_drawn": drawn, "network_calls_per_sample": calls}

    def _choose_by_particles(
        self, lines: Sequence[int], draw: Draw, num: int, meets: BriefPredicate
    ) -> tuple[_Rows, dict[str, Any]]:
        """Resample ``num`` of the particles of each line by their weights. ``meets`` also checks
        the number of rooms and the floor plan, which do not steer particles."""
        # particles of all lines in one batch; a row keeps its line and its arrangement
        constraint = BriefConstraint(self.brief, self.vocab)
        steering = steered_particles(self.trained.sampler, constraint, self.trained.path)
        particles = self.request.particles or PARTICLES
        pool = draw(replace(steering, resample=0.0), particles, (1,))
        # weights of particles that do not meet the brief are 0
        alive = pool.log_weights.isfinite()
        rows = alive.nonzero().squeeze(1)
        met = meets([pool.diagrams[row] for row in rows.tolist()])
        alive[rows] = torch.tensor([answer is True for answer in met], dtype=torch.bool)
        weights = pool.log_weights.masked_fill(~alive, -torch.inf)
        # resample the particles of each line
        chosen: _Rows = []
        effective = []
        for k, line in enumerate(lines):
            of_line = weights[k * particles : (k + 1) * particles]
            effective.append(effective_number(of_line))
            if not effective[-1]:
                raise ValueError(
                    f"line {line}: none of {particles:,} particles met the brief; raise "
                    "particles=, or ask for less"
                )
            some = systematic_rows(of_line, num, make_generator(self.request.seed, 2, k))
            chosen += [(pool, k * particles + row) for row in some.tolist()]
        return chosen, {
            "num_particles": particles,
            "effective_samples": min(effective),
            "network_calls_per_sample": float(pool.network_calls.sum()),
        }


def diagram_rewards(vocab: VocabConfig, file: str | None = None) -> dict[str, SampleScore]:
    """Return reward functions by name; each gives 1 or 0 for every diagram.

    They are the properties of ``property_flags``, and ``buildable`` if relations have directions.
    ``file``: a brief in YAML or JSON, which adds a reward for diagrams that meet the brief. Raises
    ``ValueError`` for a brief that no diagram meets.
    """
    words = vocabulary_of_graph(vocab)

    def property_score(name: str) -> SampleScore:
        return lambda diagrams: property_flags(DiagramSet(diagrams, words))[name].tolist()

    example = DiagramSet([BubbleDiagram((0,), ())], words)
    found = {name: property_score(name) for name in property_flags(example)}
    if words.has_directions:
        found["buildable"] = Buildable(EFFORT, Shard())
    if file is not None and file.endswith((".yaml", ".yml", ".json")):
        brief = check_brief(read_brief(file), vocab, f"reward={file}")
        found[file] = BriefPredicate(brief, Shard())
    return found
