"""A sum over positions of any function of their logits, where the vocabulary has many ids.

``many_ids`` has -log D of clean tokens; a bound that reads the whole of D has its sum here, by the
same head and chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from discrete_diffusion.algorithms import many_ids

TermsOf = Callable[[Tensor, slice, slice], Tensor]
"""Function of logits Float32[b, n, V] of some samples and positions: terms Float64[b, n]."""


def summed_terms(
    head: nn.Linear, states: Tensor, weight: Tensor, terms_of: TermsOf
) -> tuple[Tensor, Tensor]:
    """sum over samples and positions of weight * term, Float64[], and the terms, Float64[B, L].

    The gradient goes through the sum alone, to states and head; not to ``weight``. It is computed
    with the sum, a chunk of logits at a time, which are made once and kept never.

    ``states``: Float[B, L, D]. ``weight``: Float64[B, L or 1].
    """
    inputs = (states, head.weight, head.bias)
    wanted = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    weight = weight.detach().expand(states.shape[:2])
    found: tuple[Tensor, Tensor] = _Summed.apply(*inputs, _Work(weight, terms_of, wanted))
    return found


class _Work(NamedTuple):
    """``wanted``: whether a gradient is."""

    weight: Tensor
    terms_of: TermsOf
    wanted: bool


class _Summed(torch.autograd.Function):
    """The sum and its derivatives by states, weight and bias of the head, times that of the sum.

    Products are taken in the type of autocast, if it is on; the rest in float32 at least.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None, work: _Work
    ) -> tuple[Tensor, Tensor]:
        dtype = many_ids.product_type(weight)
        factor, offset = weight.to(dtype), None if bias is None else bias.to(dtype)
        terms = states.new_zeros(states.shape[:2], dtype=torch.float64)
        slopes = _Slopes.zeros(states, weight) if work.wanted else None
        for part in _chunks(states.shape, len(weight)):
            rows = states[part].to(dtype)
            logits = nn.functional.linear(rows, factor, offset).float()
            with torch.set_grad_enabled(work.wanted):
                logits.requires_grad_(work.wanted)
                found = work.terms_of(logits, *part)
            terms[part] = found.detach()
            if slopes is not None:
                (slope,) = torch.autograd.grad(found, logits, work.weight[part].to(found))
                slopes.add(part, slope, rows, factor)
        if slopes is not None:
            ctx.save_for_backward(*slopes)
            ctx.dtypes = [None if x is None else x.dtype for x in (states, weight, bias)]
        ctx.mark_non_differentiable(terms)
        return (work.weight * terms).sum(), terms

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        pairs = zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        return *(None if to is None else (grad.to(x) * x).to(to) for x, to in pairs), None


class _Slopes(NamedTuple):
    """Derivatives by the states, and, summed over rows, by weight and bias of the head."""

    states: Tensor
    weight: Tensor
    bias: Tensor

    @classmethod
    def zeros(cls, states: Tensor, weight: Tensor) -> _Slopes:
        wide = torch.promote_types(weight.dtype, torch.float32)
        by_weight = torch.zeros_like(weight, dtype=wide)
        return cls(
            torch.zeros_like(states, dtype=wide), by_weight, by_weight.new_zeros(len(weight))
        )

    def add(self, part: tuple[slice, slice], slope: Tensor, rows: Tensor, factor: Tensor) -> None:
        """Take in a chunk. ``slope``: Float[b, n, V], by its logits."""
        slope, rows = slope.flatten(0, 1), rows.flatten(0, 1)
        self.bias.add_(slope.sum(dim=0))
        slope = slope.to(factor)
        self.states[part] = (slope @ factor).view_as(self.states[part]).to(self.states)
        many_ids.add_product(self.weight, slope.t(), rows)


def _chunks(shape: torch.Size, vocab_size: int) -> Iterator[tuple[slice, slice]]:
    """Samples and positions of about ``AT_ONCE`` logits."""
    num, length = shape[:2]
    rows = max(1, many_ids.AT_ONCE // vocab_size)
    samples, positions = max(1, rows // max(length, 1)), min(rows, length)
    for first in range(0, num, samples):
        for begin in range(0, length, max(positions, 1)):
            end = min(begin + positions, length)
            yield slice(first, min(first + samples, num)), slice(begin, end)
