"""Completions of partial diagrams: arranged, scored, sampled, numbered as in the file again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from discrete_diffusion.categorical import draw, make_generator
from discrete_diffusion.data.bubble_diagrams import BubbleDiagram, decode
from discrete_diffusion.data.bubble_diagrams.arrangement import (
    Arrangements,
    as_numbered,
    sorted_by_type,
)
from discrete_diffusion.data.bubble_diagrams.dataset import NODE_ORDERS
from discrete_diffusion.data.bubble_diagrams.partial import PartialDiagram
from discrete_diffusion.data.bubble_diagrams.tokens import relabel
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.sampling import draw_samples
from discrete_diffusion.sampling.draw_samples import draw_seeds, rows_at_once
from discrete_diffusion.sampling.scoring import KnownLogProb, first_unseen, log_prob_of
from discrete_diffusion.shards import Shard

if TYPE_CHECKING:
    from discrete_diffusion.algorithms import Algorithm
    from discrete_diffusion.sampling import Sampler
    from discrete_diffusion.types import SampleOutput

MAX_ARRANGEMENTS = 256
_LISTED_PER_WEIGHED = 16
_EXACT_SAMPLERS = ("first-hitting", "autoregressive")
"""One token per call, they draw from the model."""
_EXACT_ORDERS = ("margin", "entropy", "entropy-bounded")
"""They too, if the network is not told t and the order does not read the tokens drawn."""


@dataclass(frozen=True)
class Completions:
    """What ``complete`` returns.

    ``diagrams``: those of the first partial diagram, then those of the second, ...; rooms numbered
    as in the partial one, whose metadata they carry, with ``given``, its line.
    ``network_calls``, ``num_unknown``: Int64[M], of each diagram, what it took and how many tokens
    it drew. ``num_scored``: sequences shown to the network to weigh arrangements, over all.
    ``sampled_lines``: lines of which only a random part of the arrangements was weighed.
    ``trajectory``: Int64[K, trajectories, L], numbered as in the file, or None.
    """

    diagrams: list[BubbleDiagram]
    network_calls: Tensor
    num_unknown: Tensor
    num_scored: int
    sampled_lines: tuple[int, ...]
    trajectory: Tensor | None


class UnseenError(ValueError):
    """Something is given that an algorithm would not see before it draws what is unknown."""


@dataclass(frozen=True)
class _Arranged:
    """The partial tokens Int64[num, L] of one line's completions and their ``orders``."""

    partial: PartialDiagram
    line: int
    tokens: Tensor
    orders: Tensor
    num_scored: int
    are_all: bool


@dataclass(frozen=True)
class _Arranger:
    """Chooses the slots of a partial diagram's rooms; see ``complete``."""

    algorithm: Algorithm
    vocab: VocabConfig
    node_order: str
    max_arrangements: int
    batch_size: int
    device: torch.device
    num: int

    def arrange(self, request: tuple[PartialDiagram, int, int]) -> _Arranged:
        """``num`` arrangements of a partial diagram, its line and a seed, in proportion to the
        model's probability of what they fix."""
        partial, line, seed = request
        generator = make_generator(seed, device=self.device)
        on_cpu = make_generator(seed, 1)
        if self.node_order != "canonical" or partial.is_complete:
            found = as_numbered(partial, self.vocab)
        else:
            most = _LISTED_PER_WEIGHED * self.max_arrangements
            found = sorted_by_type(partial, self.vocab, max_rows=most, generator=on_cpu)
        self._check_seen(found, line)
        log_proposal, num_scored = torch.zeros(len(found), dtype=torch.float64), 0
        if len(found) > self.max_arrangements:
            scored = self._score(found, generator, rooms_only=True)
            log_proposal, num_scored = scored.log_prob.cpu(), scored.num_evaluated
            drawn = _draw_rows(log_proposal, self.max_arrangements, on_cpu)
            rows, times = drawn.unique(return_counts=True)
            found = Arrangements(found.orders[rows], found.tokens[rows], are_all=False)
            log_proposal = log_proposal[rows] - times.log()
        log_z = torch.zeros_like(log_proposal)
        if len(found) > 1:
            scored = self._score(found, generator)
            log_z, num_scored = scored.log_prob.cpu(), num_scored + scored.num_evaluated
        chosen = _draw_rows(log_z - log_proposal, self.num, on_cpu)
        tokens, orders = found.tokens[chosen], found.orders[chosen]
        return _Arranged(partial, line, tokens, orders, num_scored, found.are_all)

    def _score(
        self, found: Arrangements, generator: torch.Generator, *, rooms_only: bool = False
    ) -> KnownLogProb:
        """The model's probability of what each arrangement fixes, or of its room types."""
        known, real = _known(found.tokens, self.vocab)
        if rooms_only:
            known[:, self.vocab.n_max :] = False
        device = self.algorithm.layout.support.device
        return log_prob_of(
            self.algorithm,
            *(tensor.to(device) for tensor in (found.tokens, known, real)),
            generator=generator,
            batch_size=self.batch_size,
        )

    def _check_seen(self, found: Arrangements, line: int) -> None:
        device = self.algorithm.layout.support.device
        known, real = (part.to(device) for part in _known(found.tokens, self.vocab))
        unseen = first_unseen(self.algorithm, known, real)
        if unseen is None:
            return
        row, position = unseen
        order = found.orders[row].tolist()
        if position < self.vocab.n_max:
            what = f"rooms[{order[position]}]"
        else:
            i, j = self.vocab.endpoints[position - self.vocab.n_max]
            what = f"the relation of rooms {order[i]} and {order[j]}"
        raise UnseenError(
            f"line {line}: {self.algorithm.name} fills a diagram from front to back and would not "
            f"see {what} before it draws what is unknown; give every room and no relation, or take "
            "a model of algo=mdlm"
        )


def complete(
    sampler: Sampler,
    algorithm: Algorithm,
    partials: Sequence[PartialDiagram],
    *,
    vocab: VocabConfig,
    node_order: str,
    generator: torch.Generator,
    completions: int = 1,
    steps: int | None = None,
    batch_size: int | None = None,
    max_arrangements: int = MAX_ARRANGEMENTS,
    lines: Sequence[int] | None = None,
    trajectories: int = 0,
    shard: Shard | None = None,
) -> Completions:
    """``completions`` diagrams for each partial one, every room and relation kept.

    ``lines``: what ``given`` and errors call each partial diagram; 1, 2, ... by default.
    ``trajectories``: so many diagrams, the first ones, keep the states on their way.
    ``batch_size``, ``shard``: as for ``draw_samples``; lines are weighed by one process each.

    Draws (G, m) in proportion to p(G) over diagrams G and ways m to find the partial diagram in G.
    A model of ``node_order`` canonical knows diagrams in that order only, so m is drawn first: Z_m,
    the model's probability of the tokens that m fixes, for each of the arrangements of
    ``sorted_by_type``; then one in proportion to Z_m, and the rest with those tokens clamped. More
    than ``max_arrangements`` are represented by as many, drawn in proportion to the probability of
    their room types alone and weighed by what is left of Z_m: importance resampling, approximate.
    For other orders a slot is as good as any other (random) or the file's own (given): one m.

    A complete diagram costs no network call. Raises ``ValueError`` for no partial diagrams, an
    unknown ``node_order`` or a sampler that does not fit, and ``UnseenError`` naming line and room
    or relation, see ``first_unseen``.
    """
    if not partials:
        raise ValueError("no partial diagrams to complete; give at least one")
    if node_order not in NODE_ORDERS:
        raise ValueError(unknown_name("node order", node_order, NODE_ORDERS))
    sampler.check(algorithm)
    sampler.check_steps(algorithm, steps)
    lines = range(1, len(partials) + 1) if lines is None else lines
    device = algorithm.layout.support.device
    batch_size = rows_at_once(device) if batch_size is None else batch_size
    arranger = _Arranger(
        algorithm, vocab, node_order, max_arrangements, batch_size, generator.device, completions
    )
    shard = shard or Shard()
    seeds = draw_seeds(generator, len(partials))
    arranged = shard.map(arranger.arrange, zip(partials, lines, seeds, strict=True))
    tokens = torch.cat([part.tokens for part in arranged])
    known, real = _known(tokens, vocab)
    output = draw_samples(
        sampler,
        algorithm,
        real,
        generator=generator,
        steps=steps,
        batch_size=batch_size,
        clamp=torch.where(known, tokens, -1),
        trajectories=trajectories,
        shard=shard,
    )
    return _numbered_as_given(output, arranged, (real & ~known).sum(dim=1), vocab)


def _numbered_as_given(
    output: SampleOutput, arranged: Sequence[_Arranged], num_unknown: Tensor, vocab: VocabConfig
) -> Completions:
    """The samples with the rooms back at their own numbers."""
    back = torch.cat([part.orders for part in arranged]).argsort(dim=1)
    num_rooms = (output.tokens[:, : vocab.n_max] != vocab.pad_id).sum(dim=1)

    def numbered(x: Tensor) -> Tensor:
        return relabel(x, num_rooms[: len(x)], back[: len(x)], vocab)

    metadata = [
        {**part.partial.metadata, "given": part.line} for part in arranged for _ in part.tokens
    ]
    diagrams = zip(decode(numbered(output.tokens), vocab), metadata, strict=True)
    frames = output.trajectory
    return Completions(
        diagrams=[replace(diagram, metadata=known) for diagram, known in diagrams],
        network_calls=output.nfe,
        num_unknown=num_unknown,
        num_scored=sum(part.num_scored for part in arranged),
        sampled_lines=tuple(part.line for part in arranged if not part.are_all),
        trajectory=None if frames is None else torch.stack([numbered(x) for x in frames]),
    )


def approximations(sampler: Sampler, algorithm: Algorithm, completed: Completions) -> list[str]:
    """Why completions are not exact draws of the model's conditional; empty if they are."""
    if not completed.network_calls.any():
        return []  # nothing was unknown
    reasons = []
    if not algorithm.process.absorbing:
        reasons.append(
            f"with {algorithm.process.name} noise the network takes given tokens for noisy ones"
        )
    reasons += _approximate_order(sampler, algorithm, completed)
    if sampler.temperature != 1 or sampler.top_p != 1:
        reasons.append("temperature and top_p change the distribution")
    if completed.sampled_lines:
        lines = ", ".join(map(str, completed.sampled_lines))
        reasons.append(
            f"only a random part of the arrangements of line {lines} was weighed (a larger "
            "max_arrangements weighs more; each is shown to the network once per given token)"
        )
    return reasons


def _approximate_order(
    sampler: Sampler, algorithm: Algorithm, completed: Completions
) -> Iterator[str]:
    """Why drawing in the sampler's order and numbers is not drawing from the model."""
    ordered = sampler.name in _EXACT_ORDERS and getattr(sampler, "order", "") != "confidence"
    if not ordered and sampler.name not in _EXACT_SAMPLERS:
        yield f"sampling={sampler.name} is approximate"
        return
    budget = getattr(sampler, "budget", None)  # of 0 joins certain tokens only, at no loss
    fewer_calls = bool((completed.network_calls < completed.num_unknown).any())
    if fewer_calls if budget is None else budget > 0:
        yield "several tokens are drawn per call"
    if ordered and algorithm.time_conditioning:
        yield f"sampling={sampler.name} is exact only for a network that is not told t"


def _draw_rows(log_weights: Tensor, num: int, generator: torch.Generator) -> Tensor:
    """Int64[num] row numbers in proportion to exp(log_weights Float64[R])."""
    return draw((log_weights - log_weights.max()).expand(num, -1), generator)


def _known(tokens: Tensor, vocab: VocabConfig) -> tuple[Tensor, Tensor]:
    """Bool[B, L] twice for partial tokens Int[B, L]: what is known, and what is real."""
    real = tokens != vocab.pad_id
    return real & (tokens != vocab.mask_id), real
