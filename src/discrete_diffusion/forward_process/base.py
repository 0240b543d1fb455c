"""``ForwardProcess``: how tokens are corrupted, and the exact posteriors that follow from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from discrete_diffusion.categorical import (
    log_one_hot,
    log_softmax_on,
    mask_logits,
    neg_inf,
    pick,
    uniform_draws,
)
from discrete_diffusion.config.values import Checked
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.noise_schedules.base import Schedule, check_schedule, per_token

EVERYWHERE = slice(None)
"""All positions."""

AT_ONCE = 2**18
"""Numbers of a sum or bound that are computed at once, in float64: they stay in a processor's
cache, and little memory is needed on top of log D."""


class ForwardProcess(Checked, nn.Module, ABC):
    """A Markov chain in continuous time on the ids of each position, independent between positions.

    Positions may have different chains. For real numbers see ``gaussian``.

    With Q_{s,t}(x, y), the probability of y at t after x at s, and R_t(x, y), the rate of jumping
    from x to y,

        q_t(y | x0) = Q_{0,t}(x0, y)                           sampled by ``corrupt``
        p(xs | xt)  ~ Q_{s,t}(xs, xt) sum_x0 D(x0) Q_{0,s}(x0, xs)   the sampling posterior

    and everything else that an algorithm or a sampler needs follows from them. A new process
    defines

        ``prior``                        the distribution of every position at t = 1; alone, it is
                                         noise that replaces a token by a sample of the prior
        ``transition`` and ``rates``     any other noise, as matrices

    Noise that replaces tokens is cheaper as an ``InterpolatingProcess``, which has closed forms.
    ``check_process`` checks a process against these promises.

    Legal ids only: from a legal id of its position a token goes to legal ids or MASK. Rows of other
    ids are never read, and positions with ``real=False`` stay untouched.

    ``log_d0``: Float[B, L, V] is always the network's *leave-one-out* prediction D, the
    distribution of x0_l given everything but the noisy token at l, normalised over the support.

    Args:
        layout: legal ids by position.
        schedule: keep probability alpha(t).

    Raises:
        ValueError: the schedule does not keep its promises (``check_schedule``): if
            b_t(y) / alpha(t) ever fell, rates would be negative.
    """

    section = "forward_process"
    name: ClassVar[str]
    """The name that ``forward_process=`` takes, and that algorithms list in ``processes``."""

    absorbing = False
    """True if noise is a point mass on MASK and a visible token is therefore certain."""

    def __init__(self, layout: TokenLayout, schedule: Schedule) -> None:
        super().__init__()
        self.layout, self.schedule = layout, schedule
        check_schedule(schedule, layout)

    @abstractmethod
    def prior(self) -> Tensor:
        """Distribution pi of every position at t = 1.

        Returns:
            Float64[L, V], probabilities.
        """

    def fit(self, x0: Tensor, real: Tensor) -> None:
        """Fit the prior to the training tokens, before the first step; by default do nothing.

        Args:
            x0: Int[M, L], training tokens.
            real: Bool[M, L], positions that carry data.
        """

    # -- signal that is left ---------------------------------------------------------------------

    def alpha(self, t: Tensor) -> Tensor:
        """Share of the signal that is left; by default the schedule's.

        Where noise replaces tokens, the probability of staying.

        Args:
            t: Float[B], times.

        Returns:
            Float[B, 1] or Float[B, L].
        """
        return per_token(self.schedule.alpha(t))

    def one_minus_alpha(self, t: Tensor) -> Tensor:
        """Corrupted share.

        Args:
            t: Float[B], times.

        Returns:
            Float[B, 1] or Float[B, L].
        """
        return per_token(self.schedule.one_minus_alpha(t))

    def log_alpha(self, t: Tensor) -> Tensor:
        """log alpha(t).

        Args:
            t: Float[B], times.

        Returns:
            Float[B, 1] or Float[B, L].
        """
        return self.alpha(t).log()

    def sigma(self, t: Tensor, real: Tensor) -> Tensor:
        """Noise level that a backbone sees, -log of the mean alpha over real positions.

        The same function of t in training and in sampling, clamped positions included; alpha is
        floored at 1e-4.

        Args:
            t: Float[B], times.
            real: Bool[B, L], positions that carry data.

        Returns:
            Float32[B].
        """
        weight = real.to(t.dtype)
        mean = (self.alpha(t) * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)
        return -mean.clamp(min=1e-4).log().float()  # below 9.22

    # -- the chain, as matrices ------------------------------------------------------------------

    def matrix_index(self) -> Tensor:
        """Index of each position's matrix among the C of ``transition`` and ``rates``.

        Returns:
            Int[L]; by default each position has its own, C = L.
        """
        return torch.arange(self.layout.length, device=self.layout.support.device)

    def transition(self, s: Tensor, t: Tensor) -> Tensor:
        """Transition probabilities Q_{s,t}(x, y) for s <= t.

        Args:
            s: Float[B], earlier times.
            t: Float[B], later times.

        Returns:
            Float64[B, C, V, V], rows x, columns y.
        """
        keep = self.alpha(t) / self.alpha(s)
        jump = (self.one_minus_alpha(t) - self.one_minus_alpha(s)) / self.alpha(s)
        return self._stay_or_jump(keep, jump.unsqueeze(-1) * self.prior())

    def rates(self, t: Tensor) -> Tensor:
        """Rates R_t(x, y) >= 0 of jumping from x to y != x.

        Args:
            t: Float[B], times in (0, 1).

        Returns:
            Float64[B, C, V, V], per unit of time; the diagonal is not read.
        """
        beta = (-per_token(self.schedule.dalpha(t)) / self.alpha(t))[..., None, None]
        return beta * self.prior().unsqueeze(-2).expand(-1, self.layout.vocab_size, -1)

    def log_transition(self, s: Tensor, t: Tensor) -> Tensor:
        """log Q_{s,t}(x, y); to be overridden where Q is too small for a float.

        Args:
            s: Float[B], earlier times.
            t: Float[B], later times; the bound takes ratios of entries also near t = 0.

        Returns:
            Float64[B, C, V, V].
        """
        return self._log(self.transition(s, t))

    def sources(self) -> Tensor:
        """Ids that may jump into each id; by default all V.

        Returns:
            Int[C, V, W], filled up with the id itself where there are fewer than W.
        """
        size = self.layout.vocab_size
        return torch.arange(size, device=self.layout.support.device).expand(1, size, -1)

    # -- sampling --------------------------------------------------------------------------------

    def corrupt(self, x0: Tensor, t: Tensor, real: Tensor, generator: torch.Generator) -> Tensor:
        """Sample xt ~ q_t(. | x0).

        Args:
            x0: Int[B, L], clean ids.
            t: Float[B], times.
            real: Bool[B, L]; positions where it is False stay untouched.
            generator: source of randomness.

        Returns:
            Int[B, L].
        """
        return self.corrupt_further(x0, torch.zeros_like(t), t, real, generator)

    def corrupt_further(
        self, xs: Tensor, s: Tensor, t: Tensor, real: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Sample xt ~ q(xt | xs) for t > s.

        Args:
            xs: Int[B, L], ids at s.
            s: Float[B], earlier times.
            t: Float[B], later times.
            real: Bool[B, L]; positions where it is False stay untouched.
            generator: source of randomness.

        Returns:
            Int[B, L].
        """
        log_probs = log_rows(self.log_transition(s, t), self.matrix_index(), xs)
        u = uniform_draws(tuple(xs.shape), generator, xs.device)
        return torch.where(real, pick(log_probs, u), xs)

    def sample_noise(self, t: Tensor, generator: torch.Generator) -> Tensor:
        """Sample corrupted tokens: from the prior, or from b_t / (1 - alpha) if that depends on t.

        Args:
            t: Float[B], times.
            generator: source of randomness.

        Returns:
            Int[B, L].
        """
        return self._sample_from(self.prior(), t.shape[0], generator)

    def prior_sample(self, real: Tensor, generator: torch.Generator) -> Tensor:
        """Sample x1 from the prior.

        Args:
            real: Bool[B, L], positions that carry data.
            generator: source of randomness.

        Returns:
            Int[B, L]; PAD where ``real`` is False.
        """
        ones = torch.ones(real.shape[0], dtype=torch.float64, device=real.device)
        pad = self.layout.pad_id if self.layout.pad_id is not None else self.layout.mask_id
        return torch.where(real, self.sample_noise(ones, generator), pad)

    # -- distributions ---------------------------------------------------------------------------

    def marginal_log_probs(self, log_d0: Tensor, t: Tensor) -> Tensor:
        """Marginal of the prediction, log sum_x0 D(x0) q_t(y | x0).

        Args:
            log_d0: Float[B, L, V], log D.
            t: Float[B], times.

        Returns:
            Float64[B, L, V].
        """
        log_q = self.log_transition(torch.zeros_like(t), t)
        return log_mixture(log_d0, log_q, self.matrix_index())

    def posterior_log_probs(self, xt: Tensor, log_d0: Tensor, t: Tensor, s: Tensor) -> Tensor:
        """Sampling posterior of a step, log p(xs | xt); at s = 0 the ordinary posterior p(x0 | xt).

        Args:
            xt: Int[B, L], ids at t.
            log_d0: Float[B, L, V], log D.
            t: Float[B], times.
            s: Float[B], times before t.

        Returns:
            Float[B, L, V].
        """
        marginal = self.marginal_log_probs(log_d0, s)
        joint = marginal + log_columns(self.log_transition(s, t), self.matrix_index(), xt)
        possible = (joint > neg_inf(joint.dtype) / 2).any(dim=-1, keepdim=True)
        # an impossible id, which a network may still be given, is taken for unchanged
        joint = torch.where(possible, joint, log_one_hot(xt, joint.shape[-1], joint.dtype))
        return mask_logits(joint.log_softmax(dim=-1), joint > neg_inf(joint.dtype) / 2)

    def leave_one_out(
        self, log_p: Tensor, xt: Tensor, t: Tensor, positions: slice = EVERYWHERE
    ) -> Tensor:
        """log D from the ordinary posterior log P(x0 | xt): D(x0) ~ P(x0) / q_t(xt | x0).

        Args:
            log_p: Float[B, N, V], log P at ``positions``.
            xt: Int[B, L], ids at t.
            t: Float[B], times.
            positions: the N positions of ``log_p``.

        Returns:
            Float[B, N, V], normalised over the support.
        """
        log_q = self.log_transition(torch.zeros_like(t), t)
        seen = log_columns(log_q, self.matrix_index(), xt).clamp(min=neg_inf(log_p.dtype))
        log_d0 = log_p - seen[:, positions].to(log_p.dtype)
        return log_softmax_on(log_d0, self.layout.support[positions])

    # -- for subclasses --------------------------------------------------------------------------

    def _stay_or_jump(self, keep: Tensor, jump: Tensor) -> Tensor:
        """keep [x = y] + jump(y): Float64[B, L, V, V] of Float[B, 1 or L] and Float[B, L, V]."""
        size = self.layout.vocab_size
        same = torch.eye(size, dtype=jump.dtype, device=jump.device)
        return keep[..., None, None] * same + jump.unsqueeze(-2)

    @staticmethod
    def _sample_from(probs: Tensor, num: int, generator: torch.Generator) -> Tensor:
        """Sample ``num`` ids per position from probs Float64[L, V]: Int[num, L]."""
        u = uniform_draws((num, probs.shape[0]), generator, probs.device)
        if probs.stride(0) == 0:  # one row for all positions
            row = probs[0].cumsum(dim=-1)
            return torch.searchsorted(row, u * row[-1], right=True)
        cumulative = probs.cumsum(dim=-1)
        threshold = (u * cumulative[:, -1]).T.contiguous()  # (L, num)
        return torch.searchsorted(cumulative, threshold, right=True).T.contiguous()

    @staticmethod
    def _log(probs: Tensor) -> Tensor:
        return mask_logits(probs.clamp(min=torch.finfo(probs.dtype).tiny).log(), probs > 0)


# -- a chain applied to ids or to a prediction ---------------------------------------------------
# log_q: log of the transition matrices, Float64[B, C, V, V], rows the earlier id, columns the later
# one. index: Int[L], the matrix of each position.


def log_rows(log_q: Tensor, index: Tensor, ids: Tensor) -> Tensor:
    """log q(ids_l -> y) for every y: Float64[B, L, V], for ids Int[B, L]."""
    return log_q.expand(len(ids), -1, -1, -1)[_samples(ids), index, ids]


def log_columns(log_q: Tensor, index: Tensor, ids: Tensor) -> Tensor:
    """log q(x -> ids_l) for every x: Float64[B, L, V], for ids Int[B, L]."""
    return log_rows(log_q.transpose(-1, -2), index, ids)


def log_mixture(log_d0: Tensor, log_q: Tensor, index: Tensor, into: Tensor | None = None) -> Tensor:
    """log sum_x D(x) q(x -> y), Float64[B, L, W], for the ids y of ``into`` Int[B, L, W].

    ``into`` None: all V ids. The gradient goes to ``log_d0`` Float[B, L, V] alone. Nothing
    underflows, and the V terms of each sum are never in memory all at once.
    """
    num = max(len(log_d0), len(log_q))
    log_d0, log_q = log_d0.expand(num, -1, -1), log_q.expand(num, -1, -1, -1)
    mixed: Tensor = _Mixture.apply(log_d0, log_q, index, into)
    return mixed


class _Mixture(torch.autograd.Function):
    """``log_mixture``; the derivative by log D(x) is the share of x in the sum."""

    @staticmethod
    def forward(
        ctx: Any, log_d0: Tensor, log_q: Tensor, index: Tensor, into: Tensor | None
    ) -> Tensor:
        num, length, size = log_d0.shape
        width = size if into is None else into.shape[-1]
        out = log_q.new_empty(num, length, width)
        for part in chunks(num, length, width * size):
            out[part] = _joint(log_d0, log_q, index, into, part).logsumexp(dim=-1)
        out.clamp_(min=neg_inf(out.dtype))
        ctx.save_for_backward(log_d0, log_q, index, into, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        log_d0, log_q, index, into, out = ctx.saved_tensors
        slope = torch.empty_like(log_d0)
        # ids that cannot occur have no gradient
        grad = grad.masked_fill(out <= neg_inf(out.dtype) / 2, 0.0)
        num, length, width = out.shape
        for part in chunks(num, length, width * log_d0.shape[2]):
            share = (_joint(log_d0, log_q, index, into, part) - out[part].unsqueeze(-1)).exp_()
            slope[part] = (grad[part].unsqueeze(-2) @ share).squeeze(-2).to(slope)
        return slope, None, None, None


def _joint(
    log_d0: Tensor,
    log_q: Tensor,
    index: Tensor,
    into: Tensor | None,
    part: tuple[slice, slice],
) -> Tensor:
    """log D(x) + log q(x -> y) of some samples and positions: Float64[b, l, W, V]."""
    samples, positions = part
    by_later = log_q[samples].transpose(-1, -2)
    if into is None:
        log_q = by_later[:, index[positions]]
    else:
        ids = into[part]
        log_q = by_later[_samples(ids).unsqueeze(-1), index[positions].unsqueeze(-1), ids]
    return log_d0[part].double().unsqueeze(-2) + log_q


def chunks(
    num: int, length: int, size: int, at_once: int | None = None
) -> Iterator[tuple[slice, slice]]:
    """Yield slices of samples and positions with about ``at_once`` numbers, ``size`` each."""
    at_once = AT_ONCE if at_once is None else at_once
    # whole samples if one fits, else part of one
    samples = max(1, at_once // max(length * size, 1))
    positions = length if samples > 1 else max(1, at_once // max(size, 1))
    for first in range(0, num, samples):
        for begin in range(0, length, max(positions, 1)):
            yield slice(first, first + samples), slice(begin, begin + positions)


def _samples(ids: Tensor) -> Tensor:
    """Int[B, 1]: index of the sample of each row of ids [B, ...]."""
    return torch.arange(len(ids), device=ids.device).unsqueeze(-1)
