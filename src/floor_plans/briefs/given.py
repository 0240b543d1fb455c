"""Completions of partial diagrams that also meet a brief."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from discrete_diffusion.categorical import effective_number, make_generator
from discrete_diffusion.sampling import FirstHitting
from floor_plans.briefs.brief_request import BriefPredicate, load_brief, name_of_brief, steered
from floor_plans.briefs.chances import BriefConstraint
from floor_plans.briefs.particles import systematic

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.evaluation import SampleRequest, TrainedModel
    from discrete_diffusion.layout import VocabConfig
    from discrete_diffusion.runtime import Shard
    from floor_plans.briefs.brief import Brief
    from floor_plans.learning.completion.completions import Choose, Completions, Draw

PARTICLES = 512
"""Default of ``particles``, for each partial diagram."""

TRIES = 200
"""Default of ``tries``: most completions that rejection takes for each requested one."""

_PILOT = 32
_LEAST_SHARE = 0.1
"""Share of the ``_PILOT`` completions of each line that have to meet the brief for rejection to be
the default."""


def chosen_by_brief(request: SampleRequest, trained: TrainedModel, vocab: VocabConfig) -> Choose:
    """Build the ``Choose`` of completions that meet ``brief``.

    Raises ``ValueError`` as ``load_brief`` does, and for a brief with facts of the plan.
    """
    brief = load_brief(request, vocab)
    if brief.plan_facts.names:
        raise ValueError(
            f"{brief.plan_facts.names[0]} of {name_of_brief(request)} does not go with given= yet; "
            "leave one of them out"
        )
    return BriefChoice(request, trained, brief, vocab)


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
        """Sample ``num`` completions of each of the ``lines``; returns facts of the sampling too.

        Raises ``ValueError`` naming a line with too few.
        """
        # the method of the request, or the faster one
        request, sampler = self.request, self.trained.sampler
        meets = BriefPredicate(self.brief, shard)
        method = request.method or self._method(draw, meets, len(lines))
        if method == "rejection":
            found = choose_by_rejection(
                lambda turn: draw(sampler, num, (1, turn)),
                meets,
                lines,
                num,
                request.tries or TRIES,
            )
        else:
            # particles of all lines in one batch
            steering = steered(sampler, BriefConstraint(self.brief, self.vocab), self.trained.path)
            steering = replace(steering, resample=0.0)  # a row keeps its line and its arrangement
            particles = request.particles or PARTICLES
            pool = draw(steering, particles, (1,))
            found = choose_by_particles(pool, meets, lines, num, particles, request.seed)
        completed, facts = found
        return completed, {"brief": str(request.brief), "method": method, **facts}

    def _method(self, draw: Draw, meets: BriefPredicate, num_lines: int) -> str:
        """Choose rejection if enough of a few completions of every line meet the brief."""
        sampler = self.trained.sampler
        # share of matches among a few completions of each line
        met = meets(draw(sampler, _PILOT, (3,)).diagrams)
        shares = [
            sum(answer is True for answer in met[k * _PILOT : (k + 1) * _PILOT]) / _PILOT
            for k in range(num_lines)
        ]
        common = min(shares) >= _LEAST_SHARE or not isinstance(sampler, FirstHitting)
        return "rejection" if common else "particles"


def choose_by_rejection(
    draw: Callable[[int], Completions],
    judge: BriefPredicate,
    lines: Sequence[int],
    num: int,
    tries: int,
) -> tuple[Completions, dict[str, Any]]:
    """Return the first ``num`` completions of each line that meet the brief.

    At most ``tries`` are sampled for each requested one. Raises ``ValueError`` naming a line with
    too few matches.
    """
    # rounds of num completions for each line, until every line has enough
    kept: list[list[tuple[Completions, int]]] = [[] for _ in lines]
    drawn = calls = 0
    for turn in range(tries):
        if all(len(found) >= num for found in kept):
            break
        new = draw(turn)
        met = judge(new.diagrams)
        drawn, calls = drawn + len(met), calls + int(new.network_calls.sum())
        for row, answer in enumerate(met):
            if answer:
                kept[row // num].append((new, row))
    # lines with too few matches
    short = [line for line, found in zip(lines, kept, strict=True) if len(found) < num]
    if short:
        raise ValueError(
            f"line {short[0]}: fewer than {num} of {num * tries:,} completions meet the brief; "
            f"tries={tries}: raise it, or take method=particles"
        )
    # collect the chosen rows of all rounds in the order of the lines
    chosen = [pair for found in kept for pair in found[:num]]
    first = chosen[0][0]
    rows = torch.tensor([row for _, row in chosen])
    completed = replace(
        first,
        diagrams=[part.diagrams[row] for part, row in chosen],
        network_calls=torch.stack([part.network_calls[row] for part, row in chosen]),
        real=first.real[rows],
        known=first.known[rows],
        log_weights=torch.zeros(len(chosen), dtype=torch.float64),
    )
    return completed, {"num_drawn": drawn, "network_calls_per_sample": calls / len(chosen)}


def choose_by_particles(
    pool: Completions,
    judge: BriefPredicate,
    lines: Sequence[int],
    num: int,
    particles: int,
    seed: int,
) -> tuple[Completions, dict[str, Any]]:
    """Resample ``num`` of the ``particles`` of each line in ``pool`` by their weights.

    ``judge`` also checks the number of rooms and the floor plan, which do not steer particles.
    Raises ``ValueError`` naming a line without a match.
    """
    # weights of particles that do not meet the brief are 0
    alive = pool.log_weights.isfinite()
    rows = alive.nonzero().squeeze(1)
    met = judge([pool.diagrams[row] for row in rows.tolist()])
    alive[rows] = torch.tensor([answer is True for answer in met], dtype=torch.bool)
    weights = pool.log_weights.masked_fill(~alive, -torch.inf)
    # resample the particles of each line
    chosen: list[Tensor] = []
    effective = []
    for k, line in enumerate(lines):
        of_line = weights[k * particles : (k + 1) * particles]
        effective.append(effective_number(of_line))
        if not effective[-1]:
            raise ValueError(
                f"line {line}: none of {particles:,} particles met the brief; raise particles=, or "
                "ask for less"
            )
        chosen.append(k * particles + systematic(of_line, num, make_generator(seed, 2, k)))
    rows_of = torch.cat(chosen)
    completed = replace(
        pool,
        diagrams=[pool.diagrams[row] for row in rows_of.tolist()],
        network_calls=pool.network_calls[rows_of],
        real=pool.real[rows_of],
        known=pool.known[rows_of],
        log_weights=torch.zeros(len(rows_of), dtype=torch.float64),
    )
    calls = float(pool.network_calls.sum()) / len(rows_of)
    return completed, {
        "num_particles": particles,
        "effective_samples": min(effective),
        "network_calls_per_sample": calls,
    }
