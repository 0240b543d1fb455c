"""What schedules with one exponent per position share."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from discrete_diffusion.noise_schedules.base import Schedule, per_token


class Powers(Schedule):
    """1 - alpha_l(t) = t^(w_l) with an exponent w_l > 0 per position; alpha is Float[B, L].

    A larger exponent keeps a position clean for longer going forward, so it is revealed *earlier*
    when sampling. The times T_l = u_l^(1/w_l) at which positions are revealed run a race: the
    -log T_l are exponential with rates w_l.
    """

    @abstractmethod
    def exponents(self) -> Tensor:
        """Float64[L]: w."""

    def _powers(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """t as (B, 1) or (B, L), and the exponents (L,) in its dtype."""
        return per_token(t), self.exponents().to(t)

    def alpha(self, t: Tensor) -> Tensor:
        t, w = self._powers(t)
        return -torch.expm1(w * torch.log(t))

    def one_minus_alpha(self, t: Tensor) -> Tensor:
        t, w = self._powers(t)
        return t**w

    def log_one_minus_alpha(self, t: Tensor) -> Tensor:
        t, w = self._powers(t)
        return w * torch.log(t)

    def dalpha(self, t: Tensor) -> Tensor:
        t, w = self._powers(t)
        return -w * t ** (w - 1)

    def inverse(self, u: Tensor) -> Tensor:
        u, w = self._powers(u)
        return u ** (1 / w)

    def weight(self, t: Tensor) -> Tensor:
        """w / t: the powers cancel before they can underflow."""
        t, w = self._powers(t)
        return w / t
