"""Algorithms with networks whose ``forward`` has another shape than ours."""

from __future__ import annotations

import pytest
import torch
from omegaconf import OmegaConf
from torch import nn

from discrete_diffusion.algorithms import BD3LM, MDLM, Algorithm, build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.models.calling import CONTRACT
from discrete_diffusion.models.registry import register_backbone
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import build_sampler, sample_in_batches
from discrete_diffusion.sampling.model import Model
from toy_algorithms import TOYS
from toy_world import FULL, PADDED, VOCAB_SIZE, ToyWorld, toy_layout


class Ours(nn.Module):
    """Random logits that depend on ids, noise level and, if there are any, blocks."""

    def __init__(self) -> None:
        super().__init__()
        table = torch.randn(VOCAB_SIZE, VOCAB_SIZE, generator=make_generator(0))
        self.table = nn.Parameter(table)

    def forward(self, x_t, sigma=None, *, group_idxs=None, context=None):
        logits = self.table[x_t]
        if sigma is not None:
            logits = logits * (0.5 + torch.exp(-sigma))[:, None, None]
        if group_idxs is not None:
            logits = logits + group_idxs.unsqueeze(-1)
        return logits if context is None else logits + self.table[context]


class Theirs(Ours):
    def forward(self, x, sigma):
        return super().forward(x, sigma)


class TheirsSecond(Ours):
    def forward(self, indices, timesteps):
        return super().forward(indices, timesteps)


class Blocks(Ours):
    """The order of seed networks for block diffusion."""

    def forward(self, x_t, group_idxs, sigma, context=None):
        return super().forward(x_t, sigma, group_idxs=group_idxs, context=context)


class Timeless(Ours):
    def forward(self, x):
        return super().forward(x)


def batch_of(num: int) -> Batch:
    world = ToyWorld.make()
    rows = torch.arange(num) % len(world.x0)
    return Batch(world.x0[rows], toy_layout().is_real(world.x0[rows]))


def same(first: Algorithm, second: Algorithm) -> None:
    """Losses, gradients, bounds, and samples."""
    batch, results = batch_of(12), []
    for algorithm in (first, second):
        output = algorithm.loss(batch, make_generator(1))
        output.loss.backward()
        sampler, steps = ("first-hitting", None) if algorithm.name == "ar" else ("ancestral", 3)
        drawn = sample_in_batches(
            Model(algorithm, build_sampler({"name": sampler}), steps=steps),
            torch.stack([FULL, PADDED] * 4),
            generator=make_generator(2),
        )
        results.append([output.loss, output.nelbo, algorithm.backbone.table.grad, drawn.x0])
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("name", "kind"), [("mdlm", Theirs), ("udlm", TheirsSecond), ("d3pm-hybrid", Theirs)]
)
def test_every_algorithm_calls_them_as_ours(name, kind):
    same(TOYS[name].make(LogLinear(), Ours()), TOYS[name].make(LogLinear(), kind()))


def process() -> Absorbing:
    return Absorbing(toy_layout(), LogLinear())


def test_the_order_of_a_block_wise_network():
    same(BD3LM(Ours(), process(), block_size=1), BD3LM(Blocks(), process(), block_size=1))


def test_a_network_without_time():
    same(
        MDLM(Ours(), process(), time_conditioning=False),
        MDLM(Timeless(), process(), time_conditioning=False),
    )
    with pytest.raises(ValueError, match=r"Timeless\.forward\(x\) does not take") as caught:
        MDLM(Timeless(), process())
    assert "algo.time_conditioning=false" in str(caught.value)
    assert CONTRACT in str(caught.value)


class Labelled(Ours):
    def forward(self, x, sigma, labels):
        return super().forward(x, sigma)


CONFIG = {
    "algo": {"name": "mdlm", "backbone": "strange"},
    "model": {},
    "data": {"domain": "bubble_diagrams", "name": "bubble_diagrams", "max_nodes": 4},
    "schedule": {"name": "log_linear"},
    "forward_process": {"name": "absorbing"},
}


@pytest.mark.usefixtures("clean_registry")
def test_what_nobody_gives_is_refused_by_name():
    with pytest.raises(ValueError, match=r"Labelled\.forward.* requires labels, which"):
        MDLM(Labelled(), process()).prepare(batch_of(4))
    register_backbone("strange")(lambda config, vocab_size: Labelled())
    with pytest.raises(ValueError, match="requires labels, which neither mdlm nor the data"):
        build_algorithm(OmegaConf.create(CONFIG))
