"""``FixedDraw``: tokens of one call in shapes that no value on the device decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_diffusion.categorical import log_prob_at, pick
from discrete_diffusion.sampling.draft import Draft


@dataclass(frozen=True)
class FixedDraw:
    """Samples tokens of a draft by masks, so that nothing is read back from its device.

    ``shaped``: log D tempered, narrowed to a support and cut, and the log of the mass kept;
    ``uniform``: random numbers, of a draft and Bool[B, M]; as those of ``TokenSampler``.
    """

    draft: Draft
    shaped: Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]
    uniform: Callable[[Draft, Tensor], Tensor]

    def at(self, where: Tensor, log_d0: Tensor, counts: Tensor | None = None) -> None:
        """Sample at the positions ``where`` Bool[B, L], from log D Float[B, L, V].

        ``counts``: Int[B] on the host, how many they are in each row. With it the random numbers
        are those of samples drawn row by row, and the largest bounds what is computed.
        """
        draft = self.draft
        most = where.shape[1] if counts is None else int(counts.max()) if len(counts) else 0
        if most == 0:
            return
        position = where.byte().argsort(dim=1, descending=True, stable=True)[:, :most]  # (B, M)
        taken = where.gather(1, position)
        among = position.unsqueeze(-1).expand(-1, -1, log_d0.shape[-1])
        support = None
        if draft.support is not None:
            support = draft.algorithm.layout.support[position] & draft.support.gather(1, among)
        log_d0, log_kept = self.shaped(log_d0.gather(1, among), support)
        tokens = pick(log_d0, self.numbers(taken, counts))
        for kept, new in ((draft.x, tokens), (draft.probs, log_prob_at(tokens, log_d0).exp())):
            kept.scatter_(1, position, torch.where(taken, new, kept.gather(1, position)))
        draft.log_weights += log_kept.double().masked_fill(~taken, 0.0).sum(dim=1)

    def numbers(self, taken: Tensor, counts: Tensor | None) -> Tensor:
        """Float64[B, M] in [0, 1): a random number for each place that is ``taken``, Bool[B, M];
        with ``counts``, of each row, no number is drawn for another."""
        if counts is None:
            every = torch.ones(taken.shape, dtype=torch.bool)
            return self.uniform(self.draft, every).view(taken.shape)
        turn = torch.arange(taken.shape[1])
        u = self.uniform(self.draft, turn < counts.unsqueeze(1))  # row by row
        place = (taken.flatten().cumsum(dim=0) - 1).clamp(min=0)
        return u[place].view(taken.shape)
