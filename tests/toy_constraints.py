"""Constraints of the toy world, with look-aheads from exact to none, and the law given each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from floor_plans.briefs.particles import Constraint
from toy_world import FULL, MASK, PADDED, VOCAB_SIZE, ToyWorld

CONSTRAINTS = {
    "equal": lambda x: x[..., 0] == x[..., 1],
    "one three": lambda x: (x == 3).sum(dim=-1) == 1,
    "rare": lambda x: (x[..., 0] == 2) & (x[..., 1] == 0) & (x[..., 2] != 2),
}


@dataclass
class Toy(Constraint):
    """``guess``: "exact", P(C | x) itself; "factorised", of what the network says of each position;
    "possible", 1 wherever C can still be met."""

    name: str
    guess: str
    real: torch.Tensor

    def __post_init__(self) -> None:
        self.world = ToyWorld.make(self.real)

    def met(self, x):
        return CONSTRAINTS[self.name](x)

    def log_chances(self, x, position, log_d0):
        clean = self.world.x0
        tried = x.unsqueeze(1).repeat(1, VOCAB_SIZE, 1)
        tried[torch.arange(len(x)), :, position] = torch.arange(VOCAB_SIZE)
        fits = ((tried.unsqueeze(2) == clean) | (tried.unsqueeze(2) == MASK)).all(dim=-1)
        if self.guess == "factorised":
            masked = tried == MASK
            of_clean = log_d0.double().exp()[:, torch.arange(3), clean]  # (R, K, 3)
            weight = torch.where(masked.unsqueeze(2), of_clean.unsqueeze(1), 1.0).prod(dim=-1)
        else:
            weight = self.world.prob.expand(fits.shape)
        weight = weight * fits
        chance = (weight * self.met(clean)).sum(dim=-1) / weight.sum(dim=-1).clamp(min=1e-300)
        return chance.log() if self.guess != "possible" else (chance > 0).double().log()


@cache
def conditional(name: str, padded: bool = False) -> tuple[ToyWorld, torch.Tensor, float]:
    """The world, its law given the constraint, and P(C)."""
    world = ToyWorld.make(PADDED if padded else FULL)
    kept = world.prob * CONSTRAINTS[name](world.x0)
    return world, kept / kept.sum(), float(kept.sum())
