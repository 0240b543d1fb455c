"""Which position to reveal first: scores, highest first.

Each takes D at N masked positions, log_d0 Float[N, V], the tokens Int[N] drawn of it (None unless
the score is one of ``READ_TOKENS``) and a generator, and returns Float[N].
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from discrete_diffusion.categorical import uniform_draws

Score = Callable[[Tensor, Tensor | None, torch.Generator], Tensor]


def drawn_log_prob(log_d0: Tensor, tokens: Tensor | None, generator: torch.Generator) -> Tensor:
    """log D of the token drawn."""
    assert tokens is not None
    return log_d0.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def margin(log_d0: Tensor, tokens: Tensor | None, generator: torch.Generator) -> Tensor:
    """The largest less the second largest probability of D."""
    first, second = log_d0.exp().topk(2, dim=-1).values.unbind(dim=-1)
    return first - second


def entropy_of(log_probs: Tensor) -> Tensor:
    """-sum_y p(y) log p(y), nats: Float[N, V] -> Float[N]."""
    return -(log_probs.exp() * log_probs).sum(dim=-1)


def certainty(log_d0: Tensor, tokens: Tensor | None, generator: torch.Generator) -> Tensor:
    """Minus the entropy of D, nats."""
    return -entropy_of(log_d0)


def at_random(log_d0: Tensor, tokens: Tensor | None, generator: torch.Generator) -> Tensor:
    """Every order equally likely."""
    return uniform_draws(tuple(log_d0.shape[:1]), generator, log_d0.device)


SCORES: dict[str, Score] = {
    "confidence": drawn_log_prob,
    "margin": margin,
    "entropy": certainty,
    "random": at_random,
}
READ_TOKENS = ("confidence",)
"""Scores that read the tokens drawn, not the distributions alone."""
