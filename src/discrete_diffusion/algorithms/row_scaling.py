"""``RowScaling``: features on one scale, as a network likes them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from discrete_diffusion.naming import unknown_name

SCALINGS = ("zscore", "max", "none")
CHUNK = 16
"""Windows that are worked on in float64 at once; a split may fill much of the memory."""


class RowScaling(nn.Module):
    """(x - shift) / scale per feature, fitted to the training rows and kept in the checkpoint.

    ``zscore``: shift the mean, scale the standard deviation. ``max``: divide by the largest value.
    ``none``: leave values as they are. A feature that is constant (``zscore``), or 0 (``max``),
    keeps its scale.
    """

    def __init__(self, how: str, num_features: int) -> None:
        super().__init__()
        if how not in SCALINGS:
            raise ValueError(unknown_name("algo.normalise", how, SCALINGS))
        self.how = how
        self.register_buffer("shift", torch.zeros(num_features))
        self.register_buffer("scale", torch.ones(num_features))
        self.shift: Tensor
        self.scale: Tensor

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
        if self.how == "max":
            scale = torch.zeros_like(shift)
            for rows in _real_rows(x0, real):
                scale = torch.maximum(scale, rows.amax(dim=0))
        else:
            for rows in _real_rows(x0, real):
                shift += rows.sum(dim=0)
            shift /= num
            squares = torch.zeros_like(shift)
            for rows in _real_rows(x0, real):
                squares += (rows - shift).square().sum(dim=0)
            scale = (squares / num).sqrt()
            scale = torch.where(scale > 1e-9 * shift.abs(), scale, 0.0)
        self.shift.copy_(shift)
        self.scale.copy_(torch.where(scale > 0, scale, 1.0))

    def forward(self, x: Tensor) -> Tensor:
        """Raw values to scaled ones, Float32[B, N, M]."""
        return (x.float() - self.shift) / self.scale

    def inverse(self, x: Tensor) -> Tensor:
        """Scaled values to raw ones, Float32[B, N, M]."""
        return x.float() * self.scale + self.shift


def _real_rows(x0: Tensor, real: Tensor) -> Iterator[Tensor]:
    """The real rows of ``CHUNK`` windows at a time, Float64[R, M]; R is at least 1."""
    for rows, there in zip(x0.split(CHUNK), real.split(CHUNK), strict=True):
        if there.any():
            yield rows[there].double()
