"""Samplers that choose which tokens to reveal next by the network's predictions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import torch
from torch import Tensor

from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import sample_categorical, uniform_draws
from discrete_diffusion.config.values import Count, NotNegative, OneOf
from discrete_diffusion.sampling.base import Law
from discrete_diffusion.sampling.draft import (
    Block,
    Draft,
    are_sampled_together,
    number_of_calls,
    time_of_masked_share,
    tokens_by_call,
)
from discrete_diffusion.sampling.token_draws import FixedDraw
from discrete_diffusion.sampling.tokens import TokenSampler

_ROUNDING = 1e-6
"""Nats: what float32 leaves of a sum of entropies less its largest."""


def entropy_of(log_probs: Tensor) -> Tensor:
    """-sum_y p(y) log p(y), nats: Float[N, V] -> Float[N]."""
    return -(log_probs.exp() * log_probs).sum(dim=-1)


def _drawn_log_prob(log_d0: Tensor, tokens: Tensor | None, generator: torch.Generator) -> Tensor:
    assert tokens is not None
    return log_d0.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def _margin(log_d0: Tensor, tokens: Tensor | None, generator: torch.Generator) -> Tensor:
    first, second = log_d0.exp().topk(2, dim=-1).values.unbind(dim=-1)
    return first - second


SCORES: dict[str, Callable[[Tensor, Tensor | None, torch.Generator], Tensor]] = {
    "confidence": _drawn_log_prob,
    "margin": _margin,
    "entropy": lambda log_d0, tokens, generator: -entropy_of(log_d0),
    "max-probability": lambda log_d0, tokens, generator: log_d0.amax(dim=-1),
    "most-uncertain": lambda log_d0, tokens, generator: entropy_of(log_d0),
    "left-to-right": lambda log_d0, tokens, generator: torch.zeros_like(log_d0[:, 0]),
    "random": lambda log_d0, tokens, generator: uniform_draws(
        tuple(log_d0.shape[:1]), generator, log_d0.device
    ),
}
"""Which position to reveal first: the highest score, Float[N], of D at N masked positions, log_d0
Float[N, V], the tokens Int[N] sampled from it (None unless the score is one of ``READ_TOKENS``) and
a generator. Of equal scores the first position."""
READ_TOKENS = ("confidence",)
"""Scores that read the tokens sampled, not the distributions alone."""
ONE_PATH = tuple(name for name in SCORES if name not in (*READ_TOKENS, "random"))
"""Scores by which what is visible decides what comes next: one path leads to each sample."""


@dataclass(kw_only=True)
class Unmasking(TokenSampler):
    """Predict all MASKs, reveal those that come first by some score, and predict again.

    t is always the time at which as many of the real positions are masked as really are (of the
    block's, for algorithms with ``blocks``), so that it fits what the network sees. Every call
    reveals at least one token, so a sample costs at most one call per free token.

    A score that reads the distributions alone leaves one token per call exact, if D is and does not
    depend on t: any order chosen from what is visible is. One that reads the tokens sampled is not.

    ``groups_in_turn``: fill the layout's groups one after the other, all nodes before any edge.
    """

    absorbing_only = True
    order: str | Sequence[int] = field(init=False)
    """The score, one of ``SCORES``; or all positions, the first to reveal first."""

    groups_in_turn: bool = False

    def _check_narrowing(self, algorithm: TokenAlgorithm) -> None:
        super()._check_narrowing(algorithm)
        if self.order in READ_TOKENS:
            raise ValueError(
                f"the order '{self.order}' compares tokens that are not sampled yet, but each of "
                "them narrows what the others may be; use sampling=first-hitting"
            )

    @abstractmethod
    def number(
        self, log_d0: Tensor, here: Tensor, order: Tensor, num: Tensor, steps: int | None
    ) -> Tensor:
        """Int[R, 1]: how many tokens to reveal, at least 1 where any is left.

        ``log_d0``: Float[N, V], D before it is narrowed, at the N MASKs ``here`` Bool[R, L] of
        the block, or at all R L places. ``order``: Int[R, L], positions by score, those MASKs
        first. ``num``: Int[R, 1], how many the block had at first. ``steps``: of the request, or
        None.
        """

    def score(
        self, log_d0: Tensor, tokens: Tensor | None, here: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Float[N]: scores of the N MASKs ``here`` Bool[R, L]; other arguments as ``SCORES``."""
        if isinstance(self.order, str):
            return SCORES[self.order](log_d0, tokens, generator)
        turn = torch.tensor(self.order).argsort().to(here.device, non_blocking=True)
        turns = -turn.expand(here.shape)
        return turns.flatten() if len(log_d0) == here.numel() else turns[here]

    def run(self, draft: Draft) -> None:
        parts = draft.blocks_and_groups if self.groups_in_turn else draft.blocks
        draft.calls.expect(draft.most_calls(parts), exact=False)
        for part in parts:
            if draft.fixed:
                self._fill_all(draft, part)
            else:
                self._fill(draft, part)

    def _fill(self, draft: Draft, block: Block) -> None:
        num = block.free.sum(dim=1, keepdim=True)
        while True:
            masked = draft.masked
            waiting = masked & block.free
            rows = waiting.any(dim=1).nonzero().squeeze(1)
            if rows.numel() == 0:
                return
            here = waiting[rows]
            t = time_of_masked_share(draft.algorithm, masked[rows], block.real[rows])
            raw_d0, support = self.log_d0(draft, rows, t)[here], draft.support_at(rows, here)
            log_d0, log_kept = self.shaped(raw_d0, support)  # (N, V), (N,)
            wide_d0 = log_d0 if support is None else self.shaped(raw_d0, None)[0]
            chosen, tokens = self._choose(draft, log_d0, wide_d0, here, num[rows])
            picked = chosen[here]  # (N,)
            reveal = torch.zeros_like(waiting)
            reveal[rows] = chosen
            if tokens is None:
                self.sample_at(draft, reveal, raw_d0[picked])
            else:
                draft.write(reveal, tokens[picked], log_kept[picked])
            draft.record()

    def _fill_all(self, draft: Draft, block: Block) -> None:
        """``_fill`` of all samples in every call, by masks. The host waits for the device only
        where ``turns`` does not know how many calls there are."""
        num = block.free.sum(dim=1, keepdim=True).clamp(min=1)
        draw = FixedDraw(draft, self.shaped, self.uniform)
        legal = draft.algorithm.layout.support
        support = None if draft.support is None else legal & draft.support
        for counts in self.turns(draft, block):
            masked = draft.masked
            here = masked & block.free
            t = time_of_masked_share(draft.algorithm, masked, block.real)
            raw_d0 = self.log_d0_of_all(draft, here.any(dim=1), t)  # (B, L, V)
            log_d0, log_kept = self.shaped(raw_d0, support)
            wide_d0 = log_d0 if support is None else self.shaped(raw_d0, None)[0]
            cells, wide = log_d0.flatten(0, 1), wide_d0.flatten(0, 1)
            chosen, tokens = self._choose(draft, cells, wide, here, num)
            if tokens is None:
                draw.at(chosen, raw_d0, counts)
            else:
                draft.write_grid(chosen, tokens.view_as(here), log_kept)
            draft.record()

    def turns(self, draft: Draft, block: Block) -> Iterator[Tensor | None]:
        """The calls that fill a block of a draft that is ``fixed``: how many tokens of each sample
        one reveals, Int[B] on the host, or None where the device decides it. Here that decides the
        number of calls, too, and the host reads after each of them whether it was the last.
        """
        most = int(block.num.max()) if block.num is not None and len(block.num) else 0
        for call in range(1, most + 1):
            yield None
            if call < most and not bool((draft.masked & block.free).any()):
                return

    def _choose(
        self, draft: Draft, log_d0: Tensor, wide_d0: Tensor, here: Tensor, num: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Bool[R, L], which of the MASKs ``here`` Bool[R, L] come next, and the tokens Int[N] if
        the order reads them, sampled from log D Float[N, V]. ``wide_d0``: before it is narrowed.

        N places are those MASKs, or all.
        """
        tokens = sample_categorical(log_d0, draft.generator) if self.order in READ_TOKENS else None
        score = on_grid(self.score(log_d0, tokens, here, draft.generator), here, -torch.inf)
        order = score.argsort(dim=1, descending=True, stable=True)
        number = self.number(wide_d0, here, order, num, draft.steps)
        return (order.argsort(dim=1) < number) & here, tokens


def check_positions(key: str, order: Sequence[int], length: int, names: Iterable[str]) -> None:
    """``ValueError`` unless an order holds each position once; ``names``: others."""
    if sorted(order) != [*range(length)]:
        raise ValueError(
            f"{key}={[*order]}: expected every position from 0 to {length - 1} once, or one of "
            f"{', '.join(names)}"
        )


def on_grid(values: Tensor, here: Tensor, elsewhere: float) -> Tensor:
    """Float64[R, L]: values Float[N] of the N places that are True ``here`` Bool[R, L], row by row,
    or of all R L places, of which those count."""
    values = values.double()
    if len(values) == here.numel():
        return values.view(here.shape).masked_fill(~here, elsewhere)
    grid = torch.full(here.shape, elsewhere, dtype=torch.float64, device=here.device)
    grid[here] = values
    return grid


@dataclass(kw_only=True)
class EvenUnmasking(Unmasking):
    """Schedule with as many tokens in every call.

    ``tokens_per_call``: how many at most; ``steps`` sets instead the number of calls, among
    which the tokens are spread evenly (per block, and per group in turn).
    """

    tokens_per_call: Count = 1

    def samples_together(self, num: int, steps: int | None = None) -> bool:
        return are_sampled_together(self.tokens_per_call, steps, num)

    def turns(self, draft: Draft, block: Block) -> Iterator[Tensor | None]:
        assert block.num is not None
        num = block.num.unsqueeze(1)
        yield from tokens_by_call(num, number_of_calls(self.tokens_per_call, draft.steps, num))

    def number(
        self, log_d0: Tensor, here: Tensor, order: Tensor, num: Tensor, steps: int | None
    ) -> Tensor:
        calls = number_of_calls(self.tokens_per_call, steps, num)
        done = num - here.sum(dim=1, keepdim=True)
        call = done * calls // num
        return -(-(call + 1) * num // calls) - done


class Confidence(EvenUnmasking):
    """Confidence order: the tokens that the network is surest of come first.

    Score: the probability that D gives to the token sampled (MaskGIT, arXiv 2202.04200; LLaDA,
    arXiv 2502.09992). It reads sampled tokens, so that likely ones get in earlier than they should:
    the samples are those of a sharpened model, even one token per call. With a narrowed ``support``
    the order reads narrowed samples, and ``log_weights`` do not undo the tilt."""

    name = order = "confidence"
    law = Law.APPROXIMATE


class Margin(EvenUnmasking):
    """Margin order: the positions whose two likeliest tokens are furthest apart come first.

    Score: the largest less the second largest probability of D (Kim et al., arXiv 2502.06768).
    It reads the distributions alone: exact one token per call, where D is."""

    name = order = "margin"
    law = Law.ANY_ORDER


class Entropy(EvenUnmasking):
    """Entropy order: the positions of the least doubt come first.

    Score: minus the entropy of D, nats (Ye et al., arXiv 2508.15487). It reads the distributions
    alone: exact one token per call, where D is."""

    name = order = "entropy"
    law = Law.ANY_ORDER


@dataclass(kw_only=True)
class EntropyBounded(Unmasking):
    """Entropy-bounded unmasking: as many tokens per call as can be sampled independently without
    much harm.

    Reveal the longest run of positions 1..k, in ``order``, with

        H_1 + ... + H_k - max(H_1, ..., H_k) <= budget,      H_l the entropy of D_l, nats

    (EB, Ben-Hamu et al., arXiv 2505.24857). The left side bounds the information that the k tokens
    have on each other, which is what sampling them independently loses in this call. The first is
    always revealed: budget 0 is one token per call, exact where D is, unless tokens are certain.

    ``order``: ``random``, every order equally likely, as in training; as published, ``entropy``,
    least first, ``margin`` or ``confidence``; ``max-probability``, ``most-uncertain`` (of the most
    entropy), ``left-to-right``; or a list of all positions. Deviation: ``random`` is the default,
    because the others keep less of the distribution of a trained network.

    Raises ``ValueError`` for a negative budget, an unknown order, one that is not a list of all
    positions, or if ``steps`` is given.
    """

    name = "entropy-bounded"

    budget: NotNegative = 1.2
    order: Annotated[str, OneOf(SCORES)] | Sequence[int] = "random"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.order, str):
            self.order = [*self.order]

    def check(self, algorithm: TokenAlgorithm, steps: int | None = None) -> None:
        if steps is not None:
            raise ValueError(
                "entropy-bounded sampling chooses its own number of calls; leave steps unset and "
                "set sampling.budget"
            )
        if not isinstance(self.order, str):
            check_positions("order", self.order, algorithm.layout.length, SCORES)
        super().check(algorithm, steps)

    @property
    def law(self) -> Law:  # type: ignore[override]
        return Law.APPROXIMATE if self.order in READ_TOKENS else Law.ANY_ORDER

    def samples_together(self, num: int, steps: int | None = None) -> bool:
        return self.budget > 0 and num > 1  # budget 0 joins tokens that are certain

    def number(
        self, log_d0: Tensor, here: Tensor, order: Tensor, num: Tensor, steps: int | None
    ) -> Tensor:
        entropy = on_grid(entropy_of(log_d0), here, 0.0).gather(1, order)  # first to last
        lost = entropy.cumsum(dim=1) - entropy.cummax(dim=1).values
        beyond = lost > self.budget + _ROUNDING  # nothing is, of NaN: all come at once
        return (~beyond).sum(dim=1, keepdim=True)
