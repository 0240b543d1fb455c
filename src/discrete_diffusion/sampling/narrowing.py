"""``Narrowing``: what samples must satisfy, as a rule for one token after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class Narrowing(ABC):
    """Rule for the tokens that may still be sampled, given those that were: the hook of
    ``TokenSampler.sample``.

    Let p be the model and r the law of the samples. Drawn one by one in an order that does not read
    them, samples have ``log_weights`` log w, the log of the mass that D kept at every token, with

        p(x) = w(x) r(x)    for every x of which no token is excluded on the way:

    weighted, they are distributed as p given that, and the mean weight is its probability.

    The ids that ``refuses`` would have refused, had they been sampled, are not known. With
    ``probes`` it is called for one more id y ~ D of those that were not sampled, beside the one v
    that was: the mass kept is then D(v) + (1 - D(v)) [y is not refused], in the mean the right one
    whatever v is, and so is its product over the draws. Without, all that was not refused counts as
    kept, and w is too large.

    One object serves one call of ``sample``. Rows are those of its batch.
    """

    probes: bool = False
    shuffles: bool = False
    """True: the tokens of one call are sampled in a random order, else in that of positions."""
    narrows_order: bool = True
    """False: orders that read D, such as ``entropy``, read it as the network gives it. For rules
    that take too long for all positions at every call."""

    def start(self, x: Tensor) -> None:
        """``begin``, unless what is given makes it pointless: ``ValueError`` naming the sample."""
        for row, why in self.contradictions(x).items():
            raise ValueError(f"clamp, sample {row}: {why}")
        self.begin(x)

    def contradictions(self, x: Tensor) -> dict[int, str]:
        """By row, why no sample that has the tokens of x Int[B, L] can be what it must; with MASK
        and PAD."""
        return {}

    def begin(self, x: Tensor) -> None:
        """The samples Int[B, L] before the first token: MASK, PAD and clamped tokens."""

    @abstractmethod
    def support(self, x: Tensor, position: Tensor) -> Tensor:
        """Bool[R, V]: the ids that may be sampled at ``position`` Int[R] of the samples x Int[R,
        L], MASK where nothing is sampled yet. Where none is left, the token is sampled without
        narrowing and the sample has weight 0, log w = -inf."""

    def refuses(self, rows: Tensor, x: Tensor, position: Tensor) -> Tensor:
        """Bool[R]: for which of the samples ``rows`` Int[R] the new token at ``position`` Int[R] of
        x Int[R, L] is taken out of the support and another one sampled; for rules that ``support``
        would take too long to compute. A function of x: it may be called for tokens that do not
        stay."""
        return torch.zeros_like(rows, dtype=torch.bool)
