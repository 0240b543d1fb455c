"""Sampling of times and masks, with the weights that make a loss an unbiased bound.

The ways of sampling (``draw``) have the same expectation and differ in variance. Near t = 0 little
is corrupted: the integrand of a bound is mostly 0, and otherwise large. With t uniform its variance
is infinite (the weight of the absorbing bound grows like 1 / t). ``importance`` makes it finite;
``uniform_count`` is bounded by L max(-log D).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args
from weakref import WeakKeyDictionary

import torch
from einops import rearrange
from torch import Tensor

from discrete_diffusion.categorical import send, uniform_draws
from discrete_diffusion.config.values import unknown_name
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.forward_process.interpolating import Absorbing
from discrete_diffusion.noise_schedules.base import SMALLEST_TIME

TimeDraw = Literal["uniform", "antithetic", "low_discrepancy"]
WeightedDraw = Literal["uniform", "antithetic", "low_discrepancy", "importance"]
MaskDraw = Literal["uniform", "antithetic", "low_discrepancy", "uniform_count"]
TIME_DRAWS, WEIGHTED_DRAWS, MASK_DRAWS = map(get_args, (TimeDraw, WeightedDraw, MaskDraw))
_SMALLEST_SHARE = 1e-60
"""Lower limit of v^k, far below any sample, so that no weight overflows."""

_POWERS: WeakKeyDictionary[ForwardProcess, float] = WeakKeyDictionary()


@dataclass(frozen=True)
class Corruption:
    """A corrupted batch and the weight of each position in the bound.

    ``xt``: Int[B, L]. ``t``: Float64[B], or Float64[B, L] if every block has its own time.
    ``weight``: Float64[B, L], 0 where nothing is predicted; the expectation of
    ``sum_l weight_l * -log D_l(x0_l)`` is the NELBO of the sample.
    """

    xt: Tensor
    t: Tensor
    weight: Tensor


def sample_masks(
    draw: str,
    process: Absorbing,
    batch: Batch,
    generator: torch.Generator,
    blocks: Tensor | None = None,
    num_blocks: int | None = None,
) -> Corruption:
    """Mask a batch for the absorbing bound by one of ``MASK_DRAWS``.

    ``uniform_count`` masks a uniform number of tokens (``_uniform_count``); the other draws sample
    t and mask each token with probability 1 - alpha(t).

    ``blocks``: Int[L], the block of each position, 0 .. N-1. All blocks are masked, each at its own
    time; None: all positions are one block. ``num_blocks``: N; None reads it back from the device.
    """
    if blocks is None or num_blocks is None:
        num_blocks = 1 if blocks is None else int(blocks.max()) + 1
    if draw == "uniform_count":
        return _uniform_count(process, batch, generator, blocks, num_blocks)
    if draw not in TIME_DRAWS:
        raise ValueError(unknown_name("mask draw", draw, MASK_DRAWS))
    t = sample_times(draw, len(batch) * num_blocks, generator, batch.x0.device)
    if blocks is not None:
        # neighbouring times are the blocks of a sample, so each block is spread over the batch
        t = rearrange(t, "(b n) -> b n", n=num_blocks)[:, blocks]  # (B, L)
    xt = process.corrupt(batch.x0, t, batch.real, generator)
    masked = (xt == process.layout.mask_id) & batch.real
    return Corruption(xt, t, masked * process.weight(t))


def _uniform_count(
    process: Absorbing,
    batch: Batch,
    generator: torch.Generator,
    blocks: Tensor | None,
    num_blocks: int,
) -> Corruption:
    """Mask exactly n tokens of a block, n uniform on 1..L, at the time t when n are masked.

    Every position has a random unmask time T_l; t is the n-th smallest among the block's L real
    ones, and its positions with T_l <= t are masked. With w = -alpha' / (1 - alpha) at t, the
    estimator

        L * sum over masked of  w_l / (sum over masked of w)  * -log D_l(x0_l)

    is unbiased for any schedule, per group or shared (then w cancels and the weight is L / n).
    n is stratified over the batch, block by block: (u + i / B) mod 1, in a random order of the
    samples.
    """
    real, device = batch.real, batch.x0.device
    # positions and real positions of each block, Int[B, N]
    block_of = torch.zeros_like(batch.x0) if blocks is None else blocks.expand_as(batch.x0)
    empty = torch.zeros(len(batch), num_blocks, dtype=torch.float64, device=device)
    size = empty.scatter_add(1, block_of, torch.ones_like(block_of).double()).long()
    num_real = empty.scatter_add(1, block_of, real.double()).long()

    # random unmask times T_l, Float64[B, L]; positions that are not real come last
    u = uniform_draws(tuple(real.shape), generator, device).clamp(min=SMALLEST_TIME)
    times = process.unmask_times(u).masked_fill(~real, 2.0)
    rank = _stratified_ranks(num_real, generator)  # n - 1, Int[B, N]

    # times block after block, ascending within each; t of a block is its n-th
    ascending, order = times.sort(dim=1)
    ascending = ascending.gather(1, block_of.gather(1, order).argsort(dim=1, stable=True))
    first = size.cumsum(dim=1) - size
    t = ascending.gather(1, (first + rank).clamp(max=real.shape[1] - 1))
    masked = (times <= t.gather(1, block_of)) & real
    t = t.clamp(max=1.0)  # a block without real positions has no time
    t = t.squeeze(1) if blocks is None else t.gather(1, block_of)

    # L w_l / (sum of w), the sum over the masked positions of the block
    weight = masked * process.weight(t)
    total = empty.scatter_add(1, block_of, weight).gather(1, block_of)
    weight = torch.where(masked, num_real.gather(1, block_of) * weight / total, 0.0)
    return Corruption(batch.x0.masked_fill(masked, process.layout.mask_id), t, weight)


def sample_blocks(
    real: Tensor, blocks: Tensor, num_blocks: int | None, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """One block of each sample, Int[B], uniform among its N blocks with real positions, and N,
    Int[B].

    N is 1 over the probability of the block. Blocks are spread evenly over the batch. Both are 0
    for a sample without real positions.

    ``real``: Bool[B, L]; ``blocks``, ``num_blocks``: see ``sample_masks``.
    """
    # blocks with real positions, Bool[B, N]; one of them by its rank
    num_blocks = int(blocks.max()) + 1 if num_blocks is None else num_blocks
    occupied = torch.zeros(len(real), num_blocks, dtype=torch.long, device=real.device)
    occupied = occupied.scatter_add(1, blocks.expand_as(real), real.long()) > 0
    num = occupied.sum(dim=1, keepdim=True)
    rank = _stratified_ranks(num, generator)
    chosen = occupied & (occupied.cumsum(dim=1) == rank + 1)
    return chosen.long().argmax(dim=1), num.squeeze(1)


def _stratified_ranks(num_real: Tensor, generator: torch.Generator) -> Tensor:
    """Int[B, N]: each uniform on 0..num_real-1 (0 if that is empty), spread evenly over the batch.

    Every block has its own order of the samples, so the ranks of a sample are independent.
    """
    (num, num_blocks), device = num_real.shape, num_real.device
    # the order of the samples in each block, Int[B, N]
    first = send(torch.randperm(num, generator=generator, device=generator.device), device)
    others = uniform_draws((num, num_blocks - 1), generator, device).argsort(dim=0)
    order = torch.cat([rearrange(first, "b -> b 1"), others], dim=1)
    u = (uniform_draws((num_blocks,), generator, device) + order.double() / num) % 1
    return torch.minimum((u * num_real).long(), (num_real - 1).clamp(min=0))


def sample_times(draw: str, num: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """Float64[num] times, each uniform on (0, 1]; never 0.

    ``uniform``: independent. ``antithetic``: pairs t, 1 - t. ``low_discrepancy``: one shared
    offset, (u + i / num) mod 1 (Kingma et al., arXiv 2107.00630).
    """
    if draw == "uniform":
        u = uniform_draws((num,), generator, device)
    elif draw == "antithetic":
        half = uniform_draws(((num + 1) // 2,), generator, device)
        u = torch.cat([half, 1 - half])[:num]
    elif draw == "low_discrepancy":
        offset = uniform_draws((1,), generator, device)
        u = (offset + torch.arange(num, dtype=torch.float64, device=device) / num) % 1
    else:
        raise ValueError(unknown_name("time draw", draw, TIME_DRAWS))
    return (1 - u).clamp(SMALLEST_TIME, 1)


def sample_weighted_times(
    draw: str, process: ForwardProcess, num: int, generator: torch.Generator, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Times in (0, 1) and their weights 1 / density, both Float64[num].

    Times of ``sample_times`` have weight 1. ``importance`` takes the times at which the schedule
    has corrupted a share v^k, v of low discrepancy. A token is corrupted with probability ~ share^p
    as the share nears 0 (``vanishing_power``) and then costs ~ 1 / share, so a plain estimate has
    infinite variance; with k = 2 / p it is finite. p is 1, and k = 2, for every fixed prior; p =
    gamma / 2 for a hybrid one. dt = k v^(k-1) dv / u'(t) for the share u, so the weight is
    k v^(k-1) / u'(t). A schedule per token has no common share: t takes its place, and p is the
    smallest over tokens.
    """
    if draw != "importance":
        if draw not in TIME_DRAWS:
            raise ValueError(unknown_name("time draw", draw, WEIGHTED_DRAWS))
        t = sample_times(draw, num, generator, device).clamp(max=1 - SMALLEST_TIME)
        return t, torch.ones_like(t)
    # u = v^k, and du / dv
    v = sample_times("low_discrepancy", num, generator, device).clamp(max=1 - SMALLEST_TIME)
    k = 2 / vanishing_power(process, device)
    share, slope = v**k, k * v ** (k - 1)
    t = process.schedule.inverse(share)
    if t.ndim > 1:
        return share.clamp(min=_SMALLEST_SHARE), slope
    t = t.clamp(_SMALLEST_SHARE, 1 - SMALLEST_TIME)
    return t, slope / -process.schedule.dalpha(t)


def vanishing_power(process: ForwardProcess, device: torch.device) -> float:
    """p of 1 - alpha ~ share^p as the schedule's corrupted share nears 0, the smallest over tokens.

    Measured to two decimals from two shares. The result is read back from the device, so it is
    remembered unless the schedule is learned.
    """
    learned = getattr(process.schedule, "learned", False)
    if not learned and process in _POWERS:
        return _POWERS[process]
    # slope of log(1 - alpha) over three decades
    share = torch.tensor([1e-12, 1e-9], dtype=torch.float64, device=device)
    t = process.schedule.inverse(share)
    low, high = process.one_minus_alpha(share if t.ndim > 1 else t).log10()
    power = max(round(float(((high - low) / 3).min()), 2), 0.01)
    if not learned:
        _POWERS[process] = power
    return power
