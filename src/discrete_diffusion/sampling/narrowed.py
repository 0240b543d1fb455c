"""``NarrowedTokens``: sampling of tokens one after the other under a ``Narrowing``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_diffusion.categorical import log_prob_at, neg_inf, pick, uniform_draws
from discrete_diffusion.sampling.partial_samples import Narrowing, PartialSamples


@dataclass(frozen=True)
class NarrowedTokens:
    """Sampling of tokens one after the other under a ``Narrowing``, with weights.

    ``adjusted``: the method ``TokenSampler.adjusted``.
    """

    samples: PartialSamples
    narrowing: Narrowing
    adjusted: Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]

    def sample(self, where: Tensor, log_d0: Tensor, u: Tensor) -> None:
        """Sample tokens at the N positions ``where`` Bool[B, L], from log D Float[N, V].

        ``u``: Float64[N], uniform random numbers for the first try at each position.
        """
        rows, position = where.nonzero(as_tuple=True)
        # turn of each position in its sample, from 1
        turn = where.cumsum(dim=1)
        if self.narrowing.shuffles and int(turn[:, -1].max()) > 1:
            keys = uniform_draws(tuple(where.shape), self.samples.generator, where.device)
            turn = keys.masked_fill(~where, 2.0).argsort(dim=1).argsort(dim=1) + 1
        turn = turn[where]
        # a token of each sample in every turn
        for k in range(1, int(turn.max()) + 1):
            now = turn == k
            self._sample_one_each(rows[now], position[now], log_d0[now], u[now])

    def _sample_one_each(self, rows: Tensor, position: Tensor, log_d0: Tensor, u: Tensor) -> None:
        """Sample a token at ``position`` Int[R] of ``rows`` Int[R], again while it is refused."""
        samples, narrowing = self.samples, self.narrowing
        legal = samples.legal_at(rows, position)
        support = legal & narrowing.support(samples.x[rows], position)
        # forced: what D gave first is excluded
        first = pick(self.adjusted(log_d0, legal)[0], u)
        counted = support.any(dim=-1) & ~support.gather(-1, first.unsqueeze(-1)).squeeze(-1)
        samples.num_forced[rows] += counted
        while len(rows):
            # dead ends have no id left: any legal one, at weight 0
            dead = ~support.any(dim=-1)
            log_d, log_kept = self.adjusted(log_d0, torch.where(dead.unsqueeze(-1), legal, support))
            tokens = pick(log_d, u)
            samples.x[rows, position] = tokens
            refused = narrowing.refuses(rows, samples.x[rows], position) & ~dead
            log_kept = log_kept.double().masked_fill(dead, -torch.inf)
            if narrowing.probes:
                log_kept += self._log_mass_kept(rows, position, log_d, ~refused & ~dead)
            samples.log_weights[rows[~refused]] += log_kept[~refused]
            samples.is_nan[rows, position] = log_prob_at(tokens, log_d).isnan()
            samples.num_forced[rows] += refused & ~counted
            # refused ids leave the support, and their samples try again
            counted = refused[refused]
            support = support[refused].scatter(-1, tokens[refused].unsqueeze(-1), False)
            rows, position, log_d0, legal = (a[refused] for a in (rows, position, log_d0, legal))
            u = uniform_draws(tuple(rows.shape), samples.generator, log_d0.device)

    def _log_mass_kept(
        self, rows: Tensor, position: Tensor, log_d: Tensor, asked: Tensor
    ) -> Tensor:
        """log of D(v) + (1 - D(v)) [y is not refused], Float64[R]; 0 unless ``asked`` Bool[R].

        D is Float[R, V], v the id at ``position`` Int[R] of ``rows`` Int[R], y another id sampled
        from D.
        """
        samples = self.samples
        log_kept = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
        # D without v
        sampled = samples.x[rows, position].unsqueeze(-1)
        others = log_d.double().exp().scatter(-1, sampled, 0.0)
        missing = others.sum(dim=-1)
        asked = asked & (missing > 1e-100)  # shares of less would underflow in float64
        if not asked.any():
            return log_kept
        rows, position, others = rows[asked], position[asked], others[asked]
        # would y have been refused?
        u = uniform_draws(tuple(rows.shape), samples.generator, others.device)
        x = samples.x[rows]
        x[torch.arange(len(x), device=x.device), position] = pick(others.log(), u)
        refused = self.narrowing.refuses(rows, x, position)
        lost = torch.where(refused, missing[asked], 0.0)
        log_kept[asked] = torch.log1p(-lost.clamp(max=1.0)).clamp(min=neg_inf(lost.dtype))
        return log_kept
