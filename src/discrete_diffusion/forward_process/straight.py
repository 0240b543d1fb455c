"""The straight path from data to Gaussian noise, on real numbers."""

from __future__ import annotations

import torch
from torch import Tensor


class StraightPath:
    """x_t = (1 - t) x0 + t eps with eps ~ N(0, I): t = 0 is data, t = 1 is noise.

    The velocity dx/dt = eps - x0 = (x_t - x0) / t runs along it (flow matching, arXiv 2210.02747;
    rectified flow, arXiv 2209.03003, whose time runs the other way). Its signal-to-noise ratio is
    (1 - t)^2 / t^2. Times are Float[B], numbers Float[B, C, H, W].
    """

    @staticmethod
    def per_image(t: Tensor, like: Tensor) -> Tensor:
        """Float[B] -> Float[B, 1, 1, 1], in the type of ``like``."""
        return t.to(like).reshape(-1, *(1,) * (like.ndim - 1))

    def corrupt(self, x0: Tensor, t: Tensor, noise: Tensor) -> Tensor:
        """x_t of x0 and standard normal ``noise``."""
        share = self.per_image(t, x0)
        return (1 - share) * x0 + share * noise

    @staticmethod
    def sigma(t: Tensor) -> Tensor:
        """-log(1 - t), Float32[B], t at most 1 - 1e-4: a backbone, which reads 1 - exp(-sigma), is
        told t."""
        return -torch.log1p(-t.double().clamp(max=1 - 1e-4)).float()
