"""Regression on images: the network learns the mean of what a condition allows."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from continuous_states.algorithms.scaling import FieldScaling
from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.config import check_name
from discrete_diffusion.contracts import Batch, Conditions, LossOutput


class Regression(Algorithm):
    """E[x0 | condition] by least squares, on images scaled to mean 0 and deviation 1.

        loss = mean over pixels of (xhat(condition) - x0)^2, xhat = backbone(0, condition)

    Its least value is the mean variance of a pixel given the condition.

    The NELBO is the exact -log likelihood of the model N(xhat, I) of scaled images, and so a bound
    like any other; it is least for the same weights as the loss:

        NELBO = |x0 - xhat|^2 / 2 + (C H W / 2) log(2 pi)

    ``time_conditioning``: true hands the backbone sigma = 0 instead of None.
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

    def fit(self, train: Batch) -> None:
        super().fit(train)
        self.scaling.fit(train.x0)

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        """Loss of a batch; no random number is taken."""
        check_name("draw", draw or self.evaluation_draw, [self.evaluation_draw])
        x0 = self.scaling(batch.x0)  # (B, C, H, W)
        numbers = x0[0].numel()
        error = self.expected(tuple(x0.shape), batch.conditions) - x0
        squares = error.square().flatten(1).sum(dim=1)  # (B,)
        nelbo = squares.detach() / 2 + numbers / 2 * math.log(2 * math.pi)
        num_real = torch.full_like(squares, numbers, dtype=torch.long)
        return LossOutput(squares.mean() / numbers, nelbo, num_real)

    def expected(self, shape: tuple[int, ...], conditions: Conditions) -> Tensor:
        """xhat of scaled images: Float32 of ``shape`` (B, C, H, W), scaled."""
        nothing = self.scaling.scale.new_zeros(shape)
        sigma = nothing.new_zeros(shape[0]) if self.time_conditioning else None
        return self.apply_backbone(nothing, sigma, conditions)
