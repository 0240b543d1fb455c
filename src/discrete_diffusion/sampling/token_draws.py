"""Tokens of one call: in fixed shapes, or narrowed one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_diffusion.categorical import log_prob_at, neg_inf, pick, uniform_draws
from discrete_diffusion.sampling.draft import Draft
from discrete_diffusion.sampling.narrowing import Narrowing


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


_LEAST = 1e-100
"""A mass below which nothing is sampled: of the least float64 numbers no share can be taken."""


@dataclass(frozen=True)
class NarrowedDraw:
    """Samples tokens of a draft one after the other, with their weights.

    ``shaped``: log D tempered, narrowed to a support and cut, and the log of the mass kept, as
    ``TokenSampler.shaped``.
    """

    draft: Draft
    narrowing: Narrowing
    shaped: Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]

    def at(self, where: Tensor, log_d0: Tensor, u: Tensor) -> None:
        """Sample at N positions ``where`` Bool[B, L], from log D Float[N, V] there, with uniform
        numbers Float64[N] for the first tries."""
        rows, position = where.nonzero(as_tuple=True)
        turn = self._turns(where)
        for k in range(1, int(turn.max()) + 1):
            now = turn == k
            self._one_each(rows[now], position[now], log_d0[now], u[now])

    def _turns(self, where: Tensor) -> Tensor:
        """Int[N]: the turn of each position in its sample, from 1."""
        turn = where.cumsum(dim=1)
        if self.narrowing.shuffles and int(turn[:, -1].max()) > 1:
            u = uniform_draws(tuple(where.shape), self.draft.generator, where.device)
            turn = u.masked_fill(~where, 2.0).argsort(dim=1).argsort(dim=1) + 1
        return turn[where]

    def _one_each(self, rows: Tensor, position: Tensor, log_d0: Tensor, u: Tensor) -> None:
        """A token of each of the samples ``rows`` Int[R], at ``position`` Int[R], until none is
        refused."""
        draft, narrowing = self.draft, self.narrowing
        legal = draft.legal_at(rows, position)
        support = legal & narrowing.support(draft.x[rows], position)
        first = pick(self.shaped(log_d0, legal)[0], u)
        counted = support.any(dim=-1) & ~support.gather(-1, first.unsqueeze(-1)).squeeze(-1)
        draft.num_forced[rows] += counted
        while len(rows):
            dead = ~support.any(dim=-1)
            shaped, log_kept = self.shaped(log_d0, torch.where(dead.unsqueeze(-1), legal, support))
            tokens = pick(shaped, u)
            draft.x[rows, position] = tokens
            refused = narrowing.refuses(rows, draft.x[rows], position) & ~dead
            log_kept = log_kept.double().masked_fill(dead, -torch.inf)
            if narrowing.probes:
                log_kept += self._probed(rows, position, shaped, ~refused & ~dead)
            draft.log_weights[rows[~refused]] += log_kept[~refused]
            draft.probs[rows, position] = log_prob_at(tokens, shaped).exp()
            draft.num_forced[rows] += refused & ~counted
            counted = refused[refused]
            support = support[refused].scatter(-1, tokens[refused].unsqueeze(-1), False)
            rows, position, log_d0, legal = (a[refused] for a in (rows, position, log_d0, legal))
            u = uniform_draws(tuple(rows.shape), draft.generator, log_d0.device)

    def _probed(self, rows: Tensor, position: Tensor, log_probs: Tensor, asked: Tensor) -> Tensor:
        """Float64[R]: log of D(v) + (1 - D(v)) [y is not refused], 0 unless ``asked`` Bool[R].

        D is Float[R, V] and v the ids that stand at ``position`` Int[R] of ``rows`` Int[R].
        """
        draft = self.draft
        log_kept = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
        drawn = draft.x[rows, position].unsqueeze(-1)
        others = log_probs.double().exp().scatter(-1, drawn, 0.0)
        missing = others.sum(dim=-1)
        asked = asked & (missing > _LEAST)
        if not asked.any():
            return log_kept
        rows, position, others = rows[asked], position[asked], others[asked]
        u = uniform_draws(tuple(rows.shape), draft.generator, others.device)
        x = draft.x[rows]
        x[torch.arange(len(x), device=x.device), position] = pick(others.log(), u)
        refused = self.narrowing.refuses(rows, x, position)
        lost = torch.where(refused, missing[asked], 0.0)
        log_kept[asked] = torch.log1p(-lost.clamp(max=1.0)).clamp(min=neg_inf(lost.dtype))
        return log_kept
