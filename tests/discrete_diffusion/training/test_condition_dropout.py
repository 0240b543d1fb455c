"""Conditions in training: which the backbone is given, and that they are dropped there alone."""

from __future__ import annotations

import pytest
import torch
from omegaconf import OmegaConf
from torch import nn

from discrete_diffusion.algorithms import ALGORITHMS, MDLM, TokenAlgorithm
from discrete_diffusion.algorithms.registry import algorithms_on
from discrete_diffusion.building.algorithm import check_states
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.data import Examples
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.forward_process.registry import PROCESSES
from discrete_diffusion.noise_schedules import Learned, LogLinear
from discrete_diffusion.training import DiffusionModule
from toy_training import ToyData, fit
from toy_world import VOCAB_SIZE, ToyWorld, toy_layout


class Listener(nn.Module):
    """Says the same to all, and remembers what it was given of the conditions."""

    def __init__(self, size: int = VOCAB_SIZE) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(size))
        self.heard = []

    def forward(self, x_t, sigma=None, keep=None, sign=None, group_idxs=None, context=None):
        self.heard.append((self.training, keep, sign))
        return self.logits.expand(*x_t.shape, -1)


class Deaf(Listener):
    def forward(self, x_t, sigma=None):
        return super().forward(x_t, sigma)


class Conditioned(ToyData):
    """With a condition that ``Listener`` takes and one that it does not."""

    def __init__(self) -> None:
        super().__init__(128)
        given = self.splits["train"]
        conditions = {"sign": torch.ones(len(given)), "for_others": torch.ones(len(given))}
        examples = Examples(given.x0, given.real, conditions=conditions)
        self.splits = dict.fromkeys(self.splits, examples)


def test_conditions_are_dropped_in_training_alone(tmp_path):
    algorithm = toy(condition_dropout=0.5)
    module = DiffusionModule(algorithm, bound="plain", seed=0, lr=1e-3, lr_schedule="constant")
    fit(module, tmp_path, steps=4, data=Conditioned())
    heard = algorithm.backbone.heard
    assert all(sign is not None for _, _, sign in heard)
    trained = [tuple(keep.tolist()) for training, keep, _ in heard if training]
    assert len(trained) == len(set(trained)) == 4
    assert {keep for training, keep, _ in heard if not training} == {None}


def test_what_a_backbone_says_of_its_condition_is_among_the_statistics():
    algorithm = toy()
    assert algorithm.statistics() == {}
    algorithm.backbone.diagnostics = lambda: {"cond_gate": 0.25}
    assert algorithm.statistics() == {"cond_gate": 0.25}


def toy(name: str = "mdlm", backbone: nn.Module | None = None, **options) -> TokenAlgorithm:
    build, layout = ALGORITHMS.find(name), toy_layout()
    learned = getattr(build, "learns_schedule", False)
    schedule = Learned(layout, exponent_per="token") if learned else LogLinear()
    process = PROCESSES.find(build.processes[0])(layout, schedule)
    if name == "distill":  # of three tokens at most, and a network without components
        options |= {"calls": 3, "components": 1}
    return build(backbone or Listener(), process, **options)


def batch_of(num: int) -> Batch:
    x0 = ToyWorld.make().x0[torch.arange(num) % 20]
    sign = torch.ones(num)
    return Batch(x0, torch.ones_like(x0, dtype=torch.bool), conditions={"sign": sign})


def test_the_share_of_samples_that_are_shown_none():
    batch = batch_of(4000)
    dropped = toy(condition_dropout=0.25).drop_conditions(batch, make_generator(0))
    keep = dropped.conditions.pop("keep")
    assert keep.dtype == torch.bool
    assert float(keep.double().mean()) == pytest.approx(0.75, abs=0.03)
    assert dropped.conditions == batch.conditions
    assert "keep" not in batch.conditions
    assert toy().drop_conditions(batch, make_generator(0)) is batch


@pytest.mark.parametrize("name", algorithms_on("tokens"))
def test_every_algorithm_hands_it_to_the_network(name):
    algorithm = toy(name, condition_dropout=0.5)
    batch = algorithm.drop_conditions(batch_of(16), make_generator(0))
    draw = algorithm.evaluation_draw if algorithm.has_reward else None  # else it samples
    algorithm.loss(batch, make_generator(1), draw).loss.backward()
    ((_, keep, sign),) = algorithm.backbone.heard
    assert keep is batch.conditions["keep"]
    assert sign is batch.conditions["sign"]


def test_a_backbone_that_does_without_the_condition():
    backbone = Deaf()
    toy("mdlm", backbone).loss(batch_of(4), make_generator(0))
    assert backbone.heard == [(True, None, None)]
    with pytest.raises(ValueError, match=r"bd3lm needs .* group_idxs.* Deaf\.forward"):
        toy("bd3lm", Deaf())


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"condition_dropout=0\.1 needs .* that of Deaf does not"):
        toy("mdlm", Deaf(), condition_dropout=0.1)
    for share in (1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match=r"algo.condition_dropout=.*: expected a number in"):
            MDLM(Listener(), Absorbing(toy_layout(), LogLinear()), condition_dropout=share)
    for name, backbone, says in (
        ("udlm", "my-transformer", "'my-transformer' does not; take algo.backbone=bd-denoiser or "),
        ("udlm", "bd-denoiser", "'bd-denoiser' has no condition .*; set data.condition_on"),
        ("ar", "dit", "'dit' does not; take algo.condition_dropout=0"),
    ):
        algo = {"name": name, "backbone": backbone, "condition_dropout": 0.1}
        with pytest.raises(ValueError, match=says):
            check_states(
                OmegaConf.create({"algo": algo, "data": {"domain": "text", "name": "text"}})
            )
