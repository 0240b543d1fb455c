"""Batches of the enumerable world for measurements of a model."""

from __future__ import annotations

import torch
from torch import nn

from discrete_diffusion.algorithms import MDLM, TokenAlgorithm
from discrete_diffusion.categorical import log_softmax_on, make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing, ForwardProcess
from toy_world import ExactBackbone, ToyWorld, all_schedules, toy_layout


def exact_mdlm(schedule: str = "log_linear", tilt: float = 0.0) -> MDLM:
    layout = toy_layout()
    process = Absorbing(layout, all_schedules(layout)[schedule])
    return MDLM(ExactBackbone(process, tilt), process)


class ExactDenoiser(TokenAlgorithm):
    """The Bayes-optimal leave-one-out D of any process, straight from the enumerated world."""

    name = "exact"
    processes = ("absorbing", "uniform", "fixed")
    evaluation_draw = "uniform"

    def __init__(self, world: ToyWorld, process: ForwardProcess) -> None:
        super().__init__(nn.Identity(), process, time_conditioning=False)
        self.world = world

    def loss(self, batch, generator, draw=None):
        raise NotImplementedError

    def denoise(self, x_t, t, real, conditions=None):
        log_d0 = torch.zeros(*x_t.shape, self.layout.vocab_size, dtype=torch.float64)
        for time in t.unique():
            rows = t == time
            log_d0[rows] = self.world.log_d0(self.process, x_t[rows], time[None])
        return log_softmax_on(log_d0, self.layout.support)


def toy_batches(world: ToyWorld, num: int, batch_size: int = 4000) -> list[Batch]:
    """Samples of the world's exact distribution."""
    rows = torch.multinomial(world.prob, num, replacement=True, generator=make_generator(9))
    return [
        Batch(world.x0[part], world.real.expand(len(part), -1)) for part in rows.split(batch_size)
    ]
