"""Samplers that reveal tokens in an order chosen by the network's predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, cast

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
EntropyAt = Callable[[Tensor], Tensor]
"""Entropies of D before narrowing, nats, by position: Int[R, K] -> Float64[R, K], 0 if no MASK."""


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

    @property
    def reads_tokens(self) -> bool:
        """True if sampled tokens, not only the distributions, decide what a call reveals."""
        return self.order in READ_TOKENS

    def _check_narrowing(self, algorithm: TokenAlgorithm) -> None:
        super()._check_narrowing(algorithm)
        if self.reads_tokens:
            raise ValueError(
                f"{self.name} in the order '{self.order}' reads tokens before they are kept, "
                "but each of them narrows what the others may be; use sampling=first-hitting"
            )

    def number(
        self, entropy: EntropyAt, here: Tensor, order: Tensor, num: Tensor, steps: int | None
    ) -> Tensor:
        """Number of tokens to reveal, Int[R, 1], at least 1 for a sample with MASKs left.

        ``entropy``: see ``EntropyAt``. ``here``: Bool[R, L], MASKs of the block. ``order``:
        Int[R, L], positions by score, these MASKs first. ``num``: Int[R, 1], number of MASKs of the
        block at the start. ``steps``: number of calls requested, or None.
        """
        raise NotImplementedError

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
            # D at their N MASKs, of which an order may read few
            here = waiting[rows]
            t = time_of_masked_share(samples.algorithm, masked[rows], block.real[rows])
            read = self._lazy_log_d0(samples, rows, t, here)
            score, *sampled = self._scores(samples, rows, read, here)
            # reveal those that come first
            entropy = partial(self._entropy_at, samples=samples, read=read, here=here)
            chosen = self._choose(samples, score, entropy, here, num[rows])
            picked = chosen[here].nonzero().squeeze(1)
            reveal = torch.zeros_like(waiting)
            reveal[rows] = chosen
            if sampled:
                samples.write(reveal, *(each[picked] for each in sampled))
                samples.is_nan[reveal] = score[picked].isnan()  # D at the tokens
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
            wide_d0 = log_d0 if support is None else self.adjusted(raw_d0, None)[0]
            reads = self.reads_tokens
            tokens = sample_categorical(log_d0, samples.generator) if reads else None
            score = self.score(log_d0, tokens, here, samples.generator)
            # reveal the MASKs that come first
            entropy = partial(_entropy_of_all, log_d0=wide_d0, here=here)
            chosen = self._choose(samples, score, entropy, here, num)
            if tokens is None:
                self._sample_grid(samples, chosen, raw_d0.view(*here.shape, -1), counts)
            else:
                samples.write_grid(chosen, tokens.view_as(here), log_kept.view_as(here))
                samples.is_nan |= chosen & score.view_as(here).isnan()  # D at the tokens
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
        num, generator, reads = int(here.sum()), samples.generator, self.reads_tokens
        if not reads and (not isinstance(self.order, str) or self.order in _BLIND):
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

    def _entropy_at(
        self, place: Tensor, samples: PartialSamples, read: ReadRows, here: Tensor
    ) -> Tensor:
        """``EntropyAt`` that reads no other position; arguments as for ``_scores``."""
        masks, row = here.gather(1, place), (here.flatten().cumsum(dim=0) - 1).view_as(here)
        parts = row.gather(1, place)[masks].split(_rows_at_once(samples))
        entropy = [entropy_of(self.adjusted(read(part), None)[0]) for part in parts]
        return on_grid(torch.cat(entropy), masks, 0.0)

    def _choose(
        self, samples: PartialSamples, score: Tensor, entropy: EntropyAt, here: Tensor, num: Tensor
    ) -> Tensor:
        """Choose the MASKs to reveal next among ``here``, by scores Float[N or R L]: Bool[R, L]."""
        order = on_grid(score, here, -torch.inf).argsort(dim=1, descending=True, stable=True)
        number = self.number(entropy, here, order, num, samples.steps)
        return (order.argsort(dim=1) < number) & here


def _entropy_of_all(place: Tensor, log_d0: Tensor, here: Tensor) -> Tensor:
    """``EntropyAt`` of log D Float[R L, V], with no shape that depends on ``here`` Bool[R, L]."""
    return on_grid(entropy_of(log_d0), here, 0.0).gather(1, place)


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
        self, entropy: EntropyAt, here: Tensor, order: Tensor, num: Tensor, steps: int | None
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
        self, entropy: EntropyAt, here: Tensor, order: Tensor, num: Tensor, steps: int | None
    ) -> Tensor:
        # entropies of the positions, first to last, until no sample takes more
        length, nats = order.shape[1], order[:, :0].double()
        first = _FIRST if order.device.type == "cpu" else length
        while True:
            start = nats.shape[1]
            nats = torch.cat([nats, entropy(order[:, start : 2 * start + first])], dim=1)
            lost = nats.cumsum(dim=1) - nats.cummax(dim=1).values
            # a sum of float32 entropies is rounded; NaN is not beyond: all come at once
            beyond = lost > self.entropy_budget + 1e-6
            if nats.shape[1] == length or bool(beyond[:, -1].all()):
                return (~beyond).sum(dim=1, keepdim=True)


@dataclass(kw_only=True)
class FirstSurprise(Unmasking):
    """Unmasking in random order, in which every call ends with its first surprise.

    A surprise is a token that is not the most probable one of D. A call samples the positions 1..k
    of a random order independently, k the largest number, at least 1, with

        (1 - max D_1) + ... + (1 - max D_k) <= surprises,    the number of surprises to expect,

    and keeps the tokens up to the first surprise. Later ones are sampled again, given that one. So
    few calls fill data whose tokens are mostly as expected: most pairs of a sparse graph have no
    edge. Whether a token is kept depends on tokens before it alone. What is lost is what tokens as
    expected tell about each other in a call. (Autoregressive networks can also verify expected
    tokens, all in one call: predictive sampling, Wiggers and Hoogeboom, ICML 2020.)

    If D is exact and ``surprises`` below 1, what must come comes, such as the edge that joins the
    last two parts of a tree: no call samples all places that are left for it. With 0 a call reveals
    one token, and certain ones, which is exact if D is exact.

    Raises ``ValueError`` for a negative number, or if ``steps`` is given.
    """

    name = "first-surprise"
    order = "random"
    exactness = Exactness.ANY_ORDER
    reads_tokens = True
    takes_no_steps = (
        "first-surprise sampling chooses its own number of calls; leave steps unset and set "
        "sampling.surprises"
    )

    surprises: NotNegative = 0.5

    def samples_together(self, num: int, steps: int | None = None) -> bool:
        return self.surprises > 0 and num > 1

    def score(
        self, log_d0: Tensor, tokens: Tensor | None, here: Tensor, generator: torch.Generator
    ) -> Tensor:
        """1 - max D, plus 1 at a surprise; see ``Unmasking.score``."""
        most, expected = log_d0.max(dim=-1)
        return 1 - most.exp() + (tokens != expected)

    def _choose(
        self, samples: PartialSamples, score: Tensor, entropy: EntropyAt, here: Tensor, num: Tensor
    ) -> Tensor:
        # a random order of the MASKs
        u = uniform_draws(tuple(here.shape), samples.generator, here.device)
        order = u.masked_fill(~here, torch.inf).argsort(dim=1)
        doubt = on_grid(score, here, torch.inf).gather(1, order)
        # up to the first surprise and to the number to expect, but one at least
        surprise = (doubt >= 1).double()
        beyond = surprise.cumsum(dim=1) > surprise
        beyond |= (doubt - surprise).cumsum(dim=1) > self.surprises + 1e-6
        beyond[:, 0] = False
        return torch.zeros_like(here).scatter(1, order, ~beyond) & here
