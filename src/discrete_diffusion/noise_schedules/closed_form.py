"""Schedules that all tokens share: log-linear, cosine, and those of a noise level sigma(t)."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor

from discrete_diffusion.noise_schedules.base import Schedule, precise_complement


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


class SigmaSchedule(Schedule):
    """exp(-sigma(t)), rescaled so that both ends are exact.

    With A(t) = exp(-sigma(t)), total = sigma(1) - sigma(0), rise = sigma(t) - sigma(0) and
    rest = sigma(1) - sigma(t):

        alpha     = (A(t) - A(1)) / (A(0) - A(1)) = expm1(rest) / expm1(total)
        1 - alpha = expm1(-rise) / expm1(-total)
        alpha'    = -sigma'(t) exp(rest) / expm1(total)

    Deviation: the textbook forms leave alpha(0) < 1 or alpha(1) > 0, which makes the prior term
    of an absorbing process infinite; the rescaling above removes both.

    Raises ``ValueError`` unless 0 <= sigma_min < sigma_max and sigma_max - sigma_min <= 80 (its
    exponential must fit float32).
    """

    def __init__(self, *, sigma_min: float, sigma_max: float) -> None:
        super().__init__()
        if not 0 <= sigma_min < sigma_max or sigma_max - sigma_min > 80:
            raise ValueError(
                f"noise.sigma_min={sigma_min}, noise.sigma_max={sigma_max}: expected "
                "0 <= sigma_min < sigma_max, at most 80 apart"
            )
        self.sigma_min, self.sigma_max = float(sigma_min), float(sigma_max)
        self.total = self.sigma_max - self.sigma_min

    @abstractmethod
    def rise(self, t: Tensor) -> Tensor:
        """sigma(t) - sigma(0)."""

    @abstractmethod
    def rest(self, t: Tensor) -> Tensor:
        """sigma(1) - sigma(t)."""

    @abstractmethod
    def dsigma(self, t: Tensor) -> Tensor:
        """d sigma / dt."""

    @abstractmethod
    def time_of_rise(self, rise: Tensor) -> Tensor:
        """The t at which sigma(t) - sigma(0) = rise."""

    def alpha(self, t: Tensor) -> Tensor:
        kept = torch.expm1(self.rest(t)) / math.expm1(self.total)
        return precise_complement(self.one_minus_alpha(t), kept)

    def one_minus_alpha(self, t: Tensor) -> Tensor:
        return torch.expm1(-self.rise(t)) / math.expm1(-self.total)

    def dalpha(self, t: Tensor) -> Tensor:
        return -self.dsigma(t) * torch.exp(self.rest(t)) / math.expm1(self.total)

    def inverse(self, u: Tensor) -> Tensor:
        return self.time_of_rise(-torch.log1p(u * math.expm1(-self.total))).clamp(0, 1)


class Linear(SigmaSchedule):
    """sigma(t) = sigma_min + t (sigma_max - sigma_min); after rescaling only the range counts."""

    def __init__(self, *, sigma_min: float = 0.0, sigma_max: float = 10.0) -> None:
        super().__init__(sigma_min=sigma_min, sigma_max=sigma_max)

    def rise(self, t: Tensor) -> Tensor:
        return self.total * t

    def rest(self, t: Tensor) -> Tensor:
        return self.total * (1 - t)

    def dsigma(self, t: Tensor) -> Tensor:
        return torch.full_like(t, self.total)

    def time_of_rise(self, rise: Tensor) -> Tensor:
        return rise / self.total


class Geometric(SigmaSchedule):
    """sigma(t) = sigma_min^(1-t) sigma_max^t (Lou et al., arXiv 2310.16834).

    Raises ``ValueError`` also for sigma_min = 0.
    """

    def __init__(self, *, sigma_min: float = 1e-3, sigma_max: float = 10.0) -> None:
        super().__init__(sigma_min=sigma_min, sigma_max=sigma_max)
        if sigma_min <= 0:
            raise ValueError("noise.sigma_min=0: noise=geometric needs more than 0; try 1e-3")
        self.log_ratio = math.log(self.sigma_max / self.sigma_min)

    def rise(self, t: Tensor) -> Tensor:
        return self.sigma_min * torch.expm1(t * self.log_ratio)

    def rest(self, t: Tensor) -> Tensor:
        return -self.sigma_max * torch.expm1((t - 1) * self.log_ratio)

    def dsigma(self, t: Tensor) -> Tensor:
        return self.sigma_min * self.log_ratio * torch.exp(t * self.log_ratio)

    def time_of_rise(self, rise: Tensor) -> Tensor:
        return torch.log1p(rise / self.sigma_min) / self.log_ratio
