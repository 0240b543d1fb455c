"""Block diffusion with a network that takes no ``context``: one block a call. That its bound is the
entropy stands in ``test_bd3lm.py``."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from discrete_diffusion.algorithms import BD3LM
from discrete_diffusion.algorithms.time_sampling import sample_blocks
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.noise_schedules import LogLinear
from toy_algorithms import ToyBackbone
from toy_world import (
    FULL,
    MASK,
    PAD,
    PADDED,
    ExactBlockBackbone,
    ExactRowBackbone,
    ToyWorld,
    toy_layout,
)

BOTH = (ExactBlockBackbone, ExactRowBackbone)


def bd3lm(kind=ExactRowBackbone, lengths=(1, 1, 1), tilt: float = 0.0) -> BD3LM:
    process = Absorbing(toy_layout(), LogLinear())
    network = kind(process, tilt)
    return BD3LM(network, process, block_lengths=list(lengths), time_conditioning=tilt != 0)


def mixed(num: int) -> Batch:
    """Full and padded sequences in turn."""
    worlds = [ToyWorld.make(FULL), ToyWorld.make(PADDED)]
    x0 = torch.stack([worlds[k % 2].x0[k % 12] for k in range(num)])
    return Batch(x0, x0 != PAD)


class Rows(ToyBackbone):
    """Keeps the rows that it is shown."""

    def forward(self, x_t, group_idxs, sigma):
        self.x_t, self.sigma = x_t, sigma
        return super().forward(x_t, torch.zeros(len(x_t)) if sigma is None else sigma)


@pytest.mark.parametrize("time_conditioning", [False, True])
def test_a_row_has_clean_tokens_before_its_block_and_mask_behind(time_conditioning):
    process, batch, network = Absorbing(toy_layout(), LogLinear()), mixed(600), Rows()
    algorithm = BD3LM(
        network, process, block_lengths=[1, 1, 1], time_conditioning=time_conditioning
    )
    algorithm.loss(batch, make_generator(0))
    assert torch.equal(network.x_t == PAD, ~batch.real)
    clean = (network.x_t == batch.x0) & batch.real
    block = clean.sum(dim=1)  # blocks of one: a token drawn as MASK is the whole of its block
    assert torch.equal(clean, torch.arange(3) < block.unsqueeze(1))
    assert (network.x_t[batch.real & ~clean] == MASK).all()
    full, padded = block[0::2].bincount(), block[1::2].bincount(minlength=3)
    assert (full - 100).abs().max() < 40
    assert (padded - torch.tensor([150, 150, 0])).abs().max() < 40
    assert padded[2] == 0  # which would be nothing but PAD
    assert (network.sigma is not None) == time_conditioning


def test_blocks_are_drawn_among_those_that_hold_data():
    real = torch.tensor([[1, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]]).bool()
    blocks = torch.tensor([0, 0, 1, 2, 2, 3])
    seen = [set(), set(), set()]
    for seed in range(20):
        block, num = sample_blocks(real, blocks, 4, make_generator(seed))
        assert num.tolist() == [2, 1, 0]
        for found, one in zip(seen, block.tolist(), strict=True):
            found.add(one)
    assert seen == [{0, 2}, {1}, {0}]
    even, _ = sample_blocks(torch.ones(60, 6).bool(), blocks, 4, make_generator(0))
    assert even.bincount().tolist() == [15, 15, 15, 15]
    again, _ = sample_blocks(real, blocks, None, make_generator(19))
    assert torch.equal(again, block)


def test_a_sample_of_nothing_but_pad_costs_nothing():
    x0 = torch.full((4, 3), PAD)
    nelbo = bd3lm().loss(Batch(x0, x0 != PAD), make_generator(0)).nelbo
    assert nelbo.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(("lengths", "tilt"), [((2, 1), 1.0)])
def test_with_the_clean_sequence_it_predicts_every_block_as_the_other_way(lengths, tilt):
    algorithms, batch = [bd3lm(kind, lengths, tilt).eval() for kind in BOTH], mixed(60)
    t = torch.linspace(0.05, 0.95, 60, dtype=torch.float64)
    xt = algorithms[0].process.corrupt(batch.x0, t, batch.real, make_generator(1))
    found = [a.denoise(xt, t, batch.real, a.teacher_forcing(batch)) for a in algorithms]
    torch.testing.assert_close(found[0][batch.real], found[1][batch.real])


def test_a_network_without_blocks_is_told_what_to_add():
    class Plain(nn.Module):
        def forward(self, x_t, sigma):
            return x_t

    with pytest.raises(ValueError, match=r"bd3lm needs .*group_idxs.*Plain\.forward\(x_t, sigma\)"):
        BD3LM(Plain(), Absorbing(toy_layout(), LogLinear()))
