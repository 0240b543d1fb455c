"""A chain applied to a prediction: sums over the clean id, in logarithms and in little memory.

``log_q`` is always the log of transition matrices, Float64[B, C, V, V], rows the earlier id and
columns the later one; ``cells`` Int[L] is the index, of the C, of that of a position.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from discrete_diffusion.categorical import neg_inf

AT_ONCE = 2**18
"""Numbers of a sum that are made at once, in float64."""


def log_rows(log_q: Tensor, cells: Tensor, ids: Tensor) -> Tensor:
    """log q(ids_l -> y) for every y: Float64[B, L, V], for ids Int[B, L]."""
    return log_q.expand(len(ids), -1, -1, -1)[_samples(ids), cells, ids]


def log_columns(log_q: Tensor, cells: Tensor, ids: Tensor) -> Tensor:
    """log q(x -> ids_l) for every x: Float64[B, L, V], for ids Int[B, L]."""
    return log_rows(log_q.transpose(-1, -2), cells, ids)


def log_entries(log_q: Tensor, cells: Tensor, ids: Tensor, into: Tensor) -> Tensor:
    """log q(ids_l -> into_lw): Float64[B, L, W], for ids Int[B, L] and into Int[B, L, W]."""
    log_q = log_q.expand(len(ids), -1, -1, -1)
    return log_q[_samples(ids).unsqueeze(-1), cells.unsqueeze(-1), ids.unsqueeze(-1), into]


def log_mixture(log_d0: Tensor, log_q: Tensor, cells: Tensor, into: Tensor | None = None) -> Tensor:
    """log sum_x D(x) q(x -> y), Float64[B, L, W] for the ids y of ``into`` Int[B, L, W]; for all V
    of them if None.

    ``log_d0``: Float[B, L, V], to which alone the gradient goes. Nothing underflows, and the terms
    of the sums, V of them for each y, are never held all at once.
    """
    num = max(len(log_d0), len(log_q))
    log_d0, log_q = log_d0.expand(num, -1, -1), log_q.expand(num, -1, -1, -1)
    found: Tensor = _Mixture.apply(log_d0, log_q, cells, into)
    return found


class _Mixture(torch.autograd.Function):
    """The derivative by log D(x) is the share of x in the sum."""

    @staticmethod
    def forward(
        ctx: Any, log_d0: Tensor, log_q: Tensor, cells: Tensor, into: Tensor | None
    ) -> Tensor:
        num, length, size = log_d0.shape
        width = size if into is None else into.shape[-1]
        out = log_q.new_empty(num, length, width)
        for part in _parts(num, length, width * size):
            out[part] = _joint(log_d0, log_q, cells, into, part).logsumexp(dim=-1)
        out.clamp_(min=neg_inf(out.dtype))
        ctx.save_for_backward(log_d0, log_q, cells, into, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        log_d0, log_q, cells, into, out = ctx.saved_tensors
        found = torch.empty_like(log_d0)
        grad = grad.masked_fill(out <= neg_inf(out.dtype) / 2, 0.0)
        num, length, width = out.shape
        for part in _parts(num, length, width * log_d0.shape[2]):
            share = (_joint(log_d0, log_q, cells, into, part) - out[part].unsqueeze(-1)).exp_()
            found[part] = (grad[part].unsqueeze(-2) @ share).squeeze(-2).to(found)
        return found, None, None, None


def _joint(
    log_d0: Tensor,
    log_q: Tensor,
    cells: Tensor,
    into: Tensor | None,
    part: tuple[slice, slice],
) -> Tensor:
    """log D(x) + log q(x -> y) of some samples and positions: Float64[b, l, W, V]."""
    samples, positions = part
    by_later = log_q[samples].transpose(-1, -2)
    if into is None:
        log_q = by_later[:, cells[positions]]
    else:
        ids = into[part]
        log_q = by_later[_samples(ids).unsqueeze(-1), cells[positions].unsqueeze(-1), ids]
    return log_d0[part].double().unsqueeze(-2) + log_q


def _parts(num: int, length: int, size: int) -> Iterator[tuple[slice, slice]]:
    """Slices of samples and of positions that hold about ``AT_ONCE`` numbers, ``size`` each."""
    samples = max(1, AT_ONCE // max(length * size, 1))
    positions = length if samples > 1 else max(1, AT_ONCE // max(size, 1))
    for first in range(0, num, samples):
        for begin in range(0, length, max(positions, 1)):
            yield slice(first, first + samples), slice(begin, begin + positions)


def _samples(ids: Tensor) -> Tensor:
    """Int[B, 1]: the sample that each of ids [B, ...] belongs to."""
    return torch.arange(len(ids), device=ids.device).unsqueeze(-1)
