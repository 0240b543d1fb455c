"""Sampling under a constraint by twisted sequential Monte Carlo and Metropolis-Hastings moves."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

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
from discrete_diffusion.config import Bounds, NotNegative
from discrete_diffusion.contracts import Conditions, SampleOutput
from discrete_diffusion.sampling import FirstHitting, PartialSamples

ShareOrZero = Annotated[float, Bounds(least=0, most=1)]


class Constraint(ABC):
    """A predicate C of finished samples, with a look-ahead for unfinished samples."""

    @abstractmethod
    def met(self, x: Tensor) -> Tensor:
        """Bool[R]: finished samples x Int[R, L] that meet C."""

    def log_weights(self, x: Tensor) -> Tensor:
        """Log of the weight that finished samples x Int[R, L] have in place of 1{C}, Float64[R]:
        0, or less for a sample that is less wanted; -inf if it does not meet C."""
        return self.met(x).double().log()

    @abstractmethod
    def log_chances(self, x: Tensor, position: Tensor, log_d0: Tensor) -> Tensor:
        """Look-ahead log h(C | x with v at ``position``) for every id v, Float64[R, V].

        x Int[R, L] has MASK at tokens that are not sampled yet, also at ``position`` Int[R];
        ``log_d0`` Float[R, L, V] is the network's prediction for x. h can be any estimate that is
        above 0 for a sample that can still meet C, and the weight of a finished sample, 1 or 0 as a
        rule. The better it predicts P(C | x), the fewer particles are needed; their limit does not
        depend on it.
        """


@dataclass(kw_only=True)
class Steered(FirstHitting):
    """First-hitting sampling with the look-ahead h of ``constraint`` for every token.

    ``on_sampled``: gets the number of sampled tokens after every network call. Raises
    ``ValueError`` for several tokens a call.
    """

    section = ""  # these options are keys of the command

    constraint: Constraint
    on_sampled: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens_per_call != 1:
            raise ValueError(
                f"tokens_per_call={self.tokens_per_call}: tokens are steered one by one; take 1"
            )

    def _outlook(
        self, samples: PartialSamples, rows: Tensor, position: Tensor, t: Tensor
    ) -> tuple[Tensor, Tensor]:
        """log D_l(v) and log h(x with v), both Float64[R, V], at ``position`` Int[R] of samples
        ``rows`` Int[R] at times t Float64[R]."""
        log_d0 = self.adjusted(self.log_d0(samples, rows, t), None)[0]
        log_chance = self.constraint.log_chances(samples.x[rows], position, log_d0)
        here = log_d0[torch.arange(len(rows), device=rows.device), position].double()
        return here.masked_fill(here <= neg_inf(log_d0.dtype) / 2, -torch.inf), log_chance


@dataclass(kw_only=True)
class Particles(Steered):
    """First-hitting sampling of p given ``constraint``, by twisted sequential Monte Carlo.

    The rows of one call of ``sample`` are particles. Each reveals its tokens one by one, in its own
    random order, with the proposal and the incremental weight

        r(v) = D_l(v) h(x with v) / Z,    Z = sum_v D_l(v) h(x with v),    w <- w Z / h(x),

    where h(x) was computed when the last token of x was sampled; it is 1 before the first token.
    The product of the increments is p(x) 1{C} / r(x): for any h the weights are proper for p given
    C, and their mean is an unbiased estimate of p(C). If the effective number of particles falls
    below ``resample`` times their number, they are resampled systematically and all get the mean
    weight.

    ``log_weights`` of the result are the final log-weights, -inf for particles that cannot meet C;
    tokens of these are arbitrary legal ids. ``ancestors``: initial row of each particle. The
    samples become exact as the number of particles grows; for few particles they are biased by
    order 1 / number, and share ancestors.

    ``nfe``: number of network calls made for each row, whichever particle it held.

    Sources: Naesseth et al., Foundations and Trends in ML 12(3), 2019; Wu et al., arXiv 2306.17775.
    Raises ``ValueError`` for a ``resample`` outside [0, 1].
    """

    resample: ShareOrZero = 0.5

    def run(self, samples: PartialSamples) -> None:
        # order and times of the calls of each row
        num, device = len(samples.x), samples.x.device
        samples.ancestors = torch.arange(num, device=device)
        call, t = self.call_order(samples)
        # h of the present samples, and log-probabilities of the next token
        log_h = torch.zeros(num, dtype=torch.float64, device=device)
        log_r = log_h.new_zeros(num, samples.algorithm.layout.vocab_size)
        whole = call.amax(dim=1) < 0
        samples.log_weights[whole] += self.constraint.log_weights(samples.x[whole])
        num_calls = int(call.max()) + 1 if num else 0
        samples.calls.expect(num_calls)
        # call k reveals one token of every particle with weight
        for k in range(num_calls):
            rows, position = _alive(samples, call, k)
            if not len(rows):
                break
            # proposal r(v) = D(v) h(x with v) / Z, weight times Z / h(x)
            here, log_chance = self._outlook(samples, rows, position, t[rows, k])
            log_r[rows] = here + log_chance
            log_z = log_r[rows].logsumexp(dim=-1)
            samples.log_weights[rows] += log_z - log_h[rows]
            # h of each possible next sample, carried along in resampling
            chance = torch.full_like(log_r, -torch.inf)
            chance[rows] = log_chance
            least = self.resample * num
            if (
                samples.log_weights.isfinite().any()
                and effective_number(samples.log_weights) < least
            ):
                # each particle gets the mean weight
                kept = systematic_rows(samples.log_weights, num, samples.generator)
                for tensor in (samples.x, call, t, log_h, log_r, chance):
                    tensor.copy_(tensor[kept])
                samples.real, samples.free = samples.real[kept], samples.free[kept]
                samples.ancestors = samples.ancestors[kept]
                samples.log_weights.fill_(log_mean(samples.log_weights))
            rows, position = _alive(samples, call, k)  # without particles that died just now
            # sample the token, and keep its h
            tokens = sample_categorical(log_r[rows].log_softmax(dim=-1), samples.generator)
            samples.x[rows, position] = tokens
            log_h[rows] = chance[rows, tokens]
            samples.record()
            if self.on_sampled is not None:
                self.on_sampled(len(rows))
        # dead particles get any legal ids
        dead = samples.masked & samples.real
        samples.x = torch.where(
            dead, samples.algorithm.layout.support.int().argmax(dim=-1), samples.x
        )


@dataclass(kw_only=True)
class SoftGuidance(Steered):
    """First-hitting sampling with every token tilted towards ``constraint``, without weights.

    With h(C | x with v) the estimated probability of C, each token is sampled from

        r(v) proportional to D_l(v) max(h(x with v), doubt)^lookahead_power.

    Nothing is resampled or rejected: samples may break C, and samples that meet C are not
    distributed as p given C. This is guidance by a classifier of unfinished samples (Dhariwal and
    Nichol, arXiv 2105.05233; for graphs, Vignac et al., arXiv 2209.14734, section 4.3), with h in
    place of a trained classifier. ``doubt``: lower bound on h, since a trained classifier is never
    certain that C is out of reach; with 0, tokens that h excludes are never sampled, unless D
    allows no other. ``lookahead_power=0`` is the model itself.

    ``log_weights`` of the result are 0. Raises ``ValueError`` for a ``lookahead_power`` below 0 or
    a ``doubt`` outside [0, 1].
    """

    lookahead_power: NotNegative = 1.0
    doubt: ShareOrZero = 0.01

    def run(self, samples: PartialSamples) -> None:
        # one network call reveals one token of every row that still has masks
        call, t = self.call_order(samples)
        num_calls = int(call.max()) + 1 if len(call) else 0
        samples.calls.expect(num_calls)
        for k in range(num_calls):
            rows, position = _alive(samples, call, k)
            log_d, log_h = self._outlook(samples, rows, position, t[rows, k])
            # tilt by h^lookahead_power in log space; rows that h excludes entirely fall back to D
            tilt = self.lookahead_power * log_h.clamp(
                min=math.log(self.doubt) if self.doubt else -math.inf
            )
            log_r = log_d + (torch.zeros_like(tilt) if self.lookahead_power == 0 else tilt)
            none = log_r.amax(dim=-1, keepdim=True) == -torch.inf
            log_r = torch.where(none, log_d, log_r).log_softmax(dim=-1)
            samples.x[rows, position] = sample_categorical(log_r, samples.generator)
            samples.record()
            if self.on_sampled is not None:
                self.on_sampled(len(rows))


def steered_particles(sampler: Any, constraint: Constraint, path: str) -> Particles:
    """Build ``Particles`` with the options of ``sampler``; raise ``ValueError`` unless it is
    first-hitting."""
    if not isinstance(sampler, FirstHitting):
        raise ValueError(
            f"method=smc reveals tokens one by one, but {path} is sampled by {sampler.name}; "
            "take sampling=first-hitting or method=rejection"
        )
    return Particles(constraint=constraint, **steering_options(sampler))


def steering_options(sampler: FirstHitting) -> dict[str, Any]:
    """Options of a sampler that it keeps when it is steered."""
    return {name: getattr(sampler, name) for name in ("temperature", "top_p", "guidance")}


def _alive(samples: PartialSamples, call: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Rows of particles with a call k and weight above 0, and positions it samples, both Int[R]."""
    has_call = call.amax(dim=1) >= k
    rows = (has_call & samples.log_weights.isfinite()).nonzero().squeeze(1)
    return rows, (call[rows] == k).int().argmax(dim=1)


def effective_samples(parts: Sequence[SampleOutput], vocab_size: int) -> float:
    """Effective number of independent samples in several sets of particles; 0 if every weight is 0.

    Particles with a common ancestor are correlated, which weights do not show. With W_i the
    normalised weights of all, e_i the indicators of the tokens of particle i, ebar = sum_i W_i e_i
    and W_a the weight of the family of ancestor a,

        n = c sum_i W_i |e_i - ebar|^2 / sum_a |sum_{i of a} W_i (e_i - ebar)|^2,
        c = (1 - sum_a W_a^2) / (1 - sum_i W_i^2),

    at most ``effective_number``. The denominator estimates the variance of ebar by families (Lee
    and Whiteley, Biometrika 105(3), 2018; independent sets share none), so that the estimated
    share p of a token has a variance of about p (1 - p) / n, over all tokens. Without resampling
    every particle is a family by itself.
    """
    # normalised weights of all sets
    log_weights = torch.cat([part.log_weights for part in parts])
    most = effective_number(log_weights)
    if most == 0:
        return 0.0
    weights = (log_weights - log_weights.logsumexp(dim=0)).exp()
    # families: particles with a common ancestor
    x, family, start = torch.cat([part.x0 for part in parts]), [], 0
    for part in parts:
        rows = torch.arange(len(part.x0), device=x.device)
        family.append(start + (rows if part.ancestors is None else part.ancestors))
        start += len(part.x0)
    which = torch.cat(family)
    of_family = weights.new_zeros(start).index_add(0, which, weights)
    # variances within and between families, summed over tokens
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
    # correct for the bias of both estimates
    correction = (1 - families) / (1 - 1 / most)
    return max(1.0, min(most, correction * spread / apart))


def systematic_rows(log_weights: Tensor, num: int, generator: torch.Generator) -> Tensor:
    """Int[num]: rows sampled in proportion to weights Float64[N] by systematic resampling: row k
    occurs num w_k times, rounded down or up."""
    # equally spaced points in the cumulative weights
    share = (log_weights - log_weights.logsumexp(dim=0)).exp().cumsum(dim=0)
    u = uniform_draws((1,), generator, log_weights.device)
    points = (torch.arange(num, device=share.device, dtype=share.dtype) + u) / num
    return torch.searchsorted(share / share[-1], points, right=True).clamp(max=len(share) - 1)


@dataclass(frozen=True)
class Move:
    """Metropolis-Hastings step (move) on finished samples that leaves p given C invariant.

    Each position is hidden with probability ``share`` and sampled given the rest by ``sampler``.
    This is reversible with respect to p, if clamped samples follow one joint distribution; so the
    move is accepted with the ratio of the new weight of the constraint to the old one.
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
        conditions: Conditions | None = None,
    ) -> tuple[SampleOutput, Tensor]:
        """Move samples x Int[B, L]. Returns the new samples in ``x0``, and Bool[B], True for
        accepted moves.

        ``conditions``: conditions of p, one row per sample.
        """
        # hide random positions, and sample them given the rest
        hidden = (uniform_draws(tuple(x.shape), generator, x.device) < self.share) & real
        sampled = hidden | ~real
        sampled[:, : self.algorithm.layout.num_given] = False  # not real, and yet known
        clamp = x.masked_fill(sampled, -1)
        output = self.sampler.sample(
            self.algorithm, real, generator=generator, clamp=clamp, conditions=conditions
        )
        # accept if the constraint still holds, and by chance if the new sample is less wanted
        log_ratio = self.constraint.log_weights(output.x0) - self.constraint.log_weights(x)
        accepted = log_ratio >= 0
        if len(rows := (log_ratio.isfinite() & ~accepted).nonzero().squeeze(1)):
            u = uniform_draws((len(rows),), generator, x.device)
            accepted[rows] = u.log() < log_ratio[rows]
        return replace(output, x0=torch.where(accepted.unsqueeze(1), output.x0, x)), accepted
