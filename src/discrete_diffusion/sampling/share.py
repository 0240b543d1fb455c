"""How many tokens a network call reveals, and the time it is told."""

from __future__ import annotations

from torch import Tensor

from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.options import check_whole_number


def check_tokens_per_call(number: int) -> None:
    """``ValueError`` unless it is a whole number of at least 1."""
    check_whole_number("sampling.tokens_per_call", number, least=1)


def tokens_per_call(number: int, steps: int | None, turn: Tensor) -> Tensor:
    """Int[B, 1]: ``number``, or the fewest that fill ``turn`` Bool[B, L] in ``steps`` calls.

    Raises ``ValueError`` for ``steps`` below 1.
    """
    if steps is None:
        return turn.sum(dim=1, keepdim=True).fill_(number)
    if steps < 1:
        raise ValueError(f"steps={steps}: expected at least 1")
    return (-(-turn.sum(dim=1, keepdim=True) // steps)).clamp(min=1)


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
    return (t * algorithm.num_steps).ceil() / algorithm.num_steps
