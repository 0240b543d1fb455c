"""Numbers on one scale, as networks and noise like them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from discrete_diffusion.config import check_name

Scaled = Literal["zscore", "max", "none"]
CHUNK = 16
"""Windows that are worked on in float64 at once; a split may fill much of the memory."""


class Scaling(nn.Module):
    """(x - shift) / scale, fitted to the training data and kept in the checkpoint."""

    shift: Tensor
    scale: Tensor

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(shape))
        self.register_buffer("scale", torch.ones(shape))

    def forward(self, x: Tensor) -> Tensor:
        """Raw values to scaled ones, Float32."""
        return (x.float() - self.shift) / self.scale

    def inverse(self, x: Tensor) -> Tensor:
        """Scaled values to raw ones, Float32."""
        return x.float() * self.scale + self.shift

    def _set(self, shift: Tensor, scale: Tensor) -> None:
        """Set mean and scale; a feature that does not vary keeps its scale."""
        self.shift.copy_(shift)
        self.scale.copy_(torch.where(scale > 0, scale, 1.0))


class FieldScaling(Scaling):
    """(x - mean) / deviation per channel, over all pixels of the training images. Images are
    Float[B, C, H, W]."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, 1, 1)

    def fit(self, x0: Tensor) -> None:
        """``x0`` Float[M, C, H, W]: the training images."""
        if len(x0):
            pixels, over = x0.double(), (0, 2, 3)
            self._set(pixels.mean(over, keepdim=True)[0], pixels.std(over, keepdim=True)[0])


class RowScaling(Scaling):
    """(x - shift) / scale per feature of rows Float[B, N, M].

    ``zscore``: shift the mean, scale the standard deviation. ``max``: divide by the largest value.
    ``none``: leave values as they are. A feature that is constant (``zscore``), or 0 (``max``),
    keeps its scale.
    """

    def __init__(self, how: str, num_features: int) -> None:
        super().__init__(num_features)
        check_name("algo.normalise", how, get_args(Scaled))
        self.how = how

    def fit(self, x0: Tensor, real: Tensor) -> None:
        """``x0`` Float[W, N, M], ``real`` Bool[W, N]: the rows of training.

        Raises ``ValueError`` for another number of features.
        """
        if x0.shape[-1] != len(self.scale):
            raise ValueError(
                f"the data has {x0.shape[-1]} features, the model {len(self.scale)}; "
                "set data.num_features=null to take it from the data"
            )
        num = int(real.sum())
        if self.how == "none" or num == 0:
            return
        shift = torch.zeros(x0.shape[-1], dtype=torch.float64, device=x0.device)
        scale = torch.zeros_like(shift)
        if self.how == "max":
            for rows in _real_rows(x0, real):
                scale = torch.maximum(scale, rows.amax(dim=0))
        else:
            for rows in _real_rows(x0, real):
                shift += rows.sum(dim=0)
            shift /= num
            for rows in _real_rows(x0, real):
                scale += (rows - shift).square().sum(dim=0)
            scale = (scale / num).sqrt()
            scale = torch.where(scale > 1e-9 * shift.abs(), scale, 0.0)
        self._set(shift, scale)


def _real_rows(x0: Tensor, real: Tensor) -> Iterator[Tensor]:
    """The real rows of ``CHUNK`` windows at a time, Float64[R, M]; R is at least 1."""
    for rows, there in zip(x0.split(CHUNK), real.split(CHUNK), strict=True):
        if there.any():
            yield rows[there].double()
