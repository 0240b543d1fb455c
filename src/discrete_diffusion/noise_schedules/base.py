"""``Schedule``: how much of the data survives at time t."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from discrete_diffusion.config.signatures import Checked

SMALLEST_TIME = 2.0**-53
"""Smallest time sampled: above 0, where every weight is finite."""


def per_token(value: Tensor) -> Tensor:
    """A quantity per sample or per token, ready to broadcast against (B, L).

    Args:
        value: Float[B] or Float[B, L].

    Returns:
        Float[B, 1] or Float[B, L].
    """
    return value.unsqueeze(-1) if value.ndim == 1 else value


def precise_complement(corrupted: Tensor, kept: Tensor) -> Tensor:
    """alpha from both of its forms: 1 - corrupted while that loses nothing, ``kept`` beyond.

    Keeps alpha(0) = 1 exact, which the form without cancellation at t = 1 misses by a rounding.

    Args:
        corrupted: Float[B] or Float[B, L], 1 - alpha without cancellation near t = 0.
        kept: alpha without cancellation near t = 1, the same shape.

    Returns:
        alpha, the same shape.
    """
    return torch.where(corrupted < 0.5, 1 - corrupted, kept)


class Schedule(Checked, nn.Module, ABC):
    """The keep probability alpha(t): strictly decreasing, alpha(0) = 1 and alpha(1) = 0 exactly.

    With those end points the prior and reconstruction terms of every bound are exactly 0. A
    textbook form A(t) that misses either end is rescaled, (A(t) - A(1)) / (A(0) - A(1)).

    ``t`` is Float[B]; results are Float[B], or Float[B, L] for a schedule per group or token.
    Every quantity is computed without cancellation, so 1 - alpha keeps its relative precision
    near t = 0 and alpha near t = 1. The ratios that can blow up live here and nowhere else.
    """

    section = "noise"
    learned: ClassVar[bool] = False
    """True if it has parameters, whose gradient only some algorithms know."""

    def __init__(self) -> None:  # its signature says that there are no options
        super().__init__()

    @abstractmethod
    def alpha(self, t: Tensor) -> Tensor:
        """Keep probability alpha(t).

        Args:
            t: Float[B], times in [0, 1].

        Returns:
            Float[B] or Float[B, L].
        """

    @abstractmethod
    def one_minus_alpha(self, t: Tensor) -> Tensor:
        """Corrupted share 1 - alpha(t), not computed by subtraction.

        Args:
            t: Float[B], times in [0, 1].

        Returns:
            Float[B] or Float[B, L].
        """

    def log_one_minus_alpha(self, t: Tensor) -> Tensor:
        """log(1 - alpha(t)), where 1 - alpha itself may be too small for a float.

        Args:
            t: Float[B], times in (0, 1].

        Returns:
            Float[B] or Float[B, L].
        """
        return self.one_minus_alpha(t).log()

    @abstractmethod
    def dalpha(self, t: Tensor) -> Tensor:
        """Slope d alpha / dt <= 0.

        Args:
            t: Float[B], times in [0, 1].

        Returns:
            Float[B] or Float[B, L].
        """

    @abstractmethod
    def inverse(self, u: Tensor) -> Tensor:
        """The time t at which 1 - alpha(t) = u.

        Args:
            u: Float[B], corrupted shares in [0, 1]; Float[B, L] for a schedule per group.

        Returns:
            Times, the same shape.
        """

    def weight(self, t: Tensor) -> Tensor:
        """-alpha'(t) / (1 - alpha(t)), the rate of the absorbing bound.

        Args:
            t: Float[B], times in (0, 1].

        Returns:
            Float[B] or Float[B, L], finite.
        """
        return -self.dalpha(t) / self.one_minus_alpha(t)
