"""How the tokens of a training or evaluation example are masked.

Every draw gives the same expectation; they differ in variance. For the absorbing bound the
weight of a plain draw grows like 1 / t, which makes its variance infinite (logarithmically);
``forced_mask`` is bounded by L max(-log D).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from einops import rearrange
from torch import Tensor

from discrete_diffusion.algorithms.times import TIME_DRAWS, draw_times
from discrete_diffusion.categorical import uniform_draws
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.noise_schedules import SMALLEST_TIME
from discrete_diffusion.types import Batch

MASK_DRAWS = (*TIME_DRAWS, "forced_mask")


@dataclass(frozen=True)
class Corruption:
    """A corrupted batch and the weight of each position in the bound.

    ``xt``: Int[B, L]. ``t``: Float64[B], or Float64[B, L] if every block has a time of its own.
    ``weight``: Float64[B, L], 0 where nothing is predicted; the expectation of
    ``sum_l weight_l * -log D_l(x0_l)`` is the NELBO of the sample.
    """

    xt: Tensor
    t: Tensor
    weight: Tensor


def draw_masks(
    how: str,
    process: Absorbing,
    batch: Batch,
    generator: torch.Generator,
    blocks: Tensor | None = None,
    num_blocks: int | None = None,
) -> Corruption:
    """Mask a batch for the absorbing bound in one of the ways of ``MASK_DRAWS``.

    ``blocks``: Int[L], the block of each position, 0 .. N-1. Each block then has a draw of its own,
    all of them at once; None is one block of everything. ``num_blocks``: N; None reads it back
    from the device.
    """
    if blocks is None:
        num_blocks = 1
    elif num_blocks is None:
        num_blocks = int(blocks.max()) + 1
    if how == "forced_mask":
        return _forced_mask(process, batch, generator, blocks, num_blocks)
    if how not in TIME_DRAWS:
        raise ValueError(unknown_name("mask draw", how, MASK_DRAWS))
    t = draw_times(how, len(batch) * num_blocks, generator, batch.x0.device)
    if blocks is not None:  # the blocks of a sample are neighbours: each is spread over the batch
        t = rearrange(t, "(b n) -> b n", n=num_blocks)[:, blocks]
    xt = process.corrupt(batch.x0, t, batch.real, generator)
    masked = (xt == process.layout.mask_id) & batch.real
    return Corruption(xt, t, masked * process.weight(t))


def _forced_mask(
    process: Absorbing,
    batch: Batch,
    generator: torch.Generator,
    blocks: Tensor | None,
    num_blocks: int,
) -> Corruption:
    """Mask exactly n tokens of a block, n uniform on 1..L, at a time that has such a state.

    Every position draws its own unmask time T_l; t is the n-th smallest of the block's L real ones
    and its positions with T_l <= t are masked. With w = -alpha' / (1 - alpha) at t, the estimator

        L * sum over masked of  w_l / (sum over masked of w)  * -log D_l(x0_l)

    is unbiased for any schedule, per group or shared (then w cancels and the weight is L / n).
    n is stratified over the batch, block by block: (u + i / B) mod 1, in a random order of the
    samples.
    """
    real, device = batch.real, batch.x0.device
    index = torch.zeros_like(batch.x0) if blocks is None else blocks.expand_as(batch.x0)  # (B, L)
    empty = torch.zeros(len(batch), num_blocks, dtype=torch.float64, device=device)
    size = empty.scatter_add(1, index, torch.ones_like(index).double()).long()  # (B, N)
    num_real = empty.scatter_add(1, index, real.double()).long()

    u = uniform_draws(tuple(real.shape), generator, device).clamp(min=SMALLEST_TIME)
    times = process.unmask_times(u).masked_fill(~real, 2.0)
    rank = _stratified_ranks(num_real, generator)
    first = size.cumsum(dim=1) - size  # where a block starts among times sorted by block
    t = _sorted_within(times, index).gather(1, (first + rank).clamp(max=real.shape[1] - 1))
    masked = (times <= t.gather(1, index)) & real
    t = t.clamp(max=1.0)  # a block without real positions has no time
    t = t.squeeze(1) if blocks is None else t.gather(1, index)
    weight = masked * process.weight(t)
    total = empty.scatter_add(1, index, weight).gather(1, index)
    weight = torch.where(masked, num_real.gather(1, index) * weight / total, 0.0)
    return Corruption(batch.x0.masked_fill(masked, process.layout.mask_id), t, weight)


def _sorted_within(values: Tensor, blocks: Tensor) -> Tensor:
    """values (B, L), all of block 0 first, then block 1, ..., each block's in ascending order."""
    values, order = values.sort(dim=1)
    return values.gather(1, blocks.gather(1, order).argsort(dim=1, stable=True))


def _stratified_ranks(num_real: Tensor, generator: torch.Generator) -> Tensor:
    """Int[B, N]: each uniform on 0..num_real-1 (0 if that is none), spread evenly over the batch.

    Every block has its own order of the samples, so the ranks of a sample are independent.
    """
    (num, num_blocks), device = num_real.shape, num_real.device
    first = torch.randperm(num, generator=generator, device=generator.device).to(device)
    others = uniform_draws((num, num_blocks - 1), generator, device).argsort(dim=0)
    order = torch.cat([rearrange(first, "b -> b 1"), others], dim=1)
    u = (uniform_draws((num_blocks,), generator, device) + order.double() / num) % 1
    return torch.minimum((u * num_real).long(), (num_real - 1).clamp(min=0))
