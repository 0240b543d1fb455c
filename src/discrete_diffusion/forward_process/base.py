"""``ForwardProcess``: how data is corrupted, and the exact posteriors that follow from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from discrete_diffusion.categorical import mask_logits, neg_inf, uniform_draws
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import Schedule, check_schedule, per_token

SIGMA_FLOOR = 1e-4
"""Smallest alpha whose -log is handed to a backbone: sigma stays below 9.22."""

EVERYWHERE = slice(None)
"""All positions."""


class ForwardProcess(nn.Module, ABC):
    """An interpolating process between clean tokens and a prior, independent per position; for real
    numbers see ``gaussian``.

    With keep probability alpha(t) and noise mass b_t(y) (summing to 1 - alpha over y):

        q_t(y | x0)  = alpha(t) [y = x0] + b_t(y)
        q(xt | xs)   = r [xt = xs] + c(xt),     r = alpha_t / alpha_s,  c = b_t - r b_s
        rate(y)      = b_t'(y) - (alpha' / alpha) b_t(y)                jumps into y

    For a fixed prior pi, b_t = (1 - alpha) pi and rate(y) = -alpha'/alpha pi(y) (D3PM, arXiv
    2107.03006; Campbell et al., arXiv 2205.14987): ``prior`` is all that a process then adds. One
    whose prior moves with t overrides ``alpha``, ``one_minus_alpha``, ``noise``, ``log_noise``,
    ``jump_rates``, the ``_at`` forms, ``draw_noise`` and ``draw_jump``: the process, not the
    schedule, owns alpha(t).

    With schedules far apart b_t of one position may be too small for a float where that of another
    is not, so what divides by it takes its logarithm.

    ``log_d0``: Float[B, L, V] is always the network's *leave-one-out* prediction D, the
    distribution of x0_l given everything but the noisy token at l, normalised over the support.

    Raises ``ValueError`` for a schedule that does not keep its promises (``check_schedule``): if
    b_t(y) / alpha(t) ever fell, rates would be negative.
    """

    name: ClassVar[str]
    """What ``forward_process=`` calls it, and what algorithms name in ``processes``."""

    absorbing = False
    """True if noise is a point mass on MASK and a visible token is therefore certain."""

    def __init__(self, layout: TokenLayout, schedule: Schedule) -> None:
        super().__init__()
        self.layout, self.schedule = layout, schedule
        check_schedule(schedule, layout)

    @abstractmethod
    def prior(self) -> Tensor:
        """Float64[L, V]: pi, the distribution of every position at t = 1."""

    def fit(self, x0: Tensor, real: Tensor) -> None:
        """Fit the prior to the training tokens x0 Int[M, L], ``real`` Bool[M, L], before the first
        step; by default it needs none.
        """

    # -- what the process owns: alpha, and the noise mass b_t ------------------------------------

    def alpha(self, t: Tensor) -> Tensor:
        """Keep probability, Float[B] -> Float[B, 1] or Float[B, L]."""
        return per_token(self.schedule.alpha(t))

    def one_minus_alpha(self, t: Tensor) -> Tensor:
        """Corrupted share, Float[B, 1] or Float[B, L]."""
        return per_token(self.schedule.one_minus_alpha(t))

    def log_alpha(self, t: Tensor) -> Tensor:
        """log alpha(t), Float[B, 1] or Float[B, L]."""
        return self.alpha(t).log()

    def noise(self, t: Tensor, positions: slice = EVERYWHERE) -> Tensor:
        """b_t(y): Float[B, L, V], summing to 1 - alpha(t) over y; of some ``positions`` only, where
        all of them at once are too many."""
        share = self.one_minus_alpha(t).expand(-1, self.layout.length)[:, positions]
        return share.unsqueeze(-1) * self.prior()[positions]

    def log_noise(self, t: Tensor) -> Tensor:
        """log b_t(y): Float[B, L, V]."""
        share = per_token(self.schedule.log_one_minus_alpha(t))
        return share.unsqueeze(-1) + self._log(self.prior())

    def log_noise_at(self, xt: Tensor, t: Tensor) -> Tensor:
        """log b_t(xt_l): Float[B, L], for xt Int[B, L]."""
        share = per_token(self.schedule.log_one_minus_alpha(t))
        return share + self._log(self._at(self.prior(), xt))

    def sigma(self, t: Tensor, real: Tensor) -> Tensor:
        """-log of the mean alpha over real positions, Float32[B]: the noise level a backbone sees.

        The same function of t in training and in sampling, clamped positions included; alpha is
        floored at 1e-4.
        """
        weight = real.to(t.dtype)
        mean = (self.alpha(t) * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)
        return -mean.clamp(min=SIGMA_FLOOR).log().float()

    # -- drawing ---------------------------------------------------------------------------------

    def draw_noise(self, t: Tensor, generator: torch.Generator) -> Tensor:
        """One draw per position from b_t / (1 - alpha): Int[B, L]."""
        return self._draw_from(self.prior(), t.shape[0], generator)

    def draw_jump(self, s: Tensor, t: Tensor, generator: torch.Generator) -> Tensor:
        """One draw per position from c / (1 - alpha_t / alpha_s), where a jump between s and t > s
        ends: Int[B, L]. The prior, if that is fixed."""
        return self.draw_noise(t, generator)

    def corrupt(self, x0: Tensor, t: Tensor, real: Tensor, generator: torch.Generator) -> Tensor:
        """Draw xt ~ q_t(. | x0): Int[B, L]. Positions with ``real=False`` stay untouched."""
        u = uniform_draws(tuple(x0.shape), generator, x0.device)
        corrupted = (u < self.one_minus_alpha(t)) & real
        return torch.where(corrupted, self.draw_noise(t, generator), x0)

    def corrupt_further(
        self, xs: Tensor, s: Tensor, t: Tensor, real: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Draw xt ~ q(xt | xs) for t > s: Int[B, L]. Positions with ``real=False`` stay."""
        hidden = self.one_minus_alpha(t) - self.one_minus_alpha(s)
        u = uniform_draws(tuple(xs.shape), generator, xs.device)
        jumped = (u < hidden / self.alpha(s)) & real  # sum of c: 1 - alpha_t / alpha_s
        return torch.where(jumped, self.draw_jump(s, t, generator), xs)

    def prior_sample(self, real: Tensor, generator: torch.Generator) -> Tensor:
        """Draw x1 from the prior: Int[B, L]; PAD where ``real`` is False."""
        ones = torch.ones(real.shape[0], dtype=torch.float64, device=real.device)
        pad = self.layout.pad_id if self.layout.pad_id is not None else self.layout.mask_id
        return torch.where(real, self.draw_noise(ones, generator), pad)

    # -- distributions ---------------------------------------------------------------------------

    def marginal_log_probs(self, log_d0: Tensor, t: Tensor) -> Tensor:
        """log Q(y) = log(alpha D(y) + b_t(y)): Float64[B, L, V]."""
        log_q = torch.logaddexp(self.log_alpha(t).unsqueeze(-1) + log_d0, self.log_noise(t))
        return mask_logits(log_q, log_q > neg_inf(log_q.dtype) / 2)

    def posterior_log_probs(self, xt: Tensor, log_d0: Tensor, t: Tensor, s: Tensor) -> Tensor:
        """log p(xs | xt): Float[B, L, V], the sampling posterior of a step from t to s < t.

        p(xs | xt) is proportional to q(xt | xs) (alpha_s D(xs) + b_s(xs)); at s = 0 this is the
        ordinary posterior p(x0 | xt). q(xt | xs) is c(xt) for every xs but xt, for which it is
        c(xt) + r.
        """
        log_keep, floor = self.log_alpha(t) - self.log_alpha(s), neg_inf(torch.float64)  # log r
        former, noise = (self.log_noise_at(xt, at).clamp(min=floor) for at in (s, t))
        log_jumped = noise + self._log(1 - (log_keep + former - noise).exp())  # log c(xt)
        stayed = torch.logaddexp(log_keep - log_jumped, torch.zeros_like(noise))
        marginal = self.marginal_log_probs(log_d0, s)
        joint = marginal.scatter_add(-1, xt.unsqueeze(-1), stayed.unsqueeze(-1))
        return mask_logits(joint.log_softmax(dim=-1), marginal > floor / 2)

    def jump_rates(self, t: Tensor) -> Tensor:
        """rate(y) of jumping into y at time t in (0, 1): Float[B, L, V], >= 0."""
        beta = -per_token(self.schedule.dalpha(t)) / self.alpha(t)
        return beta.unsqueeze(-1) * self.prior()

    def log_rate_at(self, xt: Tensor, t: Tensor) -> Tensor:
        """log rate(xt_l) of jumping into xt_l at time t: Float[B, L], for xt Int[B, L]; from
        rate = -alpha' / (1 - alpha) b_t / alpha."""
        weight = per_token(self.schedule.weight(t))
        return weight.log() - self.log_alpha(t) + self.log_noise_at(xt, t)

    @staticmethod
    def _at(probs: Tensor, ids: Tensor) -> Tensor:
        """probs Float[L, V] at ids Int[B, L]: Float[B, L]."""
        return probs.expand(len(ids), -1, -1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)

    @staticmethod
    def _draw_from(probs: Tensor, num: int, generator: torch.Generator) -> Tensor:
        """``num`` draws per position from probs Float64[L, V]: Int[num, L]; see ``draw``."""
        cumulative = probs.cumsum(dim=-1)
        u = uniform_draws((num, probs.shape[0]), generator, probs.device)
        threshold = (u * cumulative[:, -1]).T.contiguous()  # (L, num)
        return torch.searchsorted(cumulative, threshold, right=True).T.contiguous()

    @staticmethod
    def _log(probs: Tensor) -> Tensor:
        return mask_logits(probs.clamp(min=torch.finfo(probs.dtype).tiny).log(), probs > 0)
