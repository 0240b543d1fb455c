"""Number of network calls of a sample, and their times."""

from __future__ import annotations

import torch
from torch import Tensor

from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.forward_process.absorbing import Absorbing

_ROUNDING = 1e-9
"""Steps that a time may be late by its own rounding."""


def number_of_calls(tokens_per_call: int, steps: int | None, num: Tensor) -> Tensor:
    """Int[B, 1]: in how many calls ``num`` Int[B, 1] tokens are revealed: ``steps``, or as few as
    there can be with ``tokens_per_call``; never more than one per token.

    Call c = 0, 1, ... of C reveals those with floor(r C / num) = c, r the rank of a token in the
    order of the sampler: as evenly as can be.
    """
    return -(-num // tokens_per_call) if steps is None else num.clamp(max=steps)


def tokens_by_call(num: Tensor, calls: Tensor) -> Tensor:
    """Int[C, B]: how many of ``num`` Int[B, 1] tokens each of ``calls`` Int[B, 1] calls reveals, C
    the largest number of calls; 0 behind the last of a sample."""
    most = int(calls.max()) if calls.numel() else 0
    call = torch.arange(most + 1, device=num.device)
    first = -(-call * num // calls.clamp(min=1))  # (B, C + 1), the least rank of a call
    return first.diff(dim=1).masked_fill(call[:-1] >= calls, 0).T


def are_sampled_together(tokens_per_call: int, steps: int | None, num: int) -> bool:
    """True if a call of ``number_of_calls`` reveals several of ``num`` tokens."""
    return num > steps if steps is not None else min(num, tokens_per_call) > 1


def order_of_unmasking(times: Tensor, free: Tensor) -> Tensor:
    """Int[B, L]: the positions ``free`` Bool[B, L] by their unmask times Float64[B, L], latest
    first, then the others."""
    return times.masked_fill(~free, -1.0).argsort(dim=1, descending=True, stable=True)


def time_of_masked_share(algorithm: TokenAlgorithm, masked: Tensor, real: Tensor) -> Tensor:
    """Float64[B]: the time at which as many of the positions ``real`` Bool[B, L] are masked as now
    are, ``masked`` Bool[B, L]; for a model of discrete steps the next later of its own times."""
    process, num_steps = algorithm.process, algorithm.num_steps
    assert isinstance(process, Absorbing)
    t = process.time_of_masked(masked, real)
    if num_steps is None:
        return t
    return (t * num_steps - _ROUNDING).ceil().clamp(min=1) / num_steps
