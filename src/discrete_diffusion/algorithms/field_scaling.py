"""``FieldScaling``: images on the scale of the noise."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class FieldScaling(nn.Module):
    """(x - mean) / deviation per channel, over all pixels of the training images; kept in the
    checkpoint. A constant channel keeps its scale. Images are Float[B, C, H, W]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(channels, 1, 1))
        self.register_buffer("scale", torch.ones(channels, 1, 1))
        self.shift: Tensor
        self.scale: Tensor

    def fit(self, x0: Tensor) -> None:
        """``x0`` Float[M, C, H, W]: the training images."""
        if len(x0) == 0:
            return
        pixels = x0.double()
        mean, deviation = (f(dim=(0, 2, 3), keepdim=True)[0] for f in (pixels.mean, pixels.std))
        self.shift.copy_(mean)
        self.scale.copy_(torch.where(deviation > 0, deviation, 1.0))

    def forward(self, x: Tensor) -> Tensor:
        """Raw to scaled, Float32."""
        return (x.float() - self.shift) / self.scale

    def inverse(self, x: Tensor) -> Tensor:
        """Scaled to raw, Float32."""
        return x.float() * self.scale + self.shift
