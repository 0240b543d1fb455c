"""``RowScaling``: features on one scale, as a network likes them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discrete_diffusion.naming import unknown_name

SCALINGS = ("zscore", "max", "none")


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
        rows = x0[real].double()  # (R, M)
        if rows.shape[1] != len(self.scale):
            raise ValueError(
                f"the data has {rows.shape[1]} features, the model {len(self.scale)}; "
                "set data.num_features=null to take it from the data"
            )
        if self.how == "none" or len(rows) == 0:
            return
        shift, scale = torch.zeros_like(rows[0]), rows.amax(dim=0)
        if self.how == "zscore":
            shift, scale = rows.mean(dim=0), rows.std(dim=0, correction=0)
            scale = torch.where(scale > 1e-9 * shift.abs(), scale, 0.0)
        self.shift.copy_(shift)
        self.scale.copy_(torch.where(scale > 0, scale, 1.0))

    def forward(self, x: Tensor) -> Tensor:
        """Raw values to scaled ones, Float32[B, N, M]."""
        return (x.float() - self.shift) / self.scale

    def inverse(self, x: Tensor) -> Tensor:
        """Scaled values to raw ones, Float32[B, N, M]."""
        return x.float() * self.scale + self.shift
