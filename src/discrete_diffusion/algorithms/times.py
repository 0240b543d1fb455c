"""How the noise level of a training or evaluation example is drawn.

Every draw gives the same expectation; they differ in variance. When little is corrupted a bound's
integrand is rarely not 0, and then large: with t uniform its variance is infinite.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from discrete_diffusion.categorical import uniform_draws
from discrete_diffusion.forward_process import ForwardProcess
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.noise_schedules import SMALLEST_TIME

TIME_DRAWS = ("uniform", "antithetic", "low_discrepancy")
WEIGHTED_DRAWS = (*TIME_DRAWS, "importance")
_SMALLEST_SHARE = 1e-60
"""Where v^k is cut: no draw ever comes near, and no weight overflows."""

_POWERS: WeakKeyDictionary[ForwardProcess, float] = WeakKeyDictionary()


def draw_times(how: str, num: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """Float64[num] times, each uniform on (0, 1]; never 0.

    ``uniform``: independent. ``antithetic``: pairs t, 1 - t. ``low_discrepancy``: one shared
    offset, (u + i / num) mod 1 (Kingma et al., arXiv 2107.00630).
    """
    if how == "uniform":
        u = uniform_draws((num,), generator, device)
    elif how == "antithetic":
        half = uniform_draws(((num + 1) // 2,), generator, device)
        u = torch.cat([half, 1 - half])[:num]
    elif how == "low_discrepancy":
        offset = uniform_draws((1,), generator, device)
        u = (offset + torch.arange(num, dtype=torch.float64, device=device) / num) % 1
    else:
        raise ValueError(unknown_name("time draw", how, TIME_DRAWS))
    return (1 - u).clamp(SMALLEST_TIME, 1)


def draw_weighted_times(
    how: str, process: ForwardProcess, num: int, generator: torch.Generator, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Times in (0, 1) and their weights 1 / density, both Float64[num].

    ``importance`` is ``draw_important_times``; the others are those of ``draw_times``, weight 1.
    """
    if how == "importance":
        return draw_important_times(process, num, generator, device)
    if how not in TIME_DRAWS:
        raise ValueError(unknown_name("time draw", how, WEIGHTED_DRAWS))
    t = draw_times(how, num, generator, device).clamp(max=1 - SMALLEST_TIME)
    return t, torch.ones_like(t)


def draw_important_times(
    process: ForwardProcess, num: int, generator: torch.Generator, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Times at which the schedule has corrupted a share v^k, v of low discrepancy, and weights.

    A token is corrupted with probability ~ share^p as the share nears 0 (``vanishing_power``) and
    then costs ~ 1 / share, so a plain draw has infinite variance; with k = 2 / p it is finite.
    p is 1, and k = 2, for every fixed prior; p = gamma / 2 for a hybrid one. dt = k v^(k-1) dv /
    u'(t) for the share u, so the weight is k v^(k-1) / u'(t). A schedule per token has no common
    share: then it is t itself, and p the smallest of the tokens'.
    """
    v = draw_times("low_discrepancy", num, generator, device).clamp(max=1 - SMALLEST_TIME)
    k = 2 / vanishing_power(process, device)
    share, slope = v**k, k * v ** (k - 1)
    t = process.schedule.inverse(share)
    if t.ndim > 1:
        return share.clamp(min=_SMALLEST_SHARE), slope
    t = t.clamp(_SMALLEST_SHARE, 1 - SMALLEST_TIME)
    return t, slope / -process.schedule.dalpha(t)


def vanishing_power(process: ForwardProcess, device: torch.device) -> float:
    """p of 1 - alpha ~ share^p as the schedule's corrupted share nears 0, the smallest over tokens;
    measured to two decimals, once unless the schedule is learned, for it is read back."""
    if getattr(process.schedule, "learned", False):
        return _measured_power(process, device)
    if process not in _POWERS:
        _POWERS[process] = _measured_power(process, device)
    return _POWERS[process]


def _measured_power(process: ForwardProcess, device: torch.device) -> float:
    share = torch.tensor([1e-12, 1e-9], dtype=torch.float64, device=device)
    t = process.schedule.inverse(share)
    low, high = process.one_minus_alpha(share if t.ndim > 1 else t).log10()
    return max(round(float(((high - low) / 3).min()), 2), 0.01)
