"""How the noise level of a training or evaluation example is drawn.

Every draw below gives the same expectation; they differ in variance. For the absorbing bound the
weight of a plain draw grows like 1 / t, which makes its variance infinite (logarithmically);
``forced_mask`` is bounded by L max(-log D).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_diffusion.categorical import uniform_draws
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.noise_schedules import SMALLEST_TIME
from discrete_diffusion.types import Batch

TIME_DRAWS = ("uniform", "antithetic", "low_discrepancy")
MASK_DRAWS = (*TIME_DRAWS, "forced_mask")


@dataclass(frozen=True)
class Corruption:
    """A corrupted batch and the weight of each position in the bound.

    ``xt``: Int[B, L]. ``t``: Float64[B]. ``weight``: Float64[B, L], 0 where nothing is predicted;
    the expectation of ``sum_l weight_l * -log D_l(x0_l)`` is the NELBO of the sample.
    """

    xt: Tensor
    t: Tensor
    weight: Tensor


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


def draw_masks(
    how: str, process: Absorbing, batch: Batch, generator: torch.Generator
) -> Corruption:
    """Mask a batch for the absorbing bound in one of the ways of ``MASK_DRAWS``."""
    if how == "forced_mask":
        return _forced_mask(process, batch, generator)
    if how not in TIME_DRAWS:
        raise ValueError(unknown_name("mask draw", how, MASK_DRAWS))
    t = draw_times(how, len(batch), generator, batch.x0.device)
    xt = process.corrupt(batch.x0, t, batch.real, generator)
    masked = (xt == process.layout.mask_id) & batch.real
    return Corruption(xt, t, masked * process.weight(t))


def _forced_mask(process: Absorbing, batch: Batch, generator: torch.Generator) -> Corruption:
    """Mask exactly n tokens, n uniform on 1..L, at a time that has such a state.

    Every position draws its own unmask time T_l; t is the n-th smallest of them and the positions
    with T_l <= t are masked. With w = -alpha' / (1 - alpha) at t, the estimator

        L * sum over masked of  w_l / (sum over masked of w)  * -log D_l(x0_l)

    is unbiased for any schedule, per group or shared (then w cancels and the weight is L / n).
    n is stratified over the batch: (u + i / B) mod 1, in a random order of the samples.
    """
    real, device = batch.real, batch.x0.device
    num_real = real.sum(dim=1)
    u = uniform_draws(tuple(real.shape), generator, device).clamp(min=SMALLEST_TIME)
    times = process.unmask_times(u).masked_fill(~real, 2.0)
    rank = _stratified_ranks(num_real, generator)
    t = times.sort(dim=1).values.gather(1, rank.unsqueeze(1))
    masked = (times <= t) & real
    t = t.squeeze(1)
    weight = masked * process.weight(t)
    weight = num_real.unsqueeze(1) * weight / weight.sum(dim=1, keepdim=True)
    return Corruption(batch.x0.masked_fill(masked, process.layout.mask_id), t, weight)


def _stratified_ranks(num_real: Tensor, generator: torch.Generator) -> Tensor:
    """Int[B]: each uniform on 0..num_real-1, spread evenly over the batch."""
    num, device = num_real.shape[0], num_real.device
    order = torch.randperm(num, generator=generator, device=generator.device).to(device)
    u = (uniform_draws((1,), generator, device) + order.double() / num) % 1
    return (u * num_real).long().clamp(max=num_real - 1)
