"""``sample brief=FILE``: sample diagrams that meet a brief from a model's distribution."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from discrete_diffusion.categorical import log_mean, make_generator
from discrete_diffusion.config import counted
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.data import sample_sizes
from discrete_diffusion.evaluation import Samples, sample_fresh, share_error
from discrete_diffusion.runtime import progress
from discrete_diffusion.sampling import FirstHitting, exactness_facts, sample_seeds
from floor_plans.briefs.brief_request import (
    BriefPredicate,
    load_brief,
    name_of_brief,
    stated_condition,
)
from floor_plans.briefs.chances import BriefConstraint
from floor_plans.briefs.particles import Move, effective_samples, steered_particles, systematic_rows
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.tokens import decode
from floor_plans.diagrams.vocabulary import vocabulary_of_graph
from floor_plans.learning.sampling import NUM_SAMPLES, append_kept, requested_rules, unwritten
from floor_plans.plans.buildable import Accepted, DrawnDiagram, Judge, accept_samples
from floor_plans.solver.habitable import LESS_STRICT, Habitable, counting_judge, new_accepted
from floor_plans.solver.requests import Diagrams

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.evaluation import Request, SampleRequest, TrainedModel
    from discrete_diffusion.layout import VocabConfig
    from discrete_diffusion.runtime import Shard
    from discrete_diffusion.sampling import Model
    from floor_plans.briefs.brief import Brief
    from floor_plans.rules.rule_set import RuleSet

logger = logging.getLogger(__name__)

PARTICLES = 512  # default of ``particles``; twice the number of samples, if that is more
TRIES = 2000  # default of ``max_tries``: most samples that rejection takes for each requested one
REPEATS = 4  # independent sets of particles; their spread gives the error of the probability

MOVES = 4
MOVED = 0.3
"""Metropolis-Hastings moves of each resampled particle, and share of tokens that one redraws."""

_LEAST_RATE = 1.0  # accepted samples per second from which on ``method`` defaults to rejection
_PILOT = 128  # samples of the first try, which chooses the method


@dataclass(frozen=True)
class Answer:
    """Diagrams that meet a brief, and ``facts`` for ``metrics.json``."""

    diagrams: list[BubbleDiagram]
    facts: dict[str, Any] = field(default_factory=dict)


def answer_brief(request: SampleRequest, trained: TrainedModel, vocab: VocabConfig) -> Samples:
    """Sample ``num_samples`` diagrams that meet ``brief``; see docs/floor_plans/briefs.md.

    Raises ``ValueError`` naming file, line and key if the brief is wrong, if no diagram meets it,
    or if too few samples do.
    """
    # check the brief before anything is sampled
    brief, words = load_brief(request, vocab), vocabulary_of_graph(vocab)
    rules = requested_rules(request.livable)
    start, (condition, stated) = time.perf_counter(), stated_condition(brief, trained, vocab)
    # sample with the method of the request, or the faster one
    with trained.sharing() as shard:
        model = replace(trained.model(shard), on_sampled=None, shared_conditions=condition)
        num = NUM_SAMPLES if request.num_samples is None else request.num_samples
        asked = BriefRequest(request, trained, model, vocab, brief, shard, num, rules)
        method = request.method or ("rejection" if rules else asked.chosen())
        by_rejection = method == "rejection"
        answer = asked.answer_by_rejection() if by_rejection else asked.answer_by_particles()

    diagrams = Diagrams(answer.diagrams)
    keys = DiagramSet.of(diagrams, words).canonical_key_set
    facts = {
        "brief": str(request.brief),
        "method": method,
        "num_samples": len(diagrams),
        "distinct": len(keys),
        "seconds": time.perf_counter() - start,
        "told": stated,
        **({} if rules is None else {"habitable": rules.name}),
        **answer.facts,
    }
    # one sentence on how they were drawn, and how rare the brief is
    how = "exactly" if facts["exact"] else f"approximately ({facts['approximate_because']})"
    given = f", conditioned on {', '.join(stated)}," if stated else ""
    logger.info(
        f"drawn {how}: {facts['network_calls_per_sample']:,.0f} network calls a diagram; about "
        f"{facts['probability']:.2g} ± {facts['probability_standard_error']:.1g} of the model's "
        f"diagrams{given} meet the brief{' and are livable' if rules else ''}"
    )
    what = f"{counted(len(diagrams), 'diagram')} that meet the brief, {len(keys)} distinct,"
    return unwritten(request, trained, what, diagrams, facts, habitable=asked.habitable)


@dataclass
class BriefRequest:
    """Request for ``num`` diagrams that meet a brief.

    ``rules``: rules that the floor plans have to keep as well; only rejection checks them.
    ``_first``: samples of the first try.
    """

    request: Request
    trained: TrainedModel
    model: Model
    vocab: VocabConfig
    brief: Brief
    shard: Shard
    num: int
    rules: RuleSet | None = None
    _first: list[DrawnDiagram] | None = None

    def __post_init__(self) -> None:
        self.constraint = BriefConstraint(self.brief, self.vocab)
        self.meets = BriefPredicate(self.brief, self.shard)
        self.habitable = None if self.rules is None else Habitable(self.rules, self.shard)
        # sizes that the brief allows and the model has seen
        counts = self.trained.size_counts
        self.sizes = [n for n, count in enumerate(counts) if count and n in self.brief.num_rooms]
        if not self.sizes:
            seen = [n for n, count in enumerate(counts) if count]
            raise ValueError(
                f"{name_of_brief(self.request)}: num_rooms is {self.brief.num_rooms}, but the "
                f"model was trained on diagrams of {seen[0]} to {seen[-1]} rooms"
            )
        self.share = sum(counts[n] for n in self.sizes) / sum(counts)

    def chosen(self) -> str:
        """Return the method: rejection if a first try accepts at least ``_LEAST_RATE`` samples a
        second, or if the sampler is not first-hitting; else particles."""
        if not isinstance(self.trained.sampler, FirstHitting):
            return "rejection"  # particles need a sampler that reveals tokens one by one
        start, cpu = time.perf_counter(), time.process_time()
        self._first = self._draw(0, max(_PILOT, self.num))
        met = sum(answer is True for answer in self.meets([d.diagram for d in self._first]))
        # CPU time, if other programs made this take longer
        seconds = min(time.perf_counter() - start, time.process_time() - cpu)
        method = "rejection" if met >= _LEAST_RATE * seconds else "smc"
        method = self.shard.exchange(method)[0]  # processes differ in speed
        of = counted(len(self._first), "first sample")
        logger.info("%d of %s meet the brief; method=%s", met, of, method)
        return method

    def _draw(self, turn: int, num: int) -> list[DrawnDiagram]:
        """Sample diagrams of sizes that the brief allows; for turn 0 reuse the first try."""
        if turn == 0 and self._first is not None:
            return self._first
        drawn = sample_fresh(
            self.trained, self.model, num, entropy=(self.request.seed, turn), size=self.sizes
        )
        diagrams, calls = decode(drawn.tokens, self.vocab), drawn.nfe.tolist()
        return [DrawnDiagram(*each) for each in zip(diagrams, calls, strict=True)]

    def _fit(self, tokens: Tensor) -> Tensor:
        """Bool[N]: True for samples that meet the brief, floor plan included."""
        return torch.tensor([found is True for found in self.meets(decode(tokens, self.vocab))])

    def answer_by_rejection(self, most_calls: int | None = None) -> Answer:
        """Sample until ``num`` diagrams meet the brief, or ``most_calls`` calls are spent."""
        # the judge: the brief, and the rules of living if requested
        max_tries, other = self.request.max_tries or TRIES, "method=smc"
        meets = replace(self.meets, entropy=(self.request.seed, 4))
        judge: Judge = meets
        kept = Accepted(self.num, "meet the brief", most_calls)
        if self.habitable is not None:
            kept = new_accepted(self.num, self.habitable, "meet the brief and ")
            judge = counting_judge(self.habitable, kept, meets)
            other = LESS_STRICT
        remedy = f"max_tries={max_tries}: raise it for more, or take {other}"
        # sample until enough are accepted
        on_kept = partial(append_kept, self.trained, self.shard)
        kept = accept_samples(
            self._draw, judge, kept, max_tries=max_tries, remedy=remedy, on_kept=on_kept
        )
        # the acceptance rate estimates the probability of the brief, but for what should be
        p, found = kept.acceptance, [each.diagram for each in kept.samples]
        kept_of_met = [1 / self.brief.preference(diagram) for diagram in found] or [1.0]
        share = self.share * sum(kept_of_met) / len(kept_of_met)
        facts = {
            **kept.facts,
            **exactness_facts(self.trained.approximations()),
            "probability": share * p,
            "probability_standard_error": share * share_error(p, kept.num_drawn),
        }
        return Answer(found, facts)

    def answer_by_particles(self) -> Answer:
        """Steer particles towards the brief, resample them by weight, vary them by ``Move``.

        Raises ``ValueError`` if no particle meets the brief.
        """
        num = self.request.particles or max(PARTICLES, 2 * self.num)
        # independent sets of weighted particles; the mean weight of each estimates p(brief)
        parts = self._particles(num // REPEATS)
        # particles without a floor plan have no weight
        for k, part in enumerate(parts if self.brief.buildable else ()):
            fit = part.log_weights.isfinite()
            if fit.any():
                fit[fit.clone()] = self._fit(part.x0[fit])
            parts[k] = replace(part, log_weights=part.log_weights.masked_fill(~fit, -torch.inf))
        # the mean weight of the brief alone, without what should be
        weights = [(part.log_weights, self.constraint.log_weights(part.x0)) for part in parts]
        alone = [torch.where(w.isfinite(), w - soft, -torch.inf) for w, soft in weights]
        estimates = torch.tensor(list(map(log_mean, alone))).double().exp()
        log_weights = torch.cat([part.log_weights for part in parts])
        effective = effective_samples(parts, self.vocab.vocab_size)
        if effective == 0:
            raise ValueError(self._too_rare(parts))
        # resample by weight, then move, so that copies of one particle differ again
        generator = make_generator(self.request.seed, 2)
        rows = systematic_rows(log_weights, self.num, generator)
        kept = torch.cat([part.x0 for part in parts])[rows]
        kept = kept[torch.randperm(len(kept), generator=generator)]
        kept, calls, accepted = self._moved(kept, generator)
        # every network call counts: moves, particles, and the first try
        calls += sum(int(part.nfe.sum()) for part in parts)
        if self._first is not None:
            calls += sum(each.network_calls for each in self._first)
        mean = float(estimates.mean())
        error = float(estimates.std()) / math.sqrt(REPEATS)
        few = f"{num:,} particles, worth {effective:.1f} independent samples, stand for all"
        facts = {
            **exactness_facts([*self.trained.approximations(), few]),
            "num_particles": num,
            "effective_samples": effective,
            "moves_accepted": accepted,
            "network_calls_per_sample": calls / max(len(kept), 1),
            "probability": self.share * mean,
            "probability_standard_error": self.share * error,
        }
        return Answer(decode(kept, self.vocab), facts)

    def _particles(self, num: int) -> list[SampleOutput]:
        """Sample ``REPEATS`` independent sets of ``num`` particles, with sizes as in training."""
        trained, device = self.trained, self.model.device
        # sizes of the brief, with the frequencies of the training data
        counts = [count if n in self.sizes else 0 for n, count in enumerate(trained.size_counts)]
        real = [
            self.vocab.real_positions(
                sample_sizes(counts, num, make_generator(self.request.seed, 1, repeat, 0))
            )
            for repeat in range(REPEATS)
        ]

        def draw(repeat: int) -> SampleOutput:
            return sampler.sample(
                trained.algorithm,
                real[repeat].to(device),
                generator=make_generator(self.request.seed, 1, repeat, 1, device=device),
                conditions=self.model.shared_conditions_of(num),
            ).cpu()

        # one progress bar for all sets
        tokens = sum(int(each.sum()) for each in real)
        with progress.task("steering particles", tokens, "tokens") as drawing:
            sampler = steered_particles(trained.sampler, self.constraint, trained.path)
            sampler.on_sampled = lambda new: drawing.advance(new * self.shard.world_size)
            return self.shard.map(draw, range(REPEATS))

    def _moved(self, tokens: Tensor, generator: torch.Generator) -> tuple[Tensor, int, float]:
        """Move samples Int[N, L]; return them, the network calls, the share of accepted moves."""
        model, calls, accepted = self.model, 0, []
        real = tokens != self.vocab.pad_id
        sampler = self.trained.sampler
        assert isinstance(sampler, FirstHitting)
        on_device = make_generator(*sample_seeds(generator, 1), device=model.device)
        move = Move(sampler, model.algorithm, self.constraint, MOVED)
        for _ in range(MOVES):
            output, took = move(
                tokens.to(model.device),
                real.to(model.device),
                generator=on_device,
                conditions=model.shared_conditions_of(len(tokens)),
            )
            calls += int(output.nfe.sum())
            moved = output.x0.cpu()
            # a move to a diagram without a floor plan is rejected
            if self.brief.buildable:
                fit = self._fit(moved)
                took, moved = took.cpu() & fit, torch.where(fit.unsqueeze(1), moved, tokens)
            tokens = moved
            accepted.append(float(took.double().mean()))
        return tokens, calls, sum(accepted) / len(accepted)

    def _too_rare(self, parts: Sequence[SampleOutput]) -> str:
        """Error message: how many tokens the particles got, and which rules most samples break."""
        # largest share of tokens that a particle got
        real = torch.cat([(part.x0 != self.vocab.pad_id).sum(dim=1) for part in parts])
        furthest = float((torch.cat([part.nfe for part in parts]) / real).max())
        # rules that unconditional samples break most
        first = self._draw(0, _PILOT)
        unmet = Counter(key for each in first for key in self.brief.unmet(each.diagram))
        worst = unmet.most_common(3)
        broken = ", ".join(f"{key} ({100 * num / len(first):.0f} %)" for key, num in worst)
        return (
            f"{name_of_brief(self.request)}: none of {len(real):,} particles met it; the furthest "
            f"had {100 * furthest:.0f} % of its tokens drawn. Of {len(first)} unconditional "
            f"samples most break {broken}. Raise particles=, or ask for less"
        )
