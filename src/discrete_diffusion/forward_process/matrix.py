"""The process of general transition matrices: for ids with an order, or rates of one's own."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from discrete_diffusion.categorical import neg_inf
from discrete_diffusion.config.values import Positive
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.forward_process.exponential import Exponential
from discrete_diffusion.forward_process.generators import checked, on_legal_ids, slowest_rate
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.noise_schedules.base import Schedule, per_token

MOST_IDS = 256
"""Ids of a vocabulary: a matrix has their square."""
FORGOTTEN = 750.0
"""tau at which the slowest mode, e^-tau, is 0 in a float."""


class Matrix(ForwardProcess):
    """A continuous-time Markov chain on each position's legal ids, from its generator R:

        Q_{s,t} = expm( (tau(t) - tau(s)) R ),    tau(t) = -log alpha(t),    R_t = -alpha'/alpha R

    R is scaled so that its slowest mode decays as e^-tau: **alpha(t) is the share of the slowest
    mode that is left**, and all others are smaller. With alpha(0) = 1 and alpha(1) = 0 a token is
    clean at t = 0 and has the stationary law of R at t = 1, whatever it was: the prior and
    reconstruction terms of the bound are exactly 0, as for every process. ``sigma`` is -log alpha.

    ``kind``: what moves ids, in their order, among the legal ones of each position:

        neighbours   one up or one down, at equal rates
        gaussian     rate exp(-d^2 / (2 width^2)) to an id d away, the discretised Gaussian of D3PM
                     (arXiv 2107.03006)

    Both have a uniform stationary law. ``width``: of ``gaussian``, in ids.
    ``generator``: R itself in the place of these, Float[V, V] or one for each position,
    Float[L, V, V]; its rows sum to 0, and it stays among legal ids and MASK. Of transition
    probabilities Q of single jumps, R = Q - I.

    Entries of Q are kept as logarithms, to full relative accuracy (``Exponential``): far ids are
    unlikely beyond what a float holds when t is small, and the bound takes their ratios.

    Raises ``ValueError`` for an unknown kind, a width that is not positive, more than ``MOST_IDS``
    ids, and a generator that is none or has several stationary laws.
    """

    name = "matrix"
    generators: Tensor
    cell: Tensor
    first: Tensor
    pi: Tensor
    into: Tensor

    def __init__(
        self,
        layout: TokenLayout,
        schedule: Schedule,
        *,
        kind: Literal["neighbours", "gaussian"] = "neighbours",
        width: Positive = 1.0,
        generator: Tensor | None = None,
    ) -> None:
        if layout.vocab_size > MOST_IDS:
            raise ValueError(
                f"forward_process=matrix is for at most {MOST_IDS} ids, and the data has "
                f"{layout.vocab_size}; choose forward_process=uniform"
            )
        super().__init__(layout, schedule)
        if layout.support.is_meta:  # to count parameters, of which it has none
            return
        if generator is None:
            rows, kinds = layout.support.unique(dim=0, return_inverse=True)
            found = torch.stack([on_legal_ids(kind, row, float(width)) for row in rows])
        else:
            found, kinds = checked(generator, layout).unique(dim=0, return_inverse=True)
        cell, first = self._cells(kinds)
        scaled = []
        for position in first.tolist():
            own = found[kinds[position]]
            alphabet = layout.support[position] | (own > 0).any(dim=0)  # MASK too, if it occurs
            scaled.append(own / slowest_rate(own, alphabet))
        generators = torch.stack(scaled)
        self.exponential = Exponential(generators, largest=FORGOTTEN)
        forgotten = torch.full(generators.shape[:1], FORGOTTEN).to(generators).log()
        limit = self.exponential(forgotten.unsqueeze(0))[0].exp()  # (C, V, V)
        some_id = layout.support.long().argmax(dim=1)
        for key, value in {
            "generators": generators,
            "cell": cell,
            "first": first,
            "pi": limit[cell, some_id],
            "into": _sources(generators),
        }.items():
            self.register_buffer(key, value, persistent=False)

    def prior(self) -> Tensor:
        return self.pi

    def cells(self) -> Tensor:
        return self.cell

    def sources(self) -> Tensor:
        return self.into

    def transition(self, s: Tensor, t: Tensor) -> Tensor:
        return self.log_transition(s, t).exp()

    def log_transition(self, s: Tensor, t: Tensor) -> Tensor:
        tau_s, tau_t = self._log_tau(s), self._log_tau(t)  # logarithms
        passed = tau_t + torch.log1p(-(tau_s - tau_t).clamp(max=0).exp())  # log(tau_t - tau_s)
        passed = torch.where(tau_s > neg_inf(tau_s.dtype), passed, tau_t)
        on_host = passed.device.type == "cpu"  # elsewhere it would be read back
        if len(passed) > 1 and on_host and torch.equal(passed[1:], passed[:-1]):  # of a step
            return self.exponential(passed[:1]).expand(len(passed), -1, -1, -1)
        found: Tensor = self.exponential(passed)
        return found

    def rates(self, t: Tensor) -> Tensor:
        beta = -per_token(self.schedule.dalpha(t)) / self.alpha(t)
        return self._of_cells(beta)[..., None, None] * self.generators.clamp(min=0)

    def _log_tau(self, t: Tensor) -> Tensor:
        """log(-log alpha(t)), Float64[B, C], from whichever of alpha and 1 - alpha is the smaller;
        the finite log 0 at t = 0."""
        floor = neg_inf(torch.float64)
        share = self.one_minus_alpha(t).double()
        log_share = per_token(self.schedule.log_one_minus_alpha(t)).double().clamp(min=floor)
        small = share.clamp(max=0.5)
        ratio = torch.where(small > 1e-200, -torch.log1p(-small) / small.clamp(min=1e-200), 1.0)
        alpha = self.alpha(t).double().clamp(min=torch.finfo(torch.float64).tiny)
        log_tau = torch.where(share < 0.5, log_share + ratio.log(), (-alpha.log()).log())
        forgotten = torch.full_like(log_tau, FORGOTTEN).log()
        return self._of_cells(torch.where(self.alpha(t) > 0, log_tau, forgotten))

    def _of_cells(self, value: Tensor) -> Tensor:
        """Float[B, 1] or Float[B, L] as Float[B, C]."""
        if value.shape[1] == 1:
            return value.expand(-1, len(self.first))
        return value[:, self.first]

    def _cells(self, kinds: Tensor) -> tuple[Tensor, Tensor]:
        """Int[L], the cell of each position, and Int[C], the first position of each cell: those of
        a cell have one kind of generator, Int[L], and one schedule."""
        t = torch.linspace(0.0, 1.0, 34, dtype=torch.float64, device=kinds.device)[1:-1]
        with torch.no_grad():
            alpha = self.alpha(t).double().expand(-1, self.layout.length)
        same = torch.cat([kinds.double().unsqueeze(0), alpha])
        _, cell = same.unique(dim=1, return_inverse=True)
        num = int(cell.max()) + 1
        place = torch.arange(len(cell), device=cell.device)
        first = torch.full((num,), len(cell), device=cell.device).scatter_reduce(
            0, cell, place, "amin"
        )
        return cell, first


def _sources(generators: Tensor) -> Tensor:
    """Int[C, V, W]: the ids with a rate into each id, filled up with that id itself."""
    jumps = generators.transpose(-1, -2) > 0  # (C, into, from)
    width = max(int(jumps.sum(dim=-1).max()), 1)
    own = torch.arange(jumps.shape[-1], device=jumps.device)
    from_first = (~jumps).long().argsort(dim=-1, stable=True)[..., :width]
    there = jumps.gather(-1, from_first)
    return torch.where(there, from_first, own.unsqueeze(-1))
