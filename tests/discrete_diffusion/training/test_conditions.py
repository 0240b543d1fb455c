"""Conditions in a run: dropped in training alone, none that the network does not take."""

from __future__ import annotations

import torch
from torch import nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.data import Examples
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.training import DiffusionModule
from toy_training import TinyBackbone, ToyData, fit
from toy_world import toy_layout


class Conditioned(ToyData):
    """With a condition that ``Listener`` takes and one that it does not."""

    def __init__(self) -> None:
        super().__init__(128)
        given = self.splits["train"]
        conditions = {"sign": torch.ones(len(given)), "for_others": torch.ones(len(given))}
        examples = Examples(given.x0, given.real, conditions=conditions)
        self.splits = dict.fromkeys(self.splits, examples)


class Listener(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.heard = TinyBackbone(), []

    def forward(self, x_t, sigma=None, sign=None, keep=None):
        assert sign is not None
        self.heard.append((self.training, keep))
        return self.inner(x_t)


def test_conditions_are_dropped_in_training_alone(tmp_path):
    backbone = Listener()
    algorithm = MDLM(backbone, Absorbing(toy_layout(), LogLinear()), condition_dropout=0.5)
    module = DiffusionModule(algorithm, bound="plain", seed=0, lr=1e-3, lr_schedule="constant")
    fit(module, tmp_path, steps=4, data=Conditioned())
    trained = [tuple(keep.tolist()) for training, keep in backbone.heard if training]
    assert len(trained) == len(set(trained)) == 4
    validated = [keep for training, keep in backbone.heard if not training]
    assert validated
    assert validated == [None] * len(validated)


def test_what_a_backbone_says_of_its_condition_is_among_the_statistics():
    backbone = Listener()
    algorithm = MDLM(backbone, Absorbing(toy_layout(), LogLinear()))
    assert algorithm.statistics() == {}
    backbone.diagnostics = lambda: {"cond_gate": 0.25}
    assert algorithm.statistics() == {"cond_gate": 0.25}
