"""``Narrowing``: what samples must satisfy, said of one token after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class Narrowing(ABC):
    """Which tokens may still be drawn, given those that were: the hook of ``TokenSampler.sample``.

    Let p be the model and r the law of the samples. Drawn one by one in an order that does not read
    them, samples have ``log_weights`` log w, the log of the mass that D kept at every draw, with

        p(x) = w(x) r(x)    for every x of which no token is excluded on the way:

    weighted, they are distributed as p given that, and the mean weight is its probability.

    What ``refuses`` would have refused, had it been drawn, is not known. With ``probes`` it is
    asked about one more id y ~ D of those that were not drawn, beside the one v that was: the mass
    kept is then D(v) + (1 - D(v)) [y is not refused], in the mean the right one whatever v is, and
    so is its product over the draws. Without, all that was not refused counts as kept, and w is too
    large.

    One object serves one call of ``sample``. Rows are those of its batch.
    """

    probes: bool = False

    def begin(self, x: Tensor) -> None:
        """The samples Int[B, L] before the first draw: MASK, PAD and clamped tokens."""

    @abstractmethod
    def support(self, x: Tensor, position: Tensor) -> Tensor:
        """Bool[R, V]: the ids that may be drawn at ``position`` Int[R] of the samples x Int[R, L],
        MASK where nothing is drawn yet. Where none is left, the token is drawn without narrowing
        and the sample has weight 0."""

    def refuses(self, rows: Tensor, x: Tensor, position: Tensor) -> Tensor:
        """Bool[R]: for which of the samples ``rows`` Int[R] the new token at ``position`` Int[R] of
        x Int[R, L] is taken out of the support and another one drawn; for what ``support`` would
        take too long to say. A function of x: it may be asked of tokens that do not stay."""
        return torch.zeros_like(rows, dtype=torch.bool)
