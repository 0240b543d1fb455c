"""Samplers that reveal tokens in an order chosen by the network's predictions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, cast

import torch
from torch import Tensor

from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import log_prob_at, pick, sample_categorical, uniform_draws
from discrete_diffusion.config.values import Count, NotNegative, OneOf
from discrete_diffusion.sampling.base import Exactness
from discrete_diffusion.sampling.partial_samples import (
    Block,
    PartialSamples,
    are_sampled_together,
    number_of_calls,
    time_of_masked_share,
    tokens_by_call,
)
from discrete_diffusion.sampling.tokens import TokenSampler


def entropy_of(log_probs: Tensor) -> Tensor:
    """Entropy -sum_y p(y) log p(y), nats: Float[N, V] -> Float[N]."""
    return -(log_probs.exp() * log_probs).sum(dim=-1)


SCORES: dict[str, Callable[[Tensor, Tensor | None, torch.Generator], Tensor]] = {
    "confidence": lambda log_d0, tokens, generator: log_prob_at(cast(Tensor, tokens), log_d0),
    "margin": lambda log_d0, tokens, generator: -log_d0.exp().topk(2).values.diff().squeeze(-1),
    "entropy": lambda log_d0, tokens, generator: -entropy_of(log_d0),
    "top_probability": lambda log_d0, tokens, generator: log_d0.amax(dim=-1),
    "most-uncertain": lambda log_d0, tokens, generator: entropy_of(log_d0),
    "left-to-right": lambda log_d0, tokens, generator: torch.zeros_like(log_d0[:, 0]),
    "random": lambda log_d0, tokens, generator: uniform_draws(
        tuple(log_d0.shape[:1]), generator, log_d0.device
    ),
}
"""Scores of positions, Float[N]. The highest is revealed first; ties go to the first position.
Arguments: log_d0 Float[N, V], log D at N masked positions; the tokens Int[N] sampled from D (None
unless the score is one of ``READ_TOKENS``); a generator."""
READ_TOKENS = ("confidence",)
"""Scores that read sampled tokens, not only the distributions."""
_AT_ONCE = 2**21
"""Most entries of log D in memory while positions are scored: on a CPU twice as fast as 2**23."""
_FIRST = 4
"""Positions whose entropies are read first; then twice as many, and so on."""
_BLIND = ("left-to-right", "random")
"""Scores that do not read the distributions."""
ONE_PATH = tuple(name for name in SCORES if name not in (*READ_TOKENS, "random"))
"""Scores with which the visible tokens decide the next position: one path to each sample."""


ReadRows = Callable[[Any], Tensor]
"""log D by an index of rows, Float[n, V]; see ``TokenSampler._lazy_log_d0``."""
DoubtAt = Callable[[Tensor], Tensor]
"""``Unmasking.doubt`` by position: Int[R, K] -> Float64[R, K], 0 if no MASK."""


@dataclass(kw_only=True)
class Unmasking(TokenSampler):
    """Predict all MASKs, reveal the positions with the highest scores, and predict again.

    t is always the time at which as many real positions are masked as now (of the block, for
    algorithms with ``blocks``), so that it fits what the network sees. Every call reveals at least
    one token, so a sample costs at most one call per free token.

    If D is exact and does not depend on t, one token per call is exact with a score that reads the
    distributions alone, but not with a score that reads the sampled tokens.

    ``group_by_group``: fill the layout's groups one after the other, all nodes before any edge.
    """

    absorbing_only = True
    order: str | Sequence[int] = field(init=False)
    """Name of a score in ``SCORES``, or a list of all positions in the order of revealing."""

    group_by_group: bool = False
    ends_at_surprise: ClassVar[bool] = False
    """True if a call keeps tokens through the first one that is not the most probable of D."""

    def _check_narrowing(self, algorithm: TokenAlgorithm) -> None:
        super()._check_narrowing(algorithm)
        if self.order in READ_TOKENS:
            raise ValueError(
                f"the order '{self.order}' compares tokens that are not sampled yet, but each of "
                "them narrows what the others may be; use sampling=first-hitting"
            )

    @abstractmethod
    def number(
        self, doubt: DoubtAt, here: Tensor, order: Tensor, num: Tensor, steps: int | None
    ) -> Tensor:
        """Number of tokens to reveal, Int[R, 1], at least 1 for a sample with MASKs left.

        ``doubt``: see ``DoubtAt``. ``here``: Bool[R, L], MASKs of the block. ``order``:
        Int[R, L], positions by score, these MASKs first. ``num``: Int[R, 1], number of MASKs of the
        block at the start. ``steps``: number of calls requested, or None.
        """

    def doubt(self, log_d0: Tensor) -> Tensor:
        """Uncertainty of the network's log D Float[N, V] that ``number`` reads, Float[N]: here the
        entropy, nats, at this temperature and ``top_p``."""
        return entropy_of(self.adjusted(log_d0, None)[0])

    def score(
        self, log_d0: Tensor, tokens: Tensor | None, here: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Scores of the N MASKs ``here`` Bool[R, L], Float[N]; other arguments as in ``SCORES``."""
        if isinstance(self.order, str):
            return SCORES[self.order](log_d0, tokens, generator)
        # an order given as a list
        turn = torch.tensor(self.order).argsort().to(here.device, non_blocking=True)
        turns = -turn.expand(here.shape)
        return turns.flatten() if len(log_d0) == here.numel() else turns[here]

    def run(self, samples: PartialSamples) -> None:
        parts = samples.blocks_and_groups if self.group_by_group else samples.blocks
        most = sum(int(part.num.max()) for part in parts if len(part.num))
        samples.calls.expect(most, exact=False)
        for part in parts:
            fill = self._fill_all if samples.has_fixed_shapes else self._fill
            fill(samples, part)

    def _fill(self, samples: PartialSamples, block: Block) -> None:
        """Fill a block, calling the network for the samples that have MASKs left in it."""
        num = block.free.sum(dim=1, keepdim=True)
        while True:
            masked = samples.masked
            waiting = masked & block.free
            rows = waiting.any(dim=1).nonzero().squeeze(1)
            if rows.numel() == 0:
                return
            here = waiting[rows]  # their N MASKs, of which an order may read few
            t = time_of_masked_share(samples.algorithm, masked[rows], block.real[rows])
            read = self._lazy_log_d0(samples, rows, t, here)
            score, *sampled = self._scores(samples, rows, read, here)
            # reveal those that come first
            doubt = partial(self._doubt_at, samples=samples, read=read, here=here)
            chosen, rank = self._choose(samples, score, doubt, here, num[rows])
            picked = chosen[here].nonzero().squeeze(1)
            reveal = torch.zeros_like(waiting)
            reveal[rows] = chosen
            if sampled:
                samples.write(reveal, *(each[picked] for each in sampled))
                samples.is_nan[reveal] = score[picked].isnan()  # D at the tokens
            elif self.ends_at_surprise:
                self._sample_through_surprise(samples, rows, chosen, rank, read(picked))
            else:
                self.sample_at(samples, reveal, read(picked))
            samples.record()

    def _fill_all(self, samples: PartialSamples, block: Block) -> None:
        """Fill a block as ``_fill`` does, computing all samples in every call.

        The host waits for the device only if ``turns`` does not know the number of calls.
        """
        num = block.free.sum(dim=1, keepdim=True).clamp(min=1)
        legal = samples.algorithm.layout.support
        support = None if samples.support is None else (legal & samples.support).flatten(0, 1)
        for counts in self.turns(samples, block):
            # D at all positions
            masked = samples.masked
            here = masked & block.free
            t = time_of_masked_share(samples.algorithm, masked, block.real)
            raw_d0 = self._log_d0_of_all(samples, here.any(dim=1), t).flatten(0, 1)  # (B L, V)
            log_d0, log_kept = self.adjusted(raw_d0, support)
            reads = self.order in READ_TOKENS or self.ends_at_surprise
            tokens = sample_categorical(log_d0, samples.generator) if reads else None
            score = self.score(log_d0, tokens, here, samples.generator)
            # reveal the MASKs that come first
            doubt = partial(self._doubt_of_all, log_d0=raw_d0, here=here)
            chosen, rank = self._choose(samples, score, doubt, here, num)
            if tokens is None:
                self._sample_grid(samples, chosen, raw_d0.view(*here.shape, -1), counts)
            else:
                if self.ends_at_surprise:
                    surprise = (tokens != log_d0.argmax(dim=-1)).view_as(here)
                    chosen = _through_surprise(chosen, surprise, rank)
                samples.write_grid(chosen, tokens.view_as(here), log_kept.view_as(here))
                samples.is_nan |= chosen & log_prob_at(tokens, log_d0).isnan().view_as(here)
            samples.record()

    def turns(self, samples: PartialSamples, block: Block) -> Iterator[Tensor | None]:
        """Yield for each call the number of tokens to reveal per sample, Int[B] on the host.

        Yields None if the device decides the numbers, as it does here: the host reads after each
        call whether the block is full. Used with ``has_fixed_shapes`` only.
        """
        most = int(block.num.max()) if len(block.num) else 0
        for call in range(1, most + 1):
            yield None
            if call < most and not bool((samples.masked & block.free).any()):
                return

    def _scores(
        self, samples: PartialSamples, rows: Tensor, read: ReadRows, here: Tensor
    ) -> tuple[Tensor, ...]:
        """Score the N MASKs ``here`` Bool[R, L] of the samples ``rows`` Int[R]; keep log D of some
        of the MASKs at a time in memory.

        Returns scores Float[N]; if the order reads tokens, also tokens Int[N] sampled from D, and
        the log of the mass that narrowing kept, Float[N].
        """
        num, generator, reads = int(here.sum()), samples.generator, self.order in READ_TOKENS
        if not isinstance(self.order, str) or self.order in _BLIND:
            return (self.score(torch.zeros(num, 1, device=here.device), None, here, generator),)
        support = narrowed_support(samples, rows, here)
        u = uniform_draws((num if reads else 0,), generator, here.device)
        found = []
        for part in torch.arange(num, device=here.device).split(_rows_at_once(samples)):
            log_d0, log_kept = self.adjusted(read(part), None if support is None else support[part])
            tokens = pick(log_d0, u[part]) if reads else None
            score = self.score(log_d0, tokens, here, generator)
            found.append((score,) if tokens is None else (score, tokens, log_kept))
        return tuple(map(torch.cat, zip(*found, strict=True)))

    def _sample_through_surprise(
        self, samples: PartialSamples, rows: Tensor, chosen: Tensor, rank: Tensor, log_d0: Tensor
    ) -> None:
        """Sample the N positions ``chosen`` Bool[R, L] of ``rows``, and keep the tokens through the
        first surprise by ``rank`` Int[R, L]; ``log_d0``: Float[N, V]."""
        log_d0, log_kept = self.adjusted(log_d0, narrowed_support(samples, rows, chosen))
        tokens = pick(log_d0, self.uniform(samples, chosen))
        surprise = torch.zeros_like(chosen)
        surprise[chosen] = tokens != log_d0.argmax(dim=-1)
        kept = _through_surprise(chosen, surprise, rank)
        where = torch.zeros_like(samples.free)
        where[rows] = kept
        kept = kept[chosen]  # Bool[N]
        samples.write(where, tokens[kept], log_kept[kept])
        samples.is_nan[where] = log_prob_at(tokens, log_d0)[kept].isnan()

    def _doubt_at(
        self, place: Tensor, samples: PartialSamples, read: ReadRows, here: Tensor
    ) -> Tensor:
        """``DoubtAt`` that reads no other position; arguments as for ``_scores``."""
        masks, row = here.gather(1, place), (here.flatten().cumsum(dim=0) - 1).view_as(here)
        parts = row.gather(1, place)[masks].split(_rows_at_once(samples))
        return on_grid(torch.cat([self.doubt(read(part)) for part in parts]), masks, 0.0)

    def _doubt_of_all(self, place: Tensor, log_d0: Tensor, here: Tensor) -> Tensor:
        """``DoubtAt`` of log D Float[R L, V], with no shape that depends on ``here`` Bool[R, L]."""
        return on_grid(self.doubt(log_d0), here, 0.0).gather(1, place)

    def _choose(
        self, samples: PartialSamples, score: Tensor, doubt: DoubtAt, here: Tensor, num: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Choose the MASKs to reveal next among ``here``, by scores Float[N or R L]: Bool[R, L];
        and return the rank of every position by score, Int[R, L]."""
        order = on_grid(score, here, -torch.inf).argsort(dim=1, descending=True, stable=True)
        number = self.number(doubt, here, order, num, samples.steps)
        turn = torch.arange(order.shape[1], device=order.device).expand_as(order)
        rank = torch.empty_like(order).scatter_(1, order, turn)
        return (rank < number) & here, rank


def _through_surprise(chosen: Tensor, surprise: Tensor, rank: Tensor) -> Tensor:
    """Positions ``chosen`` through the first ``surprise`` among them by ``rank``; all [R, L]."""
    first = rank.masked_fill(~(chosen & surprise), rank.shape[1]).amin(dim=1, keepdim=True)
    return chosen & (rank <= first)


def _longest_run(
    doubt: DoubtAt, order: Tensor, spent: Callable[[Tensor], Tensor], budget: float
) -> Tensor:
    """Number of first positions of each ``order`` Int[R, L] within a budget, Int[R, 1].
    ``spent``: of doubts Float64[R, K], what the runs from the first to each of them spend."""
    length, doubts = order.shape[1], order[:, :0].double()
    first = _FIRST if order.device.type == "cpu" else length
    while True:
        start = doubts.shape[1]
        doubts = torch.cat([doubts, doubt(order[:, start : 2 * start + first])], dim=1)
        beyond = spent(doubts) > budget  # NaN is not: all come at once
        if doubts.shape[1] == length or bool(beyond[:, -1].all()):
            return (~beyond).sum(dim=1, keepdim=True)


def _rows_at_once(samples: PartialSamples) -> int:
    return max(1, _AT_ONCE // samples.algorithm.layout.vocab_size)


def narrowed_support(samples: PartialSamples, rows: Tensor, here: Tensor) -> Tensor | None:
    """Return the narrowed legal ids of the samples ``rows`` Int[R] at N positions, Bool[N, V].

    ``here``: Bool[R, L], the positions. Where no id is left, all legal ids; None if nothing
    narrows the ids.
    """
    narrows_order = samples.narrowing is not None and samples.narrowing.narrows_order
    narrowing = samples.narrowing if narrows_order else None
    if samples.support is None and narrowing is None:
        return None
    row, position = here.nonzero(as_tuple=True)
    legal = samples.legal_at(rows[row], position)
    if narrowing is None:
        return legal
    # all legal ids where the narrowing leaves none
    kept = legal & narrowing.support(samples.x[rows[row]], position)
    return torch.where(kept.any(dim=-1, keepdim=True), kept, legal)


def check_positions(key: str, order: Sequence[int], length: int, names: Iterable[str]) -> None:
    """Raise ``ValueError`` unless the order lists all positions once; it suggests ``names``."""
    if sorted(order) != [*range(length)]:
        raise ValueError(
            f"{key}={[*order]}: expected every position from 0 to {length - 1} once, or one of "
            f"{', '.join(names)}"
        )


def on_grid(values: Tensor, here: Tensor, elsewhere: float) -> Tensor:
    """Put values Float[N] on a grid Float64[R, L], ``elsewhere`` where ``here`` is False.

    The values belong to the N positions ``here`` Bool[R, L], row by row, or to all R L positions.
    """
    values = values.double()
    if len(values) == here.numel():
        return values.view(here.shape).masked_fill(~here, elsewhere)
    grid = torch.full(here.shape, elsewhere, dtype=torch.float64, device=here.device)
    grid[here] = values
    return grid


@dataclass(kw_only=True)
class EvenUnmasking(Unmasking):
    """Unmasking of the same number of tokens in every call.

    ``tokens_per_call``: largest number of tokens of a call; ``steps`` sets instead the number of
    calls, among which the tokens are spread evenly (per block, and per group in turn).
    """

    tokens_per_call: Count = 1

    def samples_together(self, num: int, steps: int | None = None) -> bool:
        return are_sampled_together(self.tokens_per_call, steps, num)

    def turns(self, samples: PartialSamples, block: Block) -> Iterator[Tensor | None]:
        num = block.num.unsqueeze(1)
        yield from tokens_by_call(num, number_of_calls(self.tokens_per_call, samples.steps, num))

    def number(
        self, doubt: DoubtAt, here: Tensor, order: Tensor, num: Tensor, steps: int | None
    ) -> Tensor:
        # tokens up to the end of this call, less those revealed before
        calls = number_of_calls(self.tokens_per_call, steps, num)
        done = num - here.sum(dim=1, keepdim=True)
        call = done * calls // num
        return -(-(call + 1) * num // calls) - done


class Confidence(EvenUnmasking):
    """Confidence order: the tokens of which the network is surest come first.

    Score: the probability that D gives to the token sampled (MaskGIT, arXiv 2202.04200; LLaDA,
    arXiv 2502.09992). It reads sampled tokens, so likely tokens are revealed too early: the samples
    follow a sharpened distribution, even with one token per call. With a narrowed ``support`` the
    order reads narrowed tokens, and ``log_weights`` do not undo the tilt.
    """

    name = order = "confidence"
    exactness = Exactness.APPROXIMATE


class Margin(EvenUnmasking):
    """Margin order: the positions whose two likeliest tokens are furthest apart come first.

    Score: the largest less the second largest probability of D (Kim et al., arXiv 2502.06768). It
    reads the distributions alone: exact with one token per call if D is exact.
    """

    name = order = "margin"
    exactness = Exactness.ANY_ORDER


class Entropy(EvenUnmasking):
    """Entropy order: the positions of the lowest entropy come first.

    Score: minus the entropy of D, nats (Ye et al., arXiv 2508.15487). It reads the distributions
    alone: exact with one token per call if D is exact.
    """

    name = order = "entropy"
    exactness = Exactness.ANY_ORDER


@dataclass(kw_only=True)
class EntropyBounded(Unmasking):
    """Entropy-bounded unmasking: each call reveals as many tokens as are nearly independent.

    Reveal the longest run of positions 1..k, in ``order``, with

        H_1 + ... + H_k - max(H_1, ..., H_k) <= entropy_budget,      H_l the entropy of D_l, nats

    (EB, Ben-Hamu et al., arXiv 2505.24857). The left side bounds the information that the k tokens
    have on each other, which is lost by sampling them independently. The first token is always
    revealed, so budget 0 reveals one token per call, plus certain tokens, and is exact if D is
    exact.

    ``order``: ``random``, every order equally likely, as in training; one of the published orders
    ``entropy`` (least first), ``margin`` or ``confidence``; ``top_probability``, ``most-uncertain``
    (most entropy first) or ``left-to-right``; or a list of all positions. Deviation: ``random`` is
    the default, because the others keep less of the distribution of a trained network.

    Raises ``ValueError`` for a negative budget, an unknown order, a list that is not all positions,
    or if ``steps`` is given.
    """

    name = "entropy-bounded"
    takes_no_steps = (
        "entropy-bounded sampling chooses its own number of calls; leave steps unset and set "
        "sampling.entropy_budget"
    )

    entropy_budget: NotNegative = 1.2
    order: Annotated[str, OneOf(SCORES)] | Sequence[int] = "random"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.order, str):
            self.order = [*self.order]

    def check(self, algorithm: TokenAlgorithm, steps: int | None = None) -> None:
        if not isinstance(self.order, str):
            check_positions("order", self.order, algorithm.layout.length, SCORES)
        super().check(algorithm, steps)

    @property
    def exactness(self) -> Exactness:  # type: ignore[override]
        approximate = self.order in READ_TOKENS
        return Exactness.APPROXIMATE if approximate else Exactness.ANY_ORDER

    def samples_together(self, num: int, steps: int | None = None) -> bool:
        return self.entropy_budget > 0 and num > 1  # budget 0 joins tokens that are certain

    def number(
        self, doubt: DoubtAt, here: Tensor, order: Tensor, num: Tensor, steps: int | None
    ) -> Tensor:
        budget = self.entropy_budget + 1e-6  # a sum of float32 entropies is rounded
        return _longest_run(doubt, order, lambda h: h.cumsum(1) - h.cummax(1).values, budget)


@dataclass(kw_only=True)
class FirstSurprise(Unmasking):
    """Unmasking in random order, in which every call ends with its first surprise.

    A surprise is a token that is not the most probable one of D. A call samples the positions 1..k
    of a random order independently. k is the largest number, and at least 1, for which

        (1 - max D_1) + ... + (1 - max D_k) <= surprises,    the number to expect at temperature 1.

    The tokens through the first surprise are kept; later ones are sampled anew, given that one. The
    tokens before it alone decide whether a token is kept, so kept tokens follow D. The only error:
    expected tokens of a call are sampled independently. Few surprises take few calls.

    If D is exact and ``surprises`` below 1, the most probable tokens of a call are possible
    together, and all samples of uniform random trees are trees. Other data may break: a surprise
    can contradict expected tokens of its call. With 0 a call reveals one uncertain token, or
    several certain ones, and is exact if D is exact.

    The counterpart of autoregressive networks is predictive sampling (Wiggers and Hoogeboom, ICML
    2020). Raises ``ValueError`` for negative ``surprises``, or if ``steps`` is given.
    """

    name = "first-surprise"
    order = "random"
    exactness = Exactness.ANY_ORDER
    ends_at_surprise = True
    takes_no_steps = (
        "first-surprise sampling chooses its own number of calls; leave steps unset and set "
        "sampling.surprises"
    )

    surprises: NotNegative = 0.5

    def _check_narrowing(self, algorithm: TokenAlgorithm) -> None:
        raise ValueError(
            "first-surprise samples tokens before it decides which to keep, but a narrowing "
            "depends on the kept ones; use sampling=first-hitting"
        )

    def samples_together(self, num: int, steps: int | None = None) -> bool:
        return self.surprises > 0 and num > 1

    def doubt(self, log_d0: Tensor) -> Tensor:
        """Probability of a surprise, 1 - max D, Float[N]; see ``Unmasking.doubt``."""
        return 1 - log_d0.amax(dim=-1).exp()

    def number(
        self, doubt: DoubtAt, here: Tensor, order: Tensor, num: Tensor, steps: int | None
    ) -> Tensor:
        return _longest_run(doubt, order, partial(torch.cumsum, dim=1), self.surprises).clamp(min=1)
