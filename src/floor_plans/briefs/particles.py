"""Samples that meet a constraint, by twisted sequential Monte Carlo; and moves that keep it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from discrete_diffusion.algorithms import TokenAlgorithm
from discrete_diffusion.categorical import (
    effective_number,
    log_mean,
    neg_inf,
    sample_categorical,
    uniform_draws,
)
from discrete_diffusion.contracts import Conditions, SampleOutput
from discrete_diffusion.sampling import Draft, FirstHitting


class Constraint(ABC):
    """A predicate C of finished samples, and how likely unfinished ones are to meet it."""

    @abstractmethod
    def met(self, x: Tensor) -> Tensor:
        """Bool[R]: which of the finished samples x Int[R, L] meet it."""

    @abstractmethod
    def log_chances(self, x: Tensor, position: Tensor, log_d0: Tensor) -> Tensor:
        """Float64[R, V]: log h(C | x with v at ``position``) for every id v, of samples x Int[R, L]
        with MASK where nothing is sampled, MASK at ``position`` Int[R] too; ``log_d0`` Float[R, L,
        V] is what the network says of x.

        h is any guess with two properties: it is above 0 where a sample can still meet C, and of a
        finished sample it is 1 or 0, whether that meets C. The better it predicts P(C | x), the
        fewer particles are needed; it never changes what they tend to.
        """


@dataclass(kw_only=True)
class Steered(FirstHitting):
    """First-hitting sampling that looks at h of ``constraint`` before it samples a token.

    ``on_sampled``: called, after every call, with how many tokens it sampled. Raises ``ValueError``
    for several tokens a call.
    """

    constraint: Constraint
    on_sampled: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens_per_call != 1:
            raise ValueError(
                f"tokens_per_call={self.tokens_per_call}: tokens are steered one by one; take 1"
            )

    def _outlook(
        self, draft: Draft, rows: Tensor, position: Tensor, t: Tensor
    ) -> tuple[Tensor, Tensor]:
        """log D_l(v) and log h(x with v), both Float64[R, V], at ``position`` Int[R] of the samples
        ``rows`` Int[R] at the times t Float64[R]."""
        log_d0 = self.shaped(self.log_d0(draft, rows, t), None)[0]
        log_chance = self.constraint.log_chances(draft.x[rows], position, log_d0)
        here = log_d0[torch.arange(len(rows), device=rows.device), position].double()
        return here.masked_fill(here <= neg_inf(log_d0.dtype) / 2, -torch.inf), log_chance


@dataclass(kw_only=True)
class Particles(Steered):
    """First-hitting sampling of p given ``constraint``, by twisted sequential Monte Carlo.

    The rows of one call of ``sample`` are particles. Each reveals its tokens one by one, in its own
    random order, with the proposal and the incremental weight

        r(v) = D_l(v) h(x with v) / Z,    Z = sum_v D_l(v) h(x with v),    w <- w Z / h(x),

    h(x) being that which the last token predicted, 1 before the first. The weights telescope to
    p(x) 1{C} / r(x): whatever h is, they are proper for p given C, and their mean is an unbiased
    estimate of p(C). Where their effective number falls below ``resample`` times that of the
    particles, they are resampled systematically, each with weight the mean.

    ``log_weights`` of the result are those after the last resampling; of dead particles -inf, and
    their tokens any legal ids; ``ancestors`` are the rows that they began as. Exact as the number
    of particles grows; of few particles the samples are biased by order 1 / number, and share
    ancestors.

    ``nfe`` counts the calls of each row, whatever particle it held: their sum is what was spent.

    Sources: Naesseth et al., Foundations and Trends in ML 12(3), 2019; Wu et al., arXiv 2306.17775.
    Raises ``ValueError`` for a ``resample`` outside [0, 1].
    """

    resample: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.resample <= 1:
            raise ValueError(f"resample={self.resample}: expected a share, 0 to 1")

    def run(self, draft: Draft) -> None:
        num, device = len(draft.x), draft.x.device
        draft.ancestors = torch.arange(num, device=device)
        call, t = self.plan(draft)
        left = call.amax(dim=1) + 1
        log_h = torch.zeros(num, dtype=torch.float64, device=device)
        log_r = torch.zeros(num, draft.algorithm.layout.vocab_size, dtype=torch.float64)
        log_r, whole = log_r.to(device), left == 0
        draft.log_weights[whole] += self.constraint.met(draft.x[whole]).double().log()
        num_calls = int(left.max()) if num else 0
        draft.calls.expect(num_calls)
        for k in range(num_calls):
            rows, position = _alive(draft, call, k)
            if not len(rows):
                break
            here, log_chance = self._outlook(draft, rows, position, t[rows, k])
            log_r[rows] = here + log_chance
            log_z = log_r[rows].logsumexp(dim=-1)
            draft.log_weights[rows] += log_z - log_h[rows]
            chance = torch.full_like(log_r, -torch.inf)
            chance[rows] = log_chance
            if self._worn(draft.log_weights):
                _resample(draft, call, t, log_h, log_r, chance)
            rows, position = _alive(draft, call, k)  # fewer: some have no weight left
            tokens = sample_categorical(log_r[rows].log_softmax(dim=-1), draft.generator)
            draft.x[rows, position] = tokens
            log_h[rows] = chance[rows, tokens]
            draft.record()
            if self.on_sampled is not None:
                self.on_sampled(len(rows))
        dead = draft.masked & draft.real
        draft.x = torch.where(dead, draft.algorithm.layout.support.int().argmax(dim=-1), draft.x)

    def _worn(self, log_weights: Tensor) -> bool:
        finite = log_weights.isfinite().any()
        return bool(finite) and effective_number(log_weights) < self.resample * len(log_weights)


def _alive(draft: Draft, call: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Int[R] twice: the particles of some weight that have a call k, and the position it samples;
    ``call``: Int[B, L], that of each position."""
    has_call = call.amax(dim=1) >= k
    rows = (has_call & draft.log_weights.isfinite()).nonzero().squeeze(1)
    return rows, (call[rows] == k).int().argmax(dim=1)


def _resample(draft: Draft, *carried: Tensor) -> None:
    """Sample the particles anew in proportion to their weights, which become their mean, with what
    each has ``carried``, one row each."""
    assert draft.ancestors is not None
    kept = systematic(draft.log_weights, len(draft.x), draft.generator)
    for tensor in (draft.x, *carried):
        tensor.copy_(tensor[kept])
    draft.real, draft.free = draft.real[kept], draft.free[kept]
    draft.ancestors = draft.ancestors[kept]
    draft.log_weights.fill_(log_mean(draft.log_weights))


def effective_samples(parts: Sequence[SampleOutput], vocab_size: int) -> float:
    """Number of independent samples that are worth as much as independent sets of particles
    together; 0 if all weights are.

    Particles with a common ancestor are alike, which their weights do not show. With W_i the
    weights of all, normalised, e_i the indicators of the tokens of particle i, ebar = sum_i W_i e_i
    and W_a the weight of the particles that began as a,

        n = c sum_i W_i |e_i - ebar|^2 / sum_a |sum_{i of a} W_i (e_i - ebar)|^2,
        c = (1 - sum_a W_a^2) / (1 - sum_i W_i^2),

    at most ``effective_number``. The denominator estimates the variance of ebar by the families
    (Lee and Whiteley, Biometrika 105(3), 2018; independent sets have none in common), so that the
    share p of a token, as the particles estimate it, has a variance of about p (1 - p) / n, taken
    over all tokens. Without resampling every particle is a family of its own.
    """
    log_weights = torch.cat([part.log_weights for part in parts])
    most = effective_number(log_weights)
    if most == 0:
        return 0.0
    weights = (log_weights - log_weights.logsumexp(dim=0)).exp()
    x, family, start = torch.cat([part.x0 for part in parts]), [], 0
    for part in parts:
        rows = torch.arange(len(part.x0), device=x.device)
        family.append(start + (rows if part.ancestors is None else part.ancestors))
        start += len(part.x0)
    which = torch.cat(family)
    of_family = weights.new_zeros(start).index_add(0, which, weights)
    spread = apart = 0.0
    for tokens in x.T:  # (N,)
        share = weights.new_zeros(start, vocab_size)
        share.index_put_((which, tokens), weights, accumulate=True)
        mean = share.sum(dim=0)
        spread += float(1 - mean.square().sum())
        apart += float((share - of_family.unsqueeze(1) * mean).square().sum())
    families = float(of_family.square().sum())
    if apart <= 1e-12 * spread or spread <= 0:  # one family, or one sequence
        return min(most, 1 / families)
    correction = (1 - families) / (1 - 1 / most)
    return max(1.0, min(most, correction * spread / apart))


def systematic(log_weights: Tensor, num: int, generator: torch.Generator) -> Tensor:
    """Int[num]: rows sampled in proportion to their weights, Float64[N], row k as often as num w_k
    rounded down or up (systematic resampling)."""
    share = (log_weights - log_weights.logsumexp(dim=0)).exp().cumsum(dim=0)
    u = uniform_draws((1,), generator, log_weights.device)
    points = (torch.arange(num, device=share.device, dtype=share.dtype) + u) / num
    return torch.searchsorted(share / share[-1], points, right=True).clamp(max=len(share) - 1)


@dataclass(frozen=True)
class Move:
    """A Metropolis-Hastings move of finished samples, which leaves p given C unchanged.

    Each position is hidden with probability ``share`` and sampled anew given the rest by
    ``sampler``. This is reversible with respect to p, as far as clamped samples are those of one
    joint distribution, so the move is accepted where the new sample meets C.
    """

    sampler: FirstHitting
    algorithm: TokenAlgorithm
    constraint: Constraint
    share: float

    def __call__(
        self,
        x: Tensor,
        real: Tensor,
        *,
        generator: torch.Generator,
        fixed: Tensor | None = None,
        conditions: Conditions | None = None,
    ) -> tuple[SampleOutput, Tensor]:
        """The samples x Int[B, L] after the move, in ``x0``, and Bool[B], which were accepted.

        ``fixed``: Bool[B, L], positions that are not hidden. ``conditions``: those that p has, a
        row each.
        """
        free = real if fixed is None else real & ~fixed
        hidden = (uniform_draws(tuple(x.shape), generator, x.device) < self.share) & free
        sampled = hidden | ~real
        sampled[:, : self.algorithm.layout.num_given] = False  # not real, and yet known
        clamp = x.masked_fill(sampled, -1)
        output = self.sampler.sample(
            self.algorithm, real, generator=generator, clamp=clamp, conditions=conditions
        )
        accepted = self.constraint.met(output.x0)
        return replace(output, x0=torch.where(accepted.unsqueeze(1), output.x0, x)), accepted
