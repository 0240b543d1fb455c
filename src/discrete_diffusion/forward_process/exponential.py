"""Exponentials of generators, each entry to its own relative accuracy."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from discrete_diffusion.categorical import neg_inf

NUM_TERMS = 25
"""Terms of a series in h <= 1: those left out are below 1e-25 of it."""


class Exponential(nn.Module):
    """log expm(tau R) of C generators R, Float64[C, V, V], whose rows sum to 0.

    With P = I + R / speed, speed the largest rate of leaving an id, and h = tau speed,

        expm(tau R)(x, y) = sum_n e^-h h^n / n!  P^n(x, y)
                          = h^d sum_k e^-h h^k / k! [ k! / (d + k)!  P^(d+k)(x, y) ]

    (uniformisation), d(x, y) the least number of jumps from x to y. No term is negative, so nothing
    cancels, and h^d stands outside, so nothing underflows: an entry of 1e-300 has all its digits,
    where a sum of eigenvectors has none below 1e-16. Beyond h = 1 tau is halved until it is not,
    and the result squared as often, rows normalised each time.

    ``largest``: a tau beyond which all is forgotten; larger ones are taken for it.
    """

    terms: Tensor
    jumps: Tensor
    log_speed: Tensor

    def __init__(self, generators: Tensor, *, largest: float) -> None:
        super().__init__()
        num, size, _ = generators.shape
        speed = -generators.diagonal(dim1=1, dim2=2).amin(dim=1)
        speed = torch.where(speed > 0, speed, 1.0)
        same = torch.eye(size, dtype=torch.float64, device=generators.device)
        step = (same + generators / speed[:, None, None]).clamp(min=0)
        jumps = _least_jumps(step > 0)
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
        """log expm(tau R): Float64[B, C, V, V], for log tau Float64[B, C]; -inf is tau = 0."""
        floor = neg_inf(torch.float64)
        log_h = log_tau.clamp(floor, self.log_largest) + self.log_speed  # (B, C)
        halvings = (log_h / math.log(2)).ceil().clamp(min=0)
        log_h = log_h - halvings * math.log(2)
        k = torch.arange(NUM_TERMS, dtype=torch.float64, device=log_h.device)
        h = log_h.unsqueeze(-1)
        weight = (k * h - torch.lgamma(k + 1) - h.exp()).exp()  # (B, C, K)
        total = torch.einsum("bck,ckv->bcv", weight, self.terms).unflatten(-1, self.jumps.shape[1:])
        tiny = torch.finfo(torch.float64).tiny
        log_q = total.clamp(min=tiny).log() + self.jumps * h.unsqueeze(-1)
        log_q = torch.where(self.jumps < 0, floor, log_q).clamp(min=floor)
        most = self._most(halvings)
        if most == 0:
            return log_q
        q = log_q.exp()
        for done in range(most):
            squared = q @ q
            squared = squared / squared.sum(dim=-1, keepdim=True)
            q = torch.where((done < halvings)[..., None, None], squared, q)
        by_squares = torch.where(q > 0, q.clamp(min=tiny).log(), floor)
        return torch.where((halvings > 0)[..., None, None], by_squares, log_q)

    def _most(self, halvings: Tensor) -> int:
        """The largest of ``halvings`` Float64[B, C]; of another device than the CPU, which would
        have to be waited for, the largest that there can be."""
        if halvings.device.type != "cpu":
            return self.most_halvings
        return int(halvings.max()) if halvings.numel() else 0


def _least_jumps(possible: Tensor) -> Tensor:
    """Int[C, V, V]: the least number of jumps from each id to each other, -1 where there is no way;
    ``possible`` Bool[C, V, V]."""
    size = possible.shape[-1]
    same = torch.eye(size, dtype=torch.bool, device=possible.device).expand_as(possible)
    jumps = torch.where(same, 0, torch.full_like(possible, -1, dtype=torch.long))
    reached, step = same, (possible | same).double()
    for n in range(1, size):
        further = (reached.double() @ step) > 0
        if torch.equal(further, reached):
            break
        jumps = torch.where(further & ~reached, n, jumps)
        reached = further
    return jumps
