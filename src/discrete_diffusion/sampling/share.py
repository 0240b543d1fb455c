"""How many tokens a network call reveals, and the time it is told."""

from __future__ import annotations

from torch import Tensor

from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.options import check_whole_number

ROUNDING = 1e-9
"""Steps: 55 masked of 100 are step 55, though 0.55 * 100 is a little more than 55 in float64."""


def check_tokens_per_call(number: int) -> None:
    """``ValueError`` unless it is a whole number of at least 1."""
    check_whole_number("sampling.tokens_per_call", number, least=1)


def number_of_calls(tokens_per_call: int, steps: int | None, turn: Tensor) -> Tensor:
    """Int[B, 1]: how many calls fill ``turn`` Bool[B, L]: ``steps``, or as few as there can be with
    ``tokens_per_call``; never more than one per position.

    Call c = 0, 1, ... of C reveals those with floor(r C / n) = c, r the rank of a position in the
    order of the sampler: as evenly as can be. Raises ``ValueError`` for ``steps`` below 1.
    """
    num = turn.sum(dim=1, keepdim=True)
    if steps is None:
        return -(-num // tokens_per_call)
    if steps < 1:
        raise ValueError(f"steps={steps}: expected at least 1")
    return num.clamp(max=steps)


def time_of_masked_share(algorithm: Algorithm, masked: Tensor, among: Tensor) -> Tensor:
    """Float64[B]: the time at which as many positions are masked as really are.

    ``masked``: Bool[B, L]; ``among``: Bool[B, L], the positions that share a clock. A model of
    discrete steps is told the next later of its own times.
    """
    process = algorithm.process
    assert isinstance(process, Absorbing)
    share = (masked & among).sum(dim=1).double() / among.sum(dim=1).clamp(min=1)
    t = process.time_of_share(share, among)
    if algorithm.num_steps is None:
        return t
    return (t * algorithm.num_steps - ROUNDING).ceil() / algorithm.num_steps
