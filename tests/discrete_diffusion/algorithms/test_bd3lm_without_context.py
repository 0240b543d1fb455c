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
from discrete_diffusion.evaluation.bound import MeasurementSettings
from discrete_diffusion.evaluation.noise_levels import bound_by_time, measure_calibration
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import build_sampler
from toy_algorithms import ToyBackbone
from toy_samplers import fitting_samplers
from toy_world import (
    FULL,
    MASK,
    PAD,
    PADDED,
    ExactBlockBackbone,
    ExactRowBackbone,
    ToyWorld,
    noise_floor,
    total_variation,
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


def test_the_time_of_a_row_is_that_of_its_block():
    """Where both tokens of the block are clean, t has the density 3 (1 - t)^2: mean 1/4, variance
    3/80."""
    process, batch, network = Absorbing(toy_layout(), LogLinear()), mixed(4000), Rows()
    algorithm = BD3LM(network, process, block_lengths=[1, 2], time_conditioning=True)
    algorithm.loss(batch, make_generator(0), "uniform")
    clean = batch.real.all(dim=1) & (network.x_t[:, 1:] != MASK).all(dim=1)
    t = -torch.expm1(-network.sigma[clean])
    assert float(t.mean()) == pytest.approx(1 / 4, abs=4.5 * (3 / 80 / len(t)) ** 0.5)


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


@pytest.mark.parametrize("lengths", [(1, 1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("tilt", [0.0, 1.0])
def test_with_the_clean_sequence_it_predicts_every_block_as_the_other_way(lengths, tilt):
    algorithms, batch = [bd3lm(kind, lengths, tilt).eval() for kind in BOTH], mixed(60)
    t = torch.linspace(0.05, 0.95, 60, dtype=torch.float64)
    xt = algorithms[0].process.corrupt(batch.x0, t, batch.real, make_generator(1))
    found = [a.denoise(xt, t, batch.real, a.teacher_forcing(batch)) for a in algorithms]
    torch.testing.assert_close(found[0][batch.real], found[1][batch.real])


def test_the_bound_by_time_and_the_calibration_are_those_of_the_other_way():
    models = [bd3lm(kind, tilt=1.0) for kind in BOTH]
    batches, settings = [mixed(40)], MeasurementSettings((0,))
    ours, theirs = (bound_by_time(m, batches, num_bins=4, settings=settings) for m in models)
    torch.testing.assert_close(ours.integrand, theirs.integrand)
    ours, theirs = (measure_calibration(m, batches, settings=settings) for m in models)
    torch.testing.assert_close(ours.error, theirs.error, equal_nan=True)


@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
def test_it_samples_the_joint(real):
    num, world = 20_000, ToyWorld.make(real)
    output = build_sampler({"name": "first-hitting"}).sample(
        bd3lm(lengths=(1, 2)), real.expand(num, -1), generator=make_generator(1)
    )
    assert total_variation(world.distribution(output.x0), world.prob) < noise_floor(world.prob, num)


@pytest.mark.slow
def test_every_sampler_draws_the_same_with_both_ways_and_clamps():
    """A clamp in a later block is hidden until its turn comes, as it was in training."""
    clamp = torch.tensor([-1, -1, 3]).expand(50, -1)
    for name in fitting_samplers(bd3lm()):
        found = [
            build_sampler({"name": name}).sample(
                bd3lm(kind, tilt=1.0), FULL.expand(50, -1), generator=make_generator(2), clamp=clamp
            )
            for kind in BOTH
        ]
        assert torch.equal(found[0].x0, found[1].x0), name
        assert (found[1].x0[:, 2] == 3).all()


def test_a_network_without_blocks_is_told_what_to_add():
    class Plain(nn.Module):
        def forward(self, x_t, sigma):
            return x_t

    with pytest.raises(ValueError, match=r"bd3lm needs .*group_idxs.*Plain\.forward\(x_t, sigma\)"):
        BD3LM(Plain(), Absorbing(toy_layout(), LogLinear()))
