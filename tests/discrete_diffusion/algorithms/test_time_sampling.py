"""Draws of times and masks: the same mean for any integrand, whatever their density."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.algorithms.time_sampling import (
    MASK_DRAWS,
    TIME_DRAWS,
    WEIGHTED_DRAWS,
    sample_masks,
    sample_times,
    sample_weighted_times,
    vanishing_power,
)
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing, Hybrid, Uniform
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import Cosine, LogLinear, PerGroup
from toy_world import all_schedules, toy_layout


@pytest.mark.parametrize("how", TIME_DRAWS)
def test_times_are_uniform_and_never_zero(how):
    t = torch.cat([sample_times(how, 101, make_generator(k), "cpu") for k in range(200)])
    assert (t > 0).all()
    assert (t <= 1).all()
    share = torch.histc(t.float(), bins=10, min=0, max=1) / len(t)
    assert (share - 0.1).abs().max() < 0.015


@pytest.mark.parametrize("name", ["linear", "per_group"])
@pytest.mark.parametrize("how", WEIGHTED_DRAWS)
def test_weights_undo_the_density(how, name):
    """E[weight f(t)] = integral of f, for functions of either end of [0, 1]."""
    process = Uniform(toy_layout(), all_schedules(toy_layout())[name])
    t, weight = sample_weighted_times(how, process, 400_000, make_generator(0), "cpu")
    assert ((t > 0) & (t < 1)).all()
    for power in (0.0, 0.5, 1.0, 4.0):
        for value in (t**power, (1 - t) ** power):
            draws = weight * value
            error = 5 * draws.std() / len(t) ** 0.5 + 1e-9
            assert abs(draws.mean() - 1 / (power + 1)) < error


@pytest.mark.parametrize(("gamma", "power"), [(2.0, 1.0), (1.0, 0.5), (0.5, 0.25)])
def test_importance_draws_follow_how_fast_noise_sets_in(gamma, power):
    """Hybrid noise touches a token with probability ~ share^(gamma/2): t = v^(4/gamma)."""
    process = Hybrid(toy_layout(), LogLinear(), gamma=gamma)
    assert vanishing_power(process, torch.device("cpu")) == power
    t, weight = sample_weighted_times("importance", process, 1000, make_generator(0), "cpu")
    torch.testing.assert_close(weight, 2 / power * t ** (1 - power / 2), rtol=1e-9, atol=0)


LENGTH, MASK, PAD, NUM = 8, 5, 6, 600
BLOCKS = torch.tensor([0, 0, 0, 1, 2, 2, 2, 2])


def process(schedule: str = "cosine") -> Absorbing:
    support = torch.zeros(LENGTH, 7, dtype=torch.bool)
    support[:, :5] = True
    group = torch.tensor([0, 1] * 4)
    layout = TokenLayout(support, mask_id=MASK, pad_id=PAD, group=group, group_names=("a", "b"))
    if schedule == "per_group":
        return Absorbing(layout, PerGroup(layout, exponents={"a": 2.0, "b": 0.5}))
    return Absorbing(layout, Cosine() if schedule == "cosine" else LogLinear())


def batch(num: int = NUM, padded: bool = True) -> Batch:
    """Padded: half of the samples lack two positions of block 2, a quarter has no block 1."""
    real = torch.ones(num, LENGTH, dtype=torch.bool)
    if padded:
        real[::2, 6:] = False
        real[::4, 3] = False
    return Batch(torch.zeros(num, LENGTH, dtype=torch.long).masked_fill(~real, PAD), real)


@pytest.mark.parametrize("how", MASK_DRAWS)
def test_one_block_is_the_draw_without_blocks(how):
    one = torch.zeros(LENGTH, dtype=torch.long)
    with_blocks = sample_masks(how, process("per_group"), batch(), make_generator(3), one)
    without = sample_masks(how, process("per_group"), batch(), make_generator(3))
    assert torch.equal(with_blocks.xt, without.xt)
    torch.testing.assert_close(with_blocks.weight, without.weight, rtol=1e-14, atol=0)
    assert without.t.shape == (NUM,)
    assert torch.equal(with_blocks.t, without.t.unsqueeze(1).expand(-1, LENGTH))


@pytest.mark.parametrize("how", MASK_DRAWS)
def test_what_every_draw_keeps(how):
    data = batch()
    masked = sample_masks(how, process("per_group"), data, make_generator(0), BLOCKS)
    assert (masked.xt[~data.real] == PAD).all()
    assert torch.equal(masked.weight > 0, (masked.xt == MASK) & data.real)
    assert masked.weight.isfinite().all()
    assert ((masked.t > 0) & (masked.t <= 1)).all()
    for block in range(3):  # one time per block
        t = masked.t[:, block == BLOCKS]
        assert torch.equal(t, t[:, :1].expand_as(t))
    assert (masked.t[:, 0] != masked.t[:, 4]).any()


def test_forced_masks_of_each_block_are_stratified():
    """n_b is uniform on 1..L_b, spread over the batch, and the weights are L_b / n_b."""
    data = batch(padded=False)
    masked = sample_masks("uniform_count", process(), data, make_generator(1), BLOCKS)
    counts = []
    for block, size in enumerate((3, 1, 4)):
        here = block == BLOCKS
        count = ((masked.xt == MASK) & here).sum(dim=1)
        assert torch.bincount(count)[1:].tolist() == [NUM // size] * size
        torch.testing.assert_close(
            (masked.weight * here).sum(dim=1), torch.full((NUM,), float(size)).double()
        )
        counts.append(count.double())
    # the blocks of a sample are independent of each other
    assert abs(torch.corrcoef(torch.stack(counts)[[0, 2]])[0, 1]) < 0.15


@pytest.mark.parametrize("how", MASK_DRAWS)
def test_every_position_is_masked_with_the_weight_of_one_in_the_mean(how):
    """E weight_l = E_t w_l (1 - alpha_l) = the integral of -alpha_l' = 1, for every position."""
    data = batch(num=40_000, padded=False)
    weight = sample_masks(how, process("per_group"), data, make_generator(5), BLOCKS).weight
    error = weight.std(dim=0) / len(data) ** 0.5
    slack = 4.5 if how == "uniform_count" else 8  # the others have infinite variance
    assert ((weight.mean(dim=0) - 1).abs() <= slack * error).all()


def test_the_power_is_the_smallest_of_the_tokens():
    """Only that keeps the variance finite for all: nodes are corrupted like t^2, edges like t."""
    layout = toy_layout()
    schedule = PerGroup(layout, exponents={"node": 2.0, "edge": 1.0})
    assert vanishing_power(Absorbing(layout, schedule), torch.device("cpu")) == 1.0
    schedule = PerGroup(layout, exponents={"node": 2.0, "edge": 3.0})
    assert vanishing_power(Uniform(layout, schedule), torch.device("cpu")) == 2.0
