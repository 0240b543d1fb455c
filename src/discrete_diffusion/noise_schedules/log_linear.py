"""The log-linear schedule, alpha(t) = 1 - t."""

from __future__ import annotations

import torch
from torch import Tensor

from discrete_diffusion.noise_schedules.base import Schedule


class LogLinear(Schedule):
    """alpha(t) = 1 - t: the corrupted share is the time (Sahoo et al., arXiv 2406.07524).

    Deviation: the paper's 1 - (1 - eps) t misses alpha(1) = 0; rescaled at both ends it is 1 - t.
    """

    def alpha(self, t: Tensor) -> Tensor:
        return 1 - t

    def one_minus_alpha(self, t: Tensor) -> Tensor:
        return t

    def dalpha(self, t: Tensor) -> Tensor:
        return -torch.ones_like(t)

    def inverse(self, u: Tensor) -> Tensor:
        return u
