"""A model of eight bits whose every probability is tabulated, told t and not the better for it."""

from __future__ import annotations

import itertools
from functools import cache

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import LogLinear
from floor_plans.briefs.particles import Constraint

LENGTH, MASK, PAD = 8, 2, 3
CLEAN = torch.tensor(list(itertools.product((0, 1), repeat=LENGTH)))
EVERY = torch.tensor(list(itertools.product((0, 1, MASK), repeat=LENGTH)))
PLACE = 3 ** torch.arange(LENGTH - 1, -1, -1)
REAL = torch.ones(LENGTH, dtype=torch.bool)


@cache
def prob() -> Tensor:
    """Float64[256]: bits that agree with their neighbours, mostly."""
    agree = (CLEAN[:, 1:] == CLEAN[:, :-1]).sum(dim=1).double()
    return (0.9 * agree - 0.4 * CLEAN.sum(dim=1)).softmax(dim=0)


@cache
def fits() -> Tensor:
    """Bool[6561, 256]: which clean sequences have the tokens of a state."""
    return ((EVERY.unsqueeze(1) == CLEAN) | (EVERY.unsqueeze(1) == MASK)).all(dim=-1)


class Tabulated(nn.Module):
    """The exact denoiser, bent by sigma."""

    def __init__(self) -> None:
        super().__init__()
        one = fits().double() * prob()
        p = (one @ CLEAN.double()) / one.sum(dim=1, keepdim=True)  # (6561, L)
        table = torch.full((len(EVERY), LENGTH, 4), -1e4, dtype=torch.float64)
        table[..., 0], table[..., 1] = (1 - p).clamp(min=1e-9).log(), p.clamp(min=1e-9).log()
        self.table = table

    def forward(self, x_t: Tensor, sigma: Tensor) -> Tensor:
        bend = torch.tensor([0.0, 0.8, 0.0, 0.0]) * -torch.expm1(-sigma)[:, None, None]
        return self.table[(x_t * PLACE).sum(dim=-1)] + bend


@cache
def model() -> MDLM:
    support = torch.zeros(LENGTH, 4, dtype=torch.bool)
    support[:, :2] = True
    layout = TokenLayout(support, mask_id=MASK, pad_id=PAD)
    process = Absorbing(layout, LogLinear())
    return MDLM(Tabulated(), process)


class ManyOnes(Constraint):
    """At least ``least`` bits are 1. The look-ahead knows what is still possible, no more."""

    def __init__(self, least: int) -> None:
        self.least = least

    def met(self, x: Tensor) -> Tensor:
        return (x == 1).sum(dim=-1) >= self.least

    def log_chances(self, x: Tensor, position: Tensor, log_d0: Tensor) -> Tensor:
        tried = x.unsqueeze(1).repeat(1, 4, 1)
        tried[torch.arange(len(x)), :, position] = torch.arange(4)
        most = ((tried == 1) | (tried == MASK)).sum(dim=-1)
        return (most >= self.least).double().log()
