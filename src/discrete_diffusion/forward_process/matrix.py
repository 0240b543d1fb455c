"""Noise with general transition matrices: for ordered ids, or with a user's transition rates."""

from __future__ import annotations

import math
from typing import Literal

import torch
from scipy.sparse.csgraph import shortest_path
from torch import Tensor, nn

from discrete_diffusion.categorical import neg_inf
from discrete_diffusion.config.values import Positive
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.noise_schedules.base import Schedule, per_token

NUM_TERMS = 25
"""Terms of a series in h <= 1; the terms left out are below 1e-25 of the sum."""
MOST_IDS = 256
"""Largest vocabulary: a matrix has the square of its size."""
FORGOTTEN = 750.0
"""tau at which the slowest mode, e^-tau, is 0 in a float."""


class Matrix(ForwardProcess):
    """A continuous-time Markov chain on each position's legal ids, from its generator R:

        Q_{s,t} = expm( (tau(t) - tau(s)) R ),    tau(t) = -log alpha(t),    R_t = -alpha'/alpha R

    R is scaled so that its slowest mode decays as e^-tau: **alpha(t) is the share of the slowest
    mode that is left**, and all others are smaller. With alpha(0) = 1 and alpha(1) = 0 a token is
    clean at t = 0 and has the stationary distribution of R at t = 1, for every clean token: the
    prior and reconstruction terms of the bound are exactly 0, as for every process. ``sigma`` is
    -log alpha.

    ``kind``: jumps among the legal ids of each position, in their order:

        neighbours   one up or one down, at equal rates
        gaussian     rate exp(-d^2 / (2 width^2)) to an id d away, the discretised Gaussian of D3PM
                     (arXiv 2107.03006)

    Both have a uniform stationary distribution. ``width``: width of ``gaussian``, in ids.
    ``generator``: R itself instead of a kind, Float[V, V] or, for each position, Float[L, V, V];
    its rows sum to 0, and from legal ids it leads to legal ids or MASK only. If Q holds transition
    probabilities of single jumps, R = Q - I.

    Entries of Q are kept as logarithms, to full relative accuracy (``Exponential``): for small t,
    probabilities of far ids are too small for a float, and the bound takes their ratios.

    Raises ``ValueError`` for an unknown kind, a width that is not positive, more than ``MOST_IDS``
    ids, and a generator with wrong rows or rates (``checked_generator``) or several stationary
    distributions.
    """

    name = "matrix"
    generators: Tensor
    index: Tensor
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
        if layout.support.is_meta:  # built to count parameters, of which it has none
            return
        # distinct generators, and the kind of each position
        if generator is None:
            rows, kinds = layout.support.unique(dim=0, return_inverse=True)
            size = layout.vocab_size
            distinct = torch.zeros(len(rows), size, size, dtype=torch.float64, device=rows.device)
            # rates among the legal ids, in their order; other ids have rate 0
            for whole, row in zip(distinct, rows, strict=True):
                ids = row.nonzero().squeeze(1)
                near = kind == "neighbours"
                among = neighbours(len(ids)) if near else gaussian(len(ids), float(width))
                whole[ids.unsqueeze(1), ids] = among.to(whole)
        else:
            own_rates = checked_generator(generator, layout)
            distinct, kinds = own_rates.unique(dim=0, return_inverse=True)
        # one matrix per kind and schedule, scaled so that its slowest mode has rate 1
        index, first = self._matrices(kinds)
        scaled = []
        for position in first.tolist():
            own = distinct[kinds[position]]
            alphabet = layout.support[position] | (own > 0).any(dim=0)  # MASK too, if it occurs
            scaled.append(own / slowest_rate(own, alphabet))
        generators = torch.stack(scaled)  # (C, V, V)
        self.exponential = Exponential(generators, largest=FORGOTTEN)
        # the prior: a row of the chain after everything is forgotten
        forgotten = torch.full(generators.shape[:1], FORGOTTEN).to(generators).log()
        limit = self.exponential(forgotten.unsqueeze(0))[0].exp()  # (C, V, V)
        some_id = layout.support.long().argmax(dim=1)
        for key, value in {
            "generators": generators,
            "index": index,
            "first": first,
            "pi": limit[index, some_id],
            "into": _jump_sources(generators),
        }.items():
            self.register_buffer(key, value, persistent=False)

    def prior(self) -> Tensor:
        return self.pi

    def matrix_index(self) -> Tensor:
        return self.index

    def sources(self) -> Tensor:
        return self.into

    def transition(self, s: Tensor, t: Tensor) -> Tensor:
        return self.log_transition(s, t).exp()

    def log_transition(self, s: Tensor, t: Tensor) -> Tensor:
        # log(tau_t - tau_s), Float64[B, C]
        log_s, log_t = self._log_tau(s), self._log_tau(t)
        passed = log_t + torch.log1p(-(log_s - log_t).clamp(max=0).exp())
        passed = torch.where(log_s > neg_inf(log_s.dtype), passed, log_t)
        # samples that share their times share their matrices; a GPU would have to be waited for
        on_host = passed.device.type == "cpu"
        if len(passed) > 1 and on_host and torch.equal(passed[1:], passed[:-1]):
            return self.exponential(passed[:1]).expand(len(passed), -1, -1, -1)
        log_q: Tensor = self.exponential(passed)
        return log_q

    def rates(self, t: Tensor) -> Tensor:
        beta = -per_token(self.schedule.dalpha(t)) / self.alpha(t)
        return self._matrix_values(beta)[..., None, None] * self.generators.clamp(min=0)

    def _log_tau(self, t: Tensor) -> Tensor:
        """log(-log alpha(t)), Float64[B, C], from the smaller of alpha and 1 - alpha."""
        floor = neg_inf(torch.float64)
        share = self.one_minus_alpha(t).double()
        # near t = 0: -log(1 - share) = share * ratio, the ratio near 1
        log_share = per_token(self.schedule.log_one_minus_alpha(t)).double().clamp(min=floor)
        small = share.clamp(max=0.5)
        ratio = torch.where(small > 1e-200, -torch.log1p(-small) / small.clamp(min=1e-200), 1.0)
        # near t = 1: from alpha itself
        alpha = self.alpha(t).double().clamp(min=torch.finfo(torch.float64).tiny)
        log_tau = torch.where(share < 0.5, log_share + ratio.log(), (-alpha.log()).log())
        forgotten = torch.full_like(log_tau, FORGOTTEN).log()
        return self._matrix_values(torch.where(self.alpha(t) > 0, log_tau, forgotten))

    def _matrix_values(self, value: Tensor) -> Tensor:
        """Values Float[B, 1] or Float[B, L] for each matrix, Float[B, C]."""
        if value.shape[1] == 1:
            return value.expand(-1, len(self.first))
        return value[:, self.first]

    def _matrices(self, kinds: Tensor) -> tuple[Tensor, Tensor]:
        """Index of the matrix of each position, Int[L], and first position of each matrix, Int[C].

        Positions of the same kind of generator, ``kinds`` Int[L], and schedule share a matrix.
        """
        t = torch.linspace(0.0, 1.0, 34, dtype=torch.float64, device=kinds.device)[1:-1]
        with torch.no_grad():
            alpha = self.alpha(t).double().expand(-1, self.layout.length)
        same = torch.cat([kinds.double().unsqueeze(0), alpha])
        _, index = same.unique(dim=1, return_inverse=True)
        place = torch.arange(len(index), device=index.device)
        first = torch.full((int(index.max()) + 1,), len(index), device=index.device)
        return index, first.scatter_reduce(0, index, place, "amin")


class Exponential(nn.Module):
    """Logarithm of expm(tau R) for C generators R, Float64[C, V, V], whose rows sum to 0.

    With P = I + R / speed, where speed is the largest rate of leaving an id, and h = tau speed,

        expm(tau R)(x, y) = sum_n e^-h h^n / n!  P^n(x, y)
                          = h^d sum_k e^-h h^k / k! [ k! / (d + k)!  P^(d+k)(x, y) ]

    (uniformisation), where d(x, y) is the least number of jumps from x to y. No term is negative,
    so nothing cancels, and the factor h^d is kept apart, so nothing underflows: an entry of 1e-300
    is accurate to all digits, whereas an eigendecomposition has absolute errors of 1e-16. For
    h > 1, tau is halved until h <= 1, and the result squared as often, with rows normalised.

    ``largest``: a tau at which expm(tau R) has reached its limit; larger values are replaced by it.
    """

    terms: Tensor
    jumps: Tensor
    log_speed: Tensor

    def __init__(self, generators: Tensor, *, largest: float) -> None:
        super().__init__()
        num, size, _ = generators.shape
        # P, Float64[C, V, V], and the least numbers of jumps d, Int[C, V, V]
        speed = -generators.diagonal(dim1=1, dim2=2).amin(dim=1)
        speed = torch.where(speed > 0, speed, 1.0)
        same = torch.eye(size, dtype=torch.float64, device=generators.device)
        step = (same + generators / speed[:, None, None]).clamp(min=0)
        paths = [shortest_path(one.numpy(), unweighted=True) for one in (step > 0).cpu()]
        jumps = torch.stack([*map(torch.from_numpy, paths)]).to(step)  # inf if no jumps lead there
        jumps = jumps.nan_to_num(posinf=-1).long()
        # the brackets of the series, Float64[C, K, V, V]: term k = n - d of each entry
        terms = torch.zeros(num, NUM_TERMS, size, size, dtype=torch.float64, device=step.device)
        power = same.expand_as(step)
        reachable = jumps >= 0
        for n in range(int(jumps.max()) + NUM_TERMS):
            k = n - jumps
            here = reachable & (k >= 0) & (k < NUM_TERMS)
            factor = (torch.lgamma(k.double() + 1) - math.lgamma(n + 1)).exp()
            value = torch.where(here, factor * power, 0.0).unsqueeze(1)
            terms.scatter_add_(1, k.clamp(0, NUM_TERMS - 1).unsqueeze(1), value)
            power = power @ step
        self.log_largest = math.log(largest)
        log_h = self.log_largest + math.log(float(speed.max()))
        self.most_halvings = max(math.ceil(log_h / math.log(2)), 0)
        self.register_buffer("terms", terms.flatten(2), persistent=False)
        self.register_buffer("jumps", jumps, persistent=False)
        self.register_buffer("log_speed", speed.log(), persistent=False)

    def forward(self, log_tau: Tensor) -> Tensor:
        """log expm(tau R), Float64[B, C, V, V], for log tau Float64[B, C] (-inf for tau = 0)."""
        floor, tiny = neg_inf(torch.float64), torch.finfo(torch.float64).tiny
        # halve h until it is at most 1
        log_h = log_tau.clamp(floor, self.log_largest) + self.log_speed  # (B, C)
        halvings = (log_h / math.log(2)).ceil().clamp(min=0)
        log_h = log_h - halvings * math.log(2)
        # sum the series, weights e^-h h^k / k!
        k = torch.arange(NUM_TERMS, dtype=torch.float64, device=log_h.device)
        h = log_h.unsqueeze(-1)
        weight = (k * h - torch.lgamma(k + 1) - h.exp()).exp()  # (B, C, K)
        total = torch.einsum("bck,ckv->bcv", weight, self.terms).unflatten(-1, self.jumps.shape[1:])
        log_q = total.clamp(min=tiny).log() + self.jumps * h.unsqueeze(-1)
        log_q = torch.where(self.jumps < 0, floor, log_q).clamp(min=floor)
        # square as often as h was halved
        num_squares = self._num_squares(halvings)
        if num_squares == 0:
            return log_q
        q = log_q.exp()
        for done in range(num_squares):
            squared = q @ q
            squared = squared / squared.sum(dim=-1, keepdim=True)
            q = torch.where((done < halvings)[..., None, None], squared, q)
        by_squares = torch.where(q > 0, q.clamp(min=tiny).log(), floor)
        return torch.where((halvings > 0)[..., None, None], by_squares, log_q)

    def _num_squares(self, halvings: Tensor) -> int:
        """Largest of ``halvings`` Float64[B, C]; on a GPU a bound for all tau, without waiting."""
        if halvings.device.type != "cpu":
            return self.most_halvings
        return int(halvings.max()) if halvings.numel() else 0


def neighbours(num: int) -> Tensor:
    """Float64[K, K]: rate 1 to the id above and to the id below, a birth-death chain."""
    return _with_diagonal((_distances(num) == 1).double())


def gaussian(num: int, width: float) -> Tensor:
    """Float64[K, K]: rates from x to y in proportion to exp(-(x - y)^2 / (2 width^2)) for K ordered
    ids, 1 between neighbours.

    The discretised Gaussian of D3PM (arXiv 2107.03006, appendix A.2.2), symmetric and with uniform
    stationary distribution as there. Deviation: one width, in ids, at all times, where the paper's
    grows.
    """
    apart = _distances(num)
    rates = (-(apart.square() - 1) / (2 * width**2)).exp()
    # jumps longer than 8 widths would have rates below 1e-13 of all
    return _with_diagonal(rates * (apart > 0) * (apart <= max(8 * width, 1.0)))


def _distances(num: int) -> Tensor:
    index = torch.arange(num, dtype=torch.float64)
    return (index.unsqueeze(1) - index).abs()


def _with_diagonal(rates: Tensor) -> Tensor:
    return rates - torch.diag(rates.sum(dim=-1))


def checked_generator(generator: Tensor, layout: TokenLayout) -> Tensor:
    """A user's generator with exact diagonals, Float64[L, V, V], 0 in rows of absent ids.

    ``generator``: Float[V, V], or Float[L, V, V]. Raises ``ValueError`` for another shape, a
    negative rate, rows that do not sum to 0, and rates from a legal id of a position to an id that
    is neither legal there nor MASK.
    """
    length, size = layout.length, layout.vocab_size
    if generator.shape not in ((size, size), (length, size, size)):
        raise ValueError(
            f"generator has shape {tuple(generator.shape)}; expected ({size}, {size}), the rates "
            f"from id to id, or ({length}, {size}, {size}), those of each position"
        )
    # rates of ids that may occur, Float64[L, V, V], apart from the diagonal
    rates = generator.detach().double().to(layout.support.device).expand(length, -1, -1).clone()
    occurs = layout.support.clone()
    occurs[:, layout.mask_id] = True
    rates[~occurs] = 0.0
    diagonal = rates.diagonal(dim1=1, dim2=2).clone()
    rates.diagonal(dim1=1, dim2=2).zero_()

    if bad := _first_index((rates < 0) | ~rates.isfinite()):
        position, x, y = bad
        raise ValueError(
            f"generator: the rate from id {x} to id {y} at position {position} is "
            f"{float(rates[position, x, y]):g}; expected at least 0"
        )
    total = rates.sum(dim=-1)
    if bad := _first_index((total + diagonal).abs() > 1e-6 * (1 + total)):
        position, x = bad
        raise ValueError(
            f"generator: the row of id {x} at position {position} sums to "
            f"{float((total + diagonal)[position, x]):g}; expected 0: the diagonal is minus the "
            "sum of the rates (of a matrix of probabilities Q, take Q - I)"
        )
    if bad := _first_index((rates > 0) & layout.support.unsqueeze(-1) & ~occurs.unsqueeze(-2)):
        position, x, y = bad
        legal = layout.support[position].nonzero().flatten().tolist()
        raise ValueError(
            f"generator: from id {x} position {position} would jump to id {y}, which is not legal "
            f"there; expected rates among {legal} and into MASK ({layout.mask_id}) only, or a "
            "generator for each position"
        )
    # where nothing jumps into MASK, MASK never occurs
    into_mask = (rates[..., layout.mask_id] > 0).any(dim=-1)
    rates[~into_mask, layout.mask_id] = 0.0
    rates.diagonal(dim1=1, dim2=2).copy_(-rates.sum(dim=-1))
    return rates


def _first_index(wrong: Tensor) -> list[int] | None:
    """Indices of the first entry that is True; None if all are False."""
    return wrong.nonzero()[0].tolist() if wrong.any() else None


def slowest_rate(generator: Tensor, alphabet: Tensor) -> float:
    """Rate at which the slowest mode of a generator Float64[V, V] decays on the ids of
    ``alphabet`` Bool[V]: the spectral gap, the second smallest real part of -R's eigenvalues.

    1 for a single id. Raises ``ValueError`` if a second mode does not decay at all.
    """
    ids = alphabet.nonzero().squeeze(1)
    if len(ids) == 1:
        return 1.0
    decay = -torch.linalg.eigvals(generator[ids.unsqueeze(1), ids]).real
    gap = float(decay.sort().values[1])
    if gap <= 1e-12 * float(decay.max()) or gap <= 0:
        raise ValueError(
            f"generator: among the ids {ids.tolist()} what a token was is never forgotten, because "
            "they fall into parts that no rate connects; give rates by which all of them come to "
            "one stationary distribution"
        )
    return gap


def _jump_sources(generators: Tensor) -> Tensor:
    """Int[C, V, W]: ids with a rate into each id, padded with that id itself."""
    jumps = generators.transpose(-1, -2) > 0  # (C, into, from)
    width = max(int(jumps.sum(dim=-1).max()), 1)
    own = torch.arange(jumps.shape[-1], device=jumps.device)
    from_first = (~jumps).long().argsort(dim=-1, stable=True)[..., :width]
    there = jumps.gather(-1, from_first)
    return torch.where(there, from_first, own.unsqueeze(-1))
