"""Flow matching on images, given a condition: the network predicts the clean image."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms.base import Algorithm
from discrete_diffusion.algorithms.draws import draw_times
from discrete_diffusion.algorithms.scaling import FieldScaling
from discrete_diffusion.forward_process import StraightPath
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.types import Batch, Conditions, LossOutput

T_DRAWS = ("uniform", "quadratic", "logit_normal")
WEIGHTINGS = ("velocity", "image")
SMALLEST_T = 0.05
"""Where velocities are cut off, and where the bound ends with a Gaussian."""


class FlowMatching(Algorithm):
    """x-prediction on the straight path x_t = (1 - t) x0 + t eps (``StraightPath``).

        loss = E_t E_eps  w(t) * mean over pixels of  (xhat(x_t, t, condition) - x0)^2,

    w = 1 / max(t, 0.05)^2, which makes it the squared error of the velocity (x_t - xhat) / t, its
    denominator cut off at 0.05 (arXiv 2210.02747; x-prediction as in arXiv 2511.13720). Images are
    scaled to mean 0 and deviation 1.

    ``weighting``: ``velocity``, w as above; ``image``, w = 1: the same best xhat, and errors of
    small t, where the noisy image already shows the clean one, do not outweigh the others.
    ``t_draw``: how training times are drawn; ``uniform``, ``quadratic``: u^2, ``logit_normal``:
    sigmoid(N(0.8, 0.8^2)), in each case of this package's t, which is 1 for noise.
    ``condition_dropout``: see ``Algorithm``.

    The NELBO, NaN unless a ``draw`` asks for it, is that of the diffusion with the same marginals,
    ended at t = 0.05 by N(xhat, (t / (1 - t))^2 I) (arXiv 2107.00630, eq. 17), about scaled images:

        NELBO = E[-log N(x0; xhat(x_.05), s^2)] + integral of (1 - t) / t^3 |x0 - xhat|^2 dt.
    """

    name = "flow-matching"
    state = "field"
    samplers = ("ode",)
    evaluation_draw = "importance"
    bound = "gaussian"

    def __init__(
        self,
        backbone: nn.Module,
        *,
        channels: int,
        weighting: str = "velocity",
        t_draw: str = "uniform",
        condition_dropout: float = 0.0,
        time_conditioning: bool = True,
    ) -> None:
        super().__init__(
            backbone, time_conditioning=time_conditioning, condition_dropout=condition_dropout
        )
        if weighting not in WEIGHTINGS:
            raise ValueError(unknown_name("algo.weighting", weighting, WEIGHTINGS))
        if t_draw not in T_DRAWS:
            raise ValueError(unknown_name("algo.t_draw", t_draw, T_DRAWS))
        self.path, self.scaling = StraightPath(), FieldScaling(channels)
        self.weighting, self.t_draw = weighting, t_draw

    def fit(self, train: Batch) -> None:
        super().fit(train)
        self.scaling.fit(train.x0)

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        if draw not in (None, self.evaluation_draw):
            raise ValueError(unknown_name("draw", str(draw), [self.evaluation_draw]))
        x0 = self.scaling(batch.x0)  # (B, C, H, W)
        numbers = x0[0].numel()
        t, weight, at_end = self._draw(len(x0), generator, x0.device, for_bound=draw is not None)
        noise = torch.randn(x0.shape, generator=generator, device=generator.device).to(x0)
        xt = self.path.corrupt(x0, t, noise)
        squares = (
            (self.denoise(xt, t, batch.conditions) - x0).square().flatten(1).sum(dim=1)
        )  # (B,)
        if draw is None:
            if self.weighting == "velocity":
                weight = 1 / t.clamp(min=SMALLEST_T).square()
            nelbo = torch.full_like(squares, math.nan)
            loss = (weight * squares).mean() / numbers
        else:
            deviation = SMALLEST_T / (1 - SMALLEST_T)
            spread = numbers / 2 * math.log(2 * math.pi * deviation**2)
            precision = torch.where(at_end, 1 / deviation**2, 2 * (1 - t) / t**3)
            nelbo = weight * precision * squares / 2 + spread
            loss = nelbo.mean() / numbers
        return LossOutput(loss.float(), nelbo.detach().float(), torch.full_like(t, numbers).long())

    def denoise(self, xt: Tensor, t: Tensor, conditions: Conditions | None = None) -> Tensor:
        """xhat of scaled images at times t Float[B]: Float32[B, C, H, W], scaled."""
        sigma = self.path.sigma(t) if self.time_conditioning else None
        return self.ask(xt, sigma, conditions)

    def _draw(
        self, num: int, generator: torch.Generator, device: torch.device, *, for_bound: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Times Float64[num], weights of the bound Float64[num], and which samples are of its last
        term, Bool[num]: a fifth of them, the others log-uniform in t, as errors grow like t^2."""
        u = draw_times("low_discrepancy", num, generator, device)
        none = torch.zeros(num, dtype=torch.bool, device=device)
        if not for_bound:
            order = torch.randperm(num, generator=generator, device=generator.device).to(device)
            return self._training_times(u[order]), torch.ones_like(u), none
        share, span = 0.2, -math.log(SMALLEST_T)
        at_end = u <= share
        v = ((u - share) / (1 - share)).clamp(min=0)
        t = torch.where(at_end, SMALLEST_T, SMALLEST_T * torch.exp(span * v))
        weight = torch.where(at_end, 1 / share, t * span / (1 - share))
        return t, weight, at_end

    def _training_times(self, u: Tensor) -> Tensor:
        if self.t_draw == "uniform":
            return u
        if self.t_draw == "quadratic":
            return u.square()
        inside = u.clamp(1e-6, 1 - 1e-6)
        return torch.sigmoid(0.8 + 0.8 * torch.special.ndtri(inside))
