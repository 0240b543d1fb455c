"""Algorithms on images given a condition: flow matching, and regression on the mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Literal

import torch
from einops import rearrange
from torch import Tensor, nn

from continuous_states.algorithms.gaussian import FieldScaling
from discrete_diffusion.algorithms import Algorithm, Dropout, sample_times
from discrete_diffusion.config import OneOf, check_name
from discrete_diffusion.contracts import Batch, Conditions, LossOutput

TIME_SAMPLINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "uniform": lambda u: u,
    "quadratic": torch.square,
    "logit_normal": lambda u: torch.sigmoid(
        0.8 + 0.8 * torch.special.ndtri(u.clamp(1e-6, 1 - 1e-6))
    ),
}
"""Training times as functions of u, uniform on (0, 1]."""
SMALLEST_T = 0.05
"""Smallest time t of the weights of the loss; the bound ends there with a Gaussian."""


class FlowMatching(Algorithm):
    """x-prediction on the straight path x_t = (1 - t) x0 + t eps, eps ~ N(0, I).

        loss = E_t E_eps  w(t) * mean over pixels of  (xhat(x_t, t, condition) - x0)^2,

    With w = 1 / max(t, 0.05)^2 this is the squared error of the velocity (x_t - xhat) / t whose
    denominator is at least 0.05 (arXiv 2210.02747; x-prediction as in arXiv 2511.13720). Images are
    scaled to mean 0 and deviation 1.

    ``weighting``: ``velocity``, w as above; ``image``, w = 1. Both have the same best xhat; with
    ``image`` errors at small t, where the noisy image is almost clean, do not outweigh other
    errors.
    ``time_sampling``: distribution of training times; ``uniform``, ``quadratic``: u^2,
    ``logit_normal``: sigmoid(N(0.8, 0.8^2)). In this package t = 1 is noise.
    ``condition_dropout``: see ``Algorithm``.

    The NELBO of scaled images, NaN unless a ``draw`` requests it, is that of the diffusion with the
    same marginals, ended at t = 0.05 by N(xhat, (t / (1 - t))^2 I) (arXiv 2107.00630, eq. 17):

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
        weighting: Literal["velocity", "image"] = "velocity",
        time_sampling: Annotated[str, OneOf(TIME_SAMPLINGS)] = "uniform",
        condition_dropout: Dropout = 0.0,
        time_conditioning: bool = True,
    ) -> None:
        super().__init__(
            backbone, time_conditioning=time_conditioning, condition_dropout=condition_dropout
        )
        self.scaling = FieldScaling(channels)
        self.weighting, self.time_sampling = weighting, time_sampling

    def prepare(self, train: Batch) -> None:
        super().prepare(train)
        self.scaling.fit(train.x0)

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        check_name("draw", draw or self.evaluation_draw, [self.evaluation_draw])
        x0 = self.scaling(batch.x0)  # (B, C, H, W)
        num, numbers, device = len(x0), x0[0].numel(), x0.device
        u = sample_times("low_discrepancy", num, generator, device)
        if draw is None:
            # training: times in random order, squared errors weighted
            order = torch.randperm(num, generator=generator, device=generator.device).to(device)
            t = TIME_SAMPLINGS[self.time_sampling](u[order])
            squares = self._squares(x0, t, batch.conditions, generator)
            weight = torch.ones_like(t)
            if self.weighting == "velocity":
                weight = 1 / t.clamp(min=SMALLEST_T).square()
            nelbo = torch.full_like(squares, math.nan)
            loss = (weight * squares).mean() / numbers
        else:
            # a fifth is of the last term, the others log-uniform in t, as errors grow like t^2
            share, span, deviation = 0.2, -math.log(SMALLEST_T), SMALLEST_T / (1 - SMALLEST_T)
            at_end = u <= share
            v = ((u - share) / (1 - share)).clamp(min=0)
            t = torch.where(at_end, SMALLEST_T, SMALLEST_T * torch.exp(span * v))
            squares = self._squares(x0, t, batch.conditions, generator)
            # 1 / density of t, times the factor of the squared error in the bound
            weight = torch.where(at_end, 1 / share, t * span / (1 - share))
            precision = torch.where(at_end, 1 / deviation**2, 2 * (1 - t) / t**3)
            spread = numbers / 2 * math.log(2 * math.pi * deviation**2)
            nelbo = weight * precision * squares / 2 + spread
            loss = nelbo.mean() / numbers
        return LossOutput(loss.float(), nelbo.detach().float(), torch.full_like(t, numbers).long())

    def _squares(
        self, x0: Tensor, t: Tensor, conditions: Conditions, generator: torch.Generator
    ) -> Tensor:
        """Squared errors |xhat(x_t) - x0|^2 of the images, Float32[B]."""
        noise = torch.randn(x0.shape, generator=generator, device=generator.device).to(x0)
        share = rearrange(t.to(x0), "b -> b 1 1 1")
        xhat = self.denoise((1 - share) * x0 + share * noise, t, conditions)
        return (xhat - x0).square().flatten(1).sum(dim=1)

    def denoise(self, xt: Tensor, t: Tensor, conditions: Conditions | None = None) -> Tensor:
        """Predict clean images xhat Float32[B, C, H, W] from noisy ones at times t Float[B]; both
        scaled. The backbone gets sigma = -log(1 - t), from which it reads t."""
        sigma = None
        if self.time_conditioning:
            sigma = -torch.log1p(-t.double().clamp(max=1 - 1e-4)).float()
        return self.apply_backbone(xt, sigma, conditions)


class Regression(Algorithm):
    """E[x0 | condition] by least squares, on images scaled to mean 0 and deviation 1.

        loss = mean over pixels of (xhat(condition) - x0)^2, xhat = backbone(0, condition)

    Its least value is the mean variance of a pixel given the condition.

    The NELBO is the exact -log likelihood of scaled images under the model N(xhat, I); the weights
    that minimise the loss minimise it, too:

        NELBO = |x0 - xhat|^2 / 2 + (C H W / 2) log(2 pi)

    ``time_conditioning``: if true, the backbone gets sigma = 0 instead of None.
    """

    name = "regression"
    state = "field"
    samplers = ("direct",)
    evaluation_draw = "exact"
    bound = "gaussian"

    def __init__(
        self, backbone: nn.Module, *, channels: int, time_conditioning: bool = False
    ) -> None:
        super().__init__(backbone, time_conditioning=time_conditioning)
        self.scaling = FieldScaling(channels)

    def prepare(self, train: Batch) -> None:
        super().prepare(train)
        self.scaling.fit(train.x0)

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        """Loss of a batch; uses no random numbers."""
        check_name("draw", draw or self.evaluation_draw, [self.evaluation_draw])
        x0 = self.scaling(batch.x0)  # (B, C, H, W)
        numbers = x0[0].numel()
        error = self.expected(tuple(x0.shape), batch.conditions) - x0
        squares = error.square().flatten(1).sum(dim=1)  # (B,)
        nelbo = squares.detach() / 2 + numbers / 2 * math.log(2 * math.pi)
        num_real = torch.full_like(squares, numbers, dtype=torch.long)
        return LossOutput(squares.mean() / numbers, nelbo, num_real)

    def expected(self, shape: tuple[int, ...], conditions: Conditions) -> Tensor:
        """Expected images xhat given the conditions: Float32 of ``shape`` (B, C, H, W), scaled."""
        nothing = self.scaling.scale.new_zeros(shape)
        sigma = nothing.new_zeros(shape[0]) if self.time_conditioning else None
        return self.apply_backbone(nothing, sigma, conditions)
