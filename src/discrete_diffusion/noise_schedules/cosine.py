"""The cosine schedule."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from discrete_diffusion.noise_schedules.base import Schedule, precise_complement


class Cosine(Schedule):
    """alpha(t) = 1 - cos(pi (1 - t) / 2) (MaskGIT, arXiv 2202.04200; MDLM, arXiv 2406.07524).

    alpha is evaluated as 2 sin^2(pi (1 - t) / 4) and 1 - alpha as sin(pi t / 2): the textbook
    subtraction is 0 in float32 near t = 1 and negative near t = 0.
    """

    def alpha(self, t: Tensor) -> Tensor:
        kept = 2 * torch.sin(math.pi / 4 * (1 - t)).square()
        return precise_complement(self.one_minus_alpha(t), kept)

    def one_minus_alpha(self, t: Tensor) -> Tensor:
        return torch.sin(math.pi / 2 * t)

    def dalpha(self, t: Tensor) -> Tensor:
        return -math.pi / 2 * torch.sin(math.pi / 2 * (1 - t))

    def inverse(self, u: Tensor) -> Tensor:
        return 2 / math.pi * torch.asin(u)
