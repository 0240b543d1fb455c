"""The polynomial schedule, one exponent for all tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from discrete_diffusion.noise_schedules.base import Schedule


class Polynomial(Schedule):
    """1 - alpha(t) = t^w for an exponent w > 0; w = 1 is log-linear (MD4, arXiv 2406.04329).

    Raises ``ValueError`` unless ``exponent`` is positive and finite.
    """

    def __init__(self, *, exponent: float = 2.0) -> None:
        super().__init__()
        if not 0 < exponent < float("inf"):
            raise ValueError(f"exponent={exponent}: expected a positive number")
        self.exponent = float(exponent)

    def alpha(self, t: Tensor) -> Tensor:
        return -torch.expm1(self.exponent * torch.log(t))

    def one_minus_alpha(self, t: Tensor) -> Tensor:
        return t**self.exponent

    def log_one_minus_alpha(self, t: Tensor) -> Tensor:
        return self.exponent * torch.log(t)

    def dalpha(self, t: Tensor) -> Tensor:
        return -self.exponent * t ** (self.exponent - 1)

    def inverse(self, u: Tensor) -> Tensor:
        return u ** (1 / self.exponent)

    def weight(self, t: Tensor) -> Tensor:
        """w / t: the powers cancel before they can underflow."""
        return self.exponent / t
