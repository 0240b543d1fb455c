"""Noise schedules: alpha(t) shared by all tokens, and powers of t, which may differ by token."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from discrete_diffusion.config.values import Bounds, Positive, is_number
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.noise_schedules.base import Schedule, per_token


def precise_complement(corrupted: Tensor, kept: Tensor) -> Tensor:
    """Return alpha, 1 - ``corrupted`` where that is precise and ``kept`` elsewhere.

    alpha(0) = 1 is then exact; the formula that is precise at t = 1 misses it by a rounding.
    """
    return torch.where(corrupted < 0.5, 1 - corrupted, kept)


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
    """alpha(t) = exp(-sigma(t)), rescaled so that both ends are exact.

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
                f"schedule.sigma_min={sigma_min}, schedule.sigma_max={sigma_max}: expected "
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
        """t at which sigma(t) - sigma(0) = rise."""

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
            raise ValueError("schedule.sigma_min=0: schedule=geometric needs more than 0; try 1e-3")
        self.log_ratio = math.log(self.sigma_max / self.sigma_min)

    def rise(self, t: Tensor) -> Tensor:
        return self.sigma_min * torch.expm1(t * self.log_ratio)

    def rest(self, t: Tensor) -> Tensor:
        return -self.sigma_max * torch.expm1((t - 1) * self.log_ratio)

    def dsigma(self, t: Tensor) -> Tensor:
        return self.sigma_min * self.log_ratio * torch.exp(t * self.log_ratio)

    def time_of_rise(self, rise: Tensor) -> Tensor:
        return torch.log1p(rise / self.sigma_min) / self.log_ratio


class Powers(Schedule):
    """1 - alpha(t) = t^w for an exponent w > 0.

    A larger exponent keeps a position clean for longer going forward, so it is revealed *earlier*
    when sampling. With an exponent w_l per position the times T_l = u_l^(1/w_l) at which positions
    are revealed run a race: the -log T_l are exponential with rates w_l.
    """

    @abstractmethod
    def _powers(self, t: Tensor) -> tuple[Tensor, Tensor | float]:
        """Return t and w in shapes and types that fit each other."""

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


class Polynomial(Powers):
    """1 - alpha(t) = t^w, the same w for all tokens; w = 1 is log-linear (MD4, arXiv 2406.04329).

    Raises ``ValueError`` unless ``exponent`` is positive and finite.
    """

    def __init__(self, *, exponent: Positive = 2.0) -> None:
        super().__init__()
        self.exponent = float(exponent)

    def _powers(self, t: Tensor) -> tuple[Tensor, Tensor | float]:
        return t, self.exponent


class PowersPerToken(Powers):
    """1 - alpha_l(t) = t^(w_l) with an exponent per position; alpha is Float[B, L]."""

    @abstractmethod
    def exponents(self) -> Tensor:
        """Exponents w, Float64[L]."""

    def _powers(self, t: Tensor) -> tuple[Tensor, Tensor | float]:
        return per_token(t), self.exponents().to(t)


class PerGroup(PowersPerToken):
    """1 - alpha_l(t) = t^(w_g) for a position l of group g; alpha is Float[B, L].

    ``exponents`` maps group names of the layout to w > 0. A larger exponent keeps a group clean
    for longer going forward, so it is revealed *earlier* when sampling: with node 2 and edge 1,
    nodes tend to appear before their edges.

    Raises ``ValueError`` if the names are not exactly the layout's groups or a w is not positive.
    """

    exponent: Tensor

    def __init__(self, layout: TokenLayout, *, exponents: Mapping[str, float]) -> None:
        super().__init__()
        # one positive exponent for every group
        if set(exponents) != set(layout.group_names):
            wanted = ",".join(f"{name}:1" for name in layout.group_names)
            raise ValueError(
                f"schedule.exponents names the groups {', '.join(map(str, exponents)) or 'none'}, "
                f"but this data has {', '.join(layout.group_names)}: give each of them one "
                f"exponent, '~schedule.exponents' '+schedule.exponents={{{wanted}}}', or take "
                "another schedule, such as schedule=log_linear"
            )
        for name, w in exponents.items():
            if not is_number(w) or not 0 < w < float("inf"):
                raise ValueError(f"schedule.exponents.{name}={w}: expected a positive number")
        # w of each position, Float64[L]
        values = torch.tensor([exponents[name] for name in layout.group_names], dtype=torch.float64)
        group = layout.group.to(values.device)
        self.register_buffer("exponent", values[group], persistent=False)

    def exponents(self) -> Tensor:
        return self.exponent


class Learned(PowersPerToken):
    """1 - alpha_l(t) = t^(w_l) with learned w_l (MELD, arXiv 2505.16790).

    w depends on the position or its group alone, never on data, so a MASK carries no evidence and
    the absorbing bound holds for every w. Only the *order* in which positions are masked counts,
    a change of time common to all of them does not: the mean of log w over the positions is 0,

        log w_l = c_l - mean c,    c = b tanh(theta / b),    b = log(max_ratio) / 2

    and no two exponents differ by more than the factor ``max_ratio``. All w are 1 at first.

    ``exponent_per``: ``group`` has one theta per group of the layout, right where the positions of
    a group are exchangeable; ``token`` one per position. None: ``group`` if there are several
    groups, else ``token``.

    Deviation: the paper has a network give every atom and bond its rate; here the exponents are
    plain parameters.

    Raises ``ValueError`` for an unknown ``exponent_per``, a ratio not above 1, or a layout with a
    single group and ``exponent_per=group``, which leaves nothing to learn.
    """

    learned = True
    index: Tensor

    def __init__(
        self,
        layout: TokenLayout,
        *,
        exponent_per: Literal["group", "token"] | None = None,
        max_ratio: Annotated[float, Bounds(above=1)] = 16.0,
    ) -> None:
        super().__init__()
        # by default one exponent per group, if there are several
        num_groups = len(layout.group_names)
        exponent_per = exponent_per or ("group" if num_groups > 1 else "token")
        if exponent_per == "group" and num_groups < 2:
            raise ValueError(
                "schedule.exponent_per=group learns one exponent per group, but this layout has "
                f"one group ({layout.group_names[0]}); set schedule.exponent_per=token"
            )
        self.bound = math.log(max_ratio) / 2
        # the theta of each position
        device = layout.group.device
        index = (
            layout.group if exponent_per == "group" else torch.arange(layout.length, device=device)
        )
        self.register_buffer("index", index, persistent=False)
        size = num_groups if exponent_per == "group" else layout.length
        self.theta = nn.Parameter(torch.zeros(size, device=device))

    def exponents(self) -> Tensor:
        # c_l, then w_l with the mean of the logarithms taken out
        bounded = self.bound * torch.tanh(self.theta.double() / self.bound)
        per_position = bounded[self.index]
        return (per_position - per_position.mean()).exp()
