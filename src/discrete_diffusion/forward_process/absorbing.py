"""The absorbing process: tokens turn into MASK and stay there."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from discrete_diffusion.categorical import log_one_hot, neg_inf
from discrete_diffusion.forward_process.interpolating import InterpolatingProcess
from discrete_diffusion.noise_schedules.base import SMALLEST_TIME, per_token

BISECTIONS = 60
"""Halvings of [0, 1] that leave nothing of float64."""


class Absorbing(InterpolatingProcess):
    """b_t = (1 - alpha(t)) [MASK] (Austin et al., arXiv 2107.03006; MDLM, arXiv 2406.07524).

    A visible token is certain, so the general posterior collapses to: visible tokens stay, and a
    MASK becomes x0 ~ D with probability (alpha_s - alpha_t) / (1 - alpha_t). The closed forms
    below avoid the (B, L, V) arithmetic of the base class; a test holds them equal to it.
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
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            expected = (self.one_minus_alpha(middle) * among).sum(dim=1) / num
            below = expected < share
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return high.clamp(min=SMALLEST_TIME)

    def weight(self, t: Tensor) -> Tensor:
        """-alpha' / (1 - alpha), the rate of revealing MASKs: Float[B, 1] or Float[B, L]."""
        return per_token(self.schedule.weight(t))

    def posterior_log_probs(self, xt: Tensor, log_d0: Tensor, t: Tensor, s: Tensor) -> Tensor:
        hidden_s, hidden_t = self.one_minus_alpha(s), self.one_minus_alpha(t)
        reveal = self._log((hidden_t - hidden_s) / hidden_t).unsqueeze(-1)
        stay = self._log(hidden_s / hidden_t).unsqueeze(-1)
        floor = neg_inf(log_d0.dtype)
        log_masked = (log_d0 + reveal).clamp(min=floor)
        is_mask_id = torch.arange(log_d0.shape[-1], device=xt.device) == self.layout.mask_id
        log_masked = torch.where(is_mask_id, stay.to(log_masked), log_masked)
        masked = (xt == self.layout.mask_id).unsqueeze(-1)
        visible = log_one_hot(xt, log_d0.shape[-1], log_masked.dtype)
        return torch.where(masked, log_masked, visible)
