"""Noise of legal ids: uniform, as frequent as in the data, or mixed with MASK (hybrid)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from discrete_diffusion.categorical import uniform_draws
from discrete_diffusion.config.values import Positive
from discrete_diffusion.forward_process.base import EVERYWHERE
from discrete_diffusion.forward_process.interpolating import InterpolatingProcess
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.noise_schedules.base import Schedule, per_token


def _uniform(layout: TokenLayout) -> Tensor:
    """Uniform on the legal ids by position: Float64[L, V], or [1, V] where all are alike."""
    return layout.uniform_log_probs()[: 1 if layout.rows_alike else None].exp()


class Uniform(InterpolatingProcess):
    """Uniform noise: b_t(y) = (1 - alpha(t)) / K_l on the K_l legal ids of each position, 0
    elsewhere (Austin et al., arXiv 2107.03006; UDLM, arXiv 2412.10193).

    Deviation: the papers' prior is uniform on the whole vocabulary; a node type never enters an
    edge slot here, and neither MASK nor PAD is ever sampled.
    """

    name = "uniform"
    rows: Tensor

    def __init__(self, layout: TokenLayout, schedule: Schedule) -> None:
        super().__init__(layout, schedule)
        self.register_buffer("rows", _uniform(layout), persistent=False)

    def prior(self) -> Tensor:
        return self.rows.expand(self.layout.length, -1)


class Marginal(InterpolatingProcess):
    """Noise as frequent as the data: b_t(y) = (1 - alpha(t)) pi_g(y), pi_g the token frequencies
    of a position's group in the training data (DiGress, Vignac et al., arXiv 2209.14734).

    ``fit`` estimates pi; until then pi is uniform on the legal ids. pi is stored in checkpoints.
    ``smoothing``: count added to every legal id, because a legal id that the prior never samples
    would make the ratios of the bound infinite.

    Raises ``ValueError`` if ``smoothing`` is not positive.
    """

    name = "marginal"
    pi: Tensor

    def __init__(
        self, layout: TokenLayout, schedule: Schedule, *, smoothing: Positive = 1.0
    ) -> None:
        super().__init__(layout, schedule)
        self.smoothing = float(smoothing)
        self.register_buffer("pi", layout.uniform_log_probs().exp())

    def prior(self) -> Tensor:
        return self.pi

    def fit(self, x0: Tensor, real: Tensor) -> None:
        """Estimate pi from training tokens: x0 Int[M, L], counted where real Bool[M, L].

        Positions of a group share their counts; each position uses the counts of its legal ids.
        """
        # counts of ids by group, Float64[groups, V]
        layout = self.layout
        counts = torch.zeros(len(layout.group_names), layout.vocab_size, dtype=torch.float64)
        for g in range(len(counts)):
            own = layout.group == g
            counts[g] = torch.bincount(x0[:, own][real[:, own]], minlength=layout.vocab_size)
        # frequencies of the legal ids of each position
        weight = (counts.to(self.pi) + self.smoothing)[layout.group] * layout.support
        self.pi.copy_(weight / weight.sum(dim=1, keepdim=True))


class Hybrid(InterpolatingProcess):
    """A mixture of MASK and uniform noise, changing with t (von Ruette et al., arXiv 2503.04482).

    With a(t) the schedule's keep probability, tau = 1 - a and u_l uniform on the legal ids of
    position l:

        c = B (tau a)^(gamma/2),   B = 2^gamma p/(1-p),   C = 1 + c
        alpha = a / C,             b_t = (tau [MASK] + c u_l) / C

    so that the share of tokens that are uniform noise is 0 at both ends and p = ``p_uniform`` at
    tau = 1/2, for every K_l. The schedule has a(t), the process alpha(t).

    Raises ``ValueError`` unless 0 < p_uniform < 1 and 0 < gamma <= 2: beyond 2, c/a falls near
    t = 1, where the jump rates would be negative.
    """

    name = "hybrid"
    rows: Tensor
    mask: Tensor

    def __init__(
        self, layout: TokenLayout, schedule: Schedule, *, p_uniform: float = 0.1, gamma: float = 1.0
    ) -> None:
        if not 0 < p_uniform < 1:
            raise ValueError(
                f"forward_process.p_uniform={p_uniform}: expected a share above 0 and below 1; for "
                "0 choose forward_process=absorbing"
            )
        if not 0 < gamma <= 2:
            raise ValueError(
                f"forward_process.gamma={gamma}: expected 0 < gamma <= 2; beyond 2 some jump rates "
                "would be negative"
            )
        super().__init__(layout, schedule)
        self.p_uniform, self.gamma = float(p_uniform), float(gamma)
        self.bump = 2**gamma * p_uniform / (1 - p_uniform)  # B
        mask_id = torch.tensor(layout.mask_id, device=layout.support.device)
        mask = one_hot(mask_id, layout.vocab_size).double()  # (V,)
        self.register_buffer("mask", mask, persistent=False)
        self.register_buffer("rows", _uniform(layout), persistent=False)

    @property
    def uniform(self) -> Tensor:
        """u, Float64[L, V]."""
        return self.rows.expand(self.layout.length, -1)

    def prior(self) -> Tensor:
        return self.mask.expand(self.layout.length, -1)

    def mixture(self, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return a, tau and c, each Float[B, 1] or Float[B, L]."""
        a = per_token(self.schedule.alpha(t))
        tau = per_token(self.schedule.one_minus_alpha(t))
        return a, tau, self.bump * (tau * a) ** (self.gamma / 2)

    def alpha(self, t: Tensor) -> Tensor:
        a, _, c = self.mixture(t)
        return a / (1 + c)

    def one_minus_alpha(self, t: Tensor) -> Tensor:
        _, tau, c = self.mixture(t)
        return (tau + c) / (1 + c)

    def log_mixture(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """log(tau / C) and log(c / C), the shares of MASK and of uniform noise: Float[B, 1] or
        Float[B, L]."""
        a, _, c = self.mixture(t)
        log_tau = per_token(self.schedule.log_one_minus_alpha(t))
        # c = B (tau a)^(gamma/2)
        log_c = math.log(self.bump) + self.gamma / 2 * (log_tau + a.log())
        return log_tau - c.log1p(), log_c - c.log1p()

    def noise(self, t: Tensor, positions: slice = EVERYWHERE) -> Tensor:
        whole = (-1, self.layout.length)
        _, tau, c = (x.expand(whole)[:, positions].unsqueeze(-1) for x in self.mixture(t))
        return c / (1 + c) * self.uniform[positions] + tau / (1 + c) * self.mask

    def log_noise(self, t: Tensor) -> Tensor:
        masked, legal = (share.unsqueeze(-1) for share in self.log_mixture(t))
        return torch.where(self.mask > 0, masked, legal + self._log(self.uniform))

    def log_noise_at(self, xt: Tensor, t: Tensor) -> Tensor:
        masked, legal = self.log_mixture(t)
        legal = legal + self._log(self._gather(self.uniform, xt))
        return torch.where(xt == self.layout.mask_id, masked, legal)

    def sample_noise(self, t: Tensor, generator: torch.Generator) -> Tensor:
        _, tau, c = self.mixture(t)
        legal = self._sample_from(self.uniform, t.shape[0], generator)
        # tau of tau + c is MASK
        masked = uniform_draws(tuple(legal.shape), generator, legal.device) * (tau + c) < tau
        return torch.where(masked, self.layout.mask_id, legal)

    def sample_jump(self, s: Tensor, t: Tensor, generator: torch.Generator) -> Tensor:
        # masses of c = b_t - r b_s at MASK and at all legal ids
        keep = self.alpha(t) / self.alpha(s)
        (_, tau_t, c_t), (_, tau_s, c_s) = self.mixture(t), self.mixture(s)
        into_mask = (tau_t / (1 + c_t) - keep * tau_s / (1 + c_s)).clamp(min=0)
        into_legal = (c_t / (1 + c_t) - keep * c_s / (1 + c_s)).clamp(min=0)
        legal = self._sample_from(self.uniform, t.shape[0], generator)
        u = uniform_draws(tuple(legal.shape), generator, legal.device)
        return torch.where(u * (into_mask + into_legal) < into_mask, self.layout.mask_id, legal)

    def jump_rates(self, t: Tensor) -> Tensor:
        """Float[B, L, V]: alpha d/dt [b_t(y) / alpha], where b_t / alpha is tau/a at MASK and
        c u_l/a elsewhere:

        tau' / (C a) [MASK]  +  tau' c / (C a tau) (gamma/2 a + (1 - gamma/2) tau) u_l
        """
        a, tau, c = (x.unsqueeze(-1) for x in self.mixture(t))
        # tau' / (C a), and its product with the rest of the formula
        into_mask = -per_token(self.schedule.dalpha(t)).unsqueeze(-1) / ((1 + c) * a)
        half = self.gamma / 2
        into_legal = into_mask * c / tau * (half * a + (1 - half) * tau)
        return into_mask * self.mask + into_legal * self.uniform

    def log_rate_at(self, xt: Tensor, t: Tensor) -> Tensor:
        """Log of ``jump_rates`` at xt, with tau' / tau as the schedule's weight."""
        a, tau, _ = self.mixture(t)
        # tau' / (tau a) times 1 at MASK, and the bracket elsewhere
        masked, half = xt == self.layout.mask_id, self.gamma / 2
        grows = torch.where(masked, 1.0, half * a + (1 - half) * tau)
        weight = per_token(self.schedule.weight(t))
        return (weight / a * grows).log() + self.log_noise_at(xt, t)
