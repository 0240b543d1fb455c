"""``ForwardProcess``: how tokens are corrupted, and the exact posteriors that follow from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from discrete_diffusion.categorical import (
    log_one_hot,
    log_softmax_on,
    mask_logits,
    neg_inf,
    pick,
    uniform_draws,
)
from discrete_diffusion.config.signatures import Checked
from discrete_diffusion.forward_process.mixtures import log_columns, log_mixture, log_rows
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.noise_schedules.base import Schedule, check_schedule, per_token

SIGMA_FLOOR = 1e-4
"""Smallest alpha whose -log goes to a backbone: sigma stays below 9.22."""

EVERYWHERE = slice(None)
"""All positions."""


class ForwardProcess(Checked, nn.Module, ABC):
    """A Markov chain in continuous time on the ids of each position, independent between positions.

    No two positions need have the same chain. For real numbers see ``gaussian``.

    With Q_{s,t}(x, y), the probability of y at t after x at s, and R_t(x, y), the rate of jumping
    from x to y,

        q_t(y | x0) = Q_{0,t}(x0, y)                           sampled by ``corrupt``
        p(xs | xt)  ~ Q_{s,t}(xs, xt) sum_x0 D(x0) Q_{0,s}(x0, xs)   the sampling posterior

    and whatever else an algorithm or a sampler needs follows here. A process of one's own defines

        ``prior``                        the law of every position at t = 1; alone, it is noise that
                                         replaces a token by a sample of the prior
        ``transition`` and ``rates``     any other noise, as matrices

    Noise that replaces tokens is cheaper as an ``InterpolatingProcess``, which has closed forms.
    ``check_process`` holds one to all that is promised.

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
        """Fit the prior to the training tokens, before the first step; by default it needs none.

        Args:
            x0: Int[M, L], training tokens.
            real: Bool[M, L], positions that carry data.
        """

    # -- how much is left ------------------------------------------------------------------------

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
        return -mean.clamp(min=SIGMA_FLOOR).log().float()

    # -- the chain, as matrices ------------------------------------------------------------------

    def cells(self) -> Tensor:
        """Index, of the C matrices of ``transition`` and ``rates``, of that of each position.

        By default each position has its own, C = L.

        Returns:
            Int[L].
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
        """log Q_{s,t}(x, y).

        To be overridden where Q is too small for a float: the bound takes ratios of its entries,
        also near t = 0.

        Args:
            s: Float[B], earlier times.
            t: Float[B], later times.

        Returns:
            Float64[B, C, V, V].
        """
        return self._log(self.transition(s, t))

    def sources(self) -> Tensor:
        """Ids from which each id may be jumped into; by default all V.

        Returns:
            Int[C, V, W], the id itself where there are fewer than W.
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
        log_probs = log_rows(self.log_transition(s, t), self.cells(), xs)
        u = uniform_draws(tuple(xs.shape), generator, xs.device)
        return torch.where(real, pick(log_probs, u), xs)

    def sample_noise(self, t: Tensor, generator: torch.Generator) -> Tensor:
        """Sample tokens of which nothing is left, one per position.

        Here from the prior; from b_t / (1 - alpha) where that moves.

        Args:
            t: Float[B], times.
            generator: source of randomness.

        Returns:
            Int[B, L].
        """
        return self._draw_from(self.prior(), t.shape[0], generator)

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
        return log_mixture(log_d0, log_q, self.cells())

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
        joint = marginal + log_columns(self.log_transition(s, t), self.cells(), xt)
        possible = joint > neg_inf(joint.dtype) / 2
        # an impossible id, which a network may still be given, is taken for unchanged
        joint = torch.where(
            possible.any(dim=-1, keepdim=True),
            joint,
            log_one_hot(xt, joint.shape[-1], joint.dtype),
        )
        return mask_logits(joint.log_softmax(dim=-1), joint > neg_inf(joint.dtype) / 2)

    def leave_one_out(
        self, log_p: Tensor, xt: Tensor, t: Tensor, positions: slice = EVERYWHERE
    ) -> Tensor:
        """log D from the ordinary posterior log P(x0 | xt): D(x0) ~ P(x0) / q_t(xt | x0).

        Args:
            log_p: Float[B, L, V], log P; of some ``positions`` only, that of those.
            xt: Int[B, L], ids at t.
            t: Float[B], times.
            positions: those of ``log_p``.

        Returns:
            As ``log_p``, normalised over the support.
        """
        log_q = self.log_transition(torch.zeros_like(t), t)
        seen = log_columns(log_q, self.cells(), xt).clamp(min=neg_inf(log_p.dtype))[:, positions]
        return log_softmax_on(log_p - seen.to(log_p.dtype), self.layout.support[positions])

    # -- helpers ---------------------------------------------------------------------------------

    def _stay_or_jump(self, keep: Tensor, jump: Tensor) -> Tensor:
        """keep [x = y] + jump(y): Float64[B, L, V, V] of Float[B, 1 or L] and Float[B, L, V]."""
        size = self.layout.vocab_size
        same = torch.eye(size, dtype=jump.dtype, device=jump.device)
        return keep[..., None, None] * same + jump.unsqueeze(-2)

    @staticmethod
    def _draw_from(probs: Tensor, num: int, generator: torch.Generator) -> Tensor:
        """Sample ``num`` ids per position from probs Float64[L, V]: Int[num, L]; see ``draw``."""
        u = uniform_draws((num, probs.shape[0]), generator, probs.device)
        if probs.stride(0) == 0:  # one row for all
            row = probs[0].cumsum(dim=-1)
            return torch.searchsorted(row, u * row[-1], right=True)
        cumulative = probs.cumsum(dim=-1)
        threshold = (u * cumulative[:, -1]).T.contiguous()  # (L, num)
        return torch.searchsorted(cumulative, threshold, right=True).T.contiguous()

    @staticmethod
    def _uniform(layout: TokenLayout) -> Tensor:
        """Uniform on the legal ids by position: Float64[L, V], or [1, V] where all are alike."""
        return layout.uniform_log_probs()[: 1 if layout.rows_alike else None].exp()

    @staticmethod
    def _log(probs: Tensor) -> Tensor:
        return mask_logits(probs.clamp(min=torch.finfo(probs.dtype).tiny).log(), probs > 0)
