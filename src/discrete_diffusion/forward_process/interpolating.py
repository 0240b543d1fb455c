"""Noise that replaces tokens, in closed form: ``InterpolatingProcess``, and ``Absorbing``."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from discrete_diffusion.categorical import (
    log_one_hot,
    log_softmax_on,
    mask_logits,
    neg_inf,
    uniform_draws,
)
from discrete_diffusion.forward_process.base import EVERYWHERE, ForwardProcess
from discrete_diffusion.noise_schedules.base import SMALLEST_TIME, per_token


class InterpolatingProcess(ForwardProcess):
    """Noise that keeps a token or replaces it by a sample of a prior. No matrix over pairs of ids
    is made, so a vocabulary may have any size.

    With keep probability alpha(t) and noise mass b_t(y) (summing to 1 - alpha over y):

        q_t(y | x0)  = alpha(t) [y = x0] + b_t(y)
        q(xt | xs)   = r [xt = xs] + c(xt),     r = alpha_t / alpha_s,  c = b_t - r b_s
        rate(y)      = b_t'(y) - (alpha' / alpha) b_t(y)                jumps into y

    For a fixed prior pi, b_t = (1 - alpha) pi and rate(y) = -alpha'/alpha pi(y) (D3PM, arXiv
    2107.03006; Campbell et al., arXiv 2205.14987): a process then only defines ``prior``. A process
    whose prior changes with t overrides ``alpha``, ``one_minus_alpha``, ``noise``, ``log_noise``,
    ``jump_rates``, the ``_at`` forms, ``sample_noise`` and ``sample_jump``: there alpha(t) is the
    process's, not the schedule's.

    If schedules of positions differ much, b_t of some positions may be too small for a float, so
    divisions by b_t are done in logarithms.

    Raises ``ValueError`` if b_t(y) / alpha(t) ever decreases: its rates would be negative.
    """

    # -- the noise mass b_t ----------------------------------------------------------------------

    def noise(self, t: Tensor, positions: slice = EVERYWHERE) -> Tensor:
        """b_t(y): Float[B, L, V], summing to 1 - alpha(t) over y; of some ``positions`` only, if
        all of them at once take too much memory."""
        share = self.one_minus_alpha(t).expand(-1, self.layout.length)[:, positions]
        return share.unsqueeze(-1) * self.prior()[positions]

    def log_noise(self, t: Tensor) -> Tensor:
        """log b_t(y): Float[B, L, V]."""
        share = per_token(self.schedule.log_one_minus_alpha(t))
        return share.unsqueeze(-1) + self._log(self.prior())

    def log_noise_at(self, xt: Tensor, t: Tensor) -> Tensor:
        """log b_t(xt_l): Float[B, L], for xt Int[B, L]."""
        share = per_token(self.schedule.log_one_minus_alpha(t))
        return share + self._log(self._gather(self.prior(), xt))

    # -- sampling --------------------------------------------------------------------------------

    def sample_jump(self, s: Tensor, t: Tensor, generator: torch.Generator) -> Tensor:
        """Sample the end of a jump between s and t > s, from c / (1 - alpha_t / alpha_s), at each
        position: Int[B, L]. A sample of the prior, if that is fixed."""
        return self.sample_noise(t, generator)

    def corrupt(self, x0: Tensor, t: Tensor, real: Tensor, generator: torch.Generator) -> Tensor:
        u = uniform_draws(tuple(x0.shape), generator, x0.device)
        corrupted = (u < self.one_minus_alpha(t)) & real
        return torch.where(corrupted, self.sample_noise(t, generator), x0)

    def corrupt_further(
        self, xs: Tensor, s: Tensor, t: Tensor, real: Tensor, generator: torch.Generator
    ) -> Tensor:
        hidden = self.one_minus_alpha(t) - self.one_minus_alpha(s)
        u = uniform_draws(tuple(xs.shape), generator, xs.device)
        jumped = (u < hidden / self.alpha(s)) & real  # sum of c: 1 - alpha_t / alpha_s
        return torch.where(jumped, self.sample_jump(s, t, generator), xs)

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
        floor = neg_inf(torch.float64)
        # log r and log c(xt), Float64[B, L]
        log_keep = self.log_alpha(t) - self.log_alpha(s)
        former, noise = (self.log_noise_at(xt, at).clamp(min=floor) for at in (s, t))
        log_jumped = noise + self._log(1 - (log_keep + former - noise).exp())
        # divided by c(xt), q(xt | xs) is 1 everywhere but at xs = xt: log(1 + r / c(xt))
        stayed = torch.logaddexp(log_keep - log_jumped, torch.zeros_like(noise))
        marginal = self.marginal_log_probs(log_d0, s)
        joint = marginal.scatter_add(-1, xt.unsqueeze(-1), stayed.unsqueeze(-1))
        return mask_logits(joint.log_softmax(dim=-1), marginal > floor / 2)

    def leave_one_out(
        self, log_p: Tensor, xt: Tensor, t: Tensor, positions: slice = EVERYWHERE
    ) -> Tensor:
        """log D from log P, where q_t(xt | x0) is b(xt) for every x0 but xt, for which it is
        b(xt) + alpha."""
        log_noise = self.log_noise_at(xt, t)
        gained = torch.logaddexp(self.log_alpha(t) - log_noise, torch.zeros_like(log_noise))
        seen = -gained.clamp(max=-neg_inf(log_p.dtype)).to(log_p.dtype)
        log_d0 = log_p.scatter_add(
            -1, xt[:, positions].unsqueeze(-1), seen[:, positions].unsqueeze(-1)
        )
        return log_softmax_on(log_d0, self.layout.support[positions])

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
    def _gather(probs: Tensor, ids: Tensor) -> Tensor:
        """probs Float[L, V] at ids Int[B, L]: Float[B, L]."""
        return probs.expand(len(ids), -1, -1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)

    # -- as matrices, for checks -----------------------------------------------------------------

    def transition(self, s: Tensor, t: Tensor) -> Tensor:
        keep = self.alpha(t) / self.alpha(s)
        jump = self.noise(t) - keep.unsqueeze(-1) * self.noise(s)
        return self._stay_or_jump(keep, jump)

    def rates(self, t: Tensor) -> Tensor:
        into = self.jump_rates(t).expand(-1, self.layout.length, -1)
        return into.unsqueeze(-2).expand(-1, -1, self.layout.vocab_size, -1)


class Absorbing(InterpolatingProcess):
    """Tokens turn into MASK and stay there: b_t = (1 - alpha(t)) [MASK] (Austin et al., arXiv
    2107.03006; MDLM, arXiv 2406.07524).

    A visible token is certain, so the general posterior collapses to: visible tokens stay, and a
    MASK becomes x0 ~ D with probability (alpha_s - alpha_t) / (1 - alpha_t). The closed forms
    below avoid the (B, L, V) arithmetic of the base class; a test checks that both are equal.
    """

    name = "absorbing"
    absorbing = True

    def prior(self) -> Tensor:
        layout = self.layout
        mask = torch.tensor(layout.mask_id, device=layout.support.device)
        return one_hot(mask, layout.vocab_size).double().expand(layout.length, -1)

    def sample_noise(self, t: Tensor, generator: torch.Generator) -> Tensor:
        shape = (t.shape[0], self.layout.length)
        return torch.full(shape, self.layout.mask_id, dtype=torch.long, device=t.device)

    def weight(self, t: Tensor) -> Tensor:
        """-alpha' / (1 - alpha), the rate of revealing MASKs: Float[B, 1] or Float[B, L]."""
        return per_token(self.schedule.weight(t))

    def unmask_times(self, u: Tensor) -> Tensor:
        """Float64[B, L]: T_l with 1 - alpha_l(T_l) = u_l, the time at which position l is revealed
        when time runs backwards, for u uniform on (0, 1)."""
        return self.schedule.inverse(u).clamp(min=SMALLEST_TIME)

    def time_of_masked(self, masked: Tensor, among: Tensor) -> Tensor:
        """``time_of_share`` of the share that is masked, ``masked`` Bool[B, L]."""
        share = (masked & among).sum(dim=1).double() / among.sum(dim=1).clamp(min=1)
        return self.time_of_share(share, among)

    def time_of_share(self, share: Tensor, among: Tensor) -> Tensor:
        """Float64[B]: the t at which a share, Float64[B], of the positions ``among`` Bool[B, L] is
        expected to be masked; by bisection where alpha differs between positions."""
        if self.schedule.alpha(share).ndim == 1:
            return self.schedule.inverse(share).clamp(min=SMALLEST_TIME)
        low, high = torch.zeros_like(share), torch.ones_like(share)
        num = among.sum(dim=1).clamp(min=1)
        for _ in range(60):  # then float64 cannot tell the ends apart
            middle = (low + high) / 2
            expected = (self.one_minus_alpha(middle) * among).sum(dim=1) / num
            below = expected < share
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return high.clamp(min=SMALLEST_TIME)

    def posterior_log_probs(self, xt: Tensor, log_d0: Tensor, t: Tensor, s: Tensor) -> Tensor:
        hidden_s, hidden_t = self.one_minus_alpha(s), self.one_minus_alpha(t)
        # at a MASK: D times the probability of revealing it, and the probability that it stays
        reveal = self._log((hidden_t - hidden_s) / hidden_t).unsqueeze(-1)
        stay = self._log(hidden_s / hidden_t).unsqueeze(-1)
        log_masked = (log_d0 + reveal).clamp(min=neg_inf(log_d0.dtype))
        is_mask_id = torch.arange(log_d0.shape[-1], device=xt.device) == self.layout.mask_id
        log_masked = torch.where(is_mask_id, stay.to(log_masked), log_masked)
        # a visible token stays
        masked = (xt == self.layout.mask_id).unsqueeze(-1)
        visible = log_one_hot(xt, log_d0.shape[-1], log_masked.dtype)
        return torch.where(masked, log_masked, visible)
