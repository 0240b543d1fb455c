"""Particles of a network that is told t: what resampling carries along, and what they are worth."""

from __future__ import annotations

import math

import pytest
import torch
from tabulated import REAL, ManyOnes, model

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.categorical import effective_number, log_mean, make_generator
from discrete_diffusion.contracts import SampleOutput
from floor_plans.briefs.particles import Constraint, Particles, effective_samples, systematic_rows
from laws import grid, grid_law
from toy_samplers import absorbing, record_calls
from toy_world import (
    FULL,
    MASK,
    PAD,
    PADDED,
    VOCAB_SIZE,
    ExactBackbone,
    ToyWorld,
    noise_floor,
    total_variation,
)


class FirstTwoEqual(Constraint):
    """Of samples of two or three tokens; it looks ahead no further than what is possible."""

    def met(self, x):
        return x[..., 0] == x[..., 1]

    def log_chances(self, x, position, log_d0):
        tried = x.unsqueeze(1).repeat(1, VOCAB_SIZE, 1)
        tried[torch.arange(len(x)), :, position] = torch.arange(VOCAB_SIZE)
        first, second = tried[..., 0], tried[..., 1]
        can = (first == second) | (first == MASK) & (second != 3) | (second == MASK)
        return can.double().log()


def told(tilt=3.0):
    process = absorbing("log_linear")
    return MDLM(ExactBackbone(process, tilt=tilt), process).eval()


def test_resampled_particles_keep_their_size_and_their_times():
    """Rows of two sizes change places: what the network is told of a row is what stands in it."""
    algorithm = told()
    calls = record_calls(algorithm)
    real = torch.stack([FULL, PADDED]).repeat(100, 1)
    output = Particles(constraint=FirstTwoEqual(), resample=1.0).sample(
        algorithm, real, generator=make_generator(0)
    )
    assert len(calls) == 3
    for call in calls:
        assert torch.equal(call.real, call.x_t != PAD)
        assert (call.t > 0).all()  # a time at which a token is revealed
    assert torch.equal(output.x0 != PAD, real[output.ancestors])
    assert (output.x0 != MASK).all()


@pytest.mark.slow
@pytest.mark.parametrize("resample", [0.0, 1.0])
def test_they_tend_to_the_conditional_of_a_network_that_is_told_t(resample):
    """Of both sizes at once; their mean weight to the probability."""
    algorithm, num = told(), 30_000
    real = torch.stack([FULL, PADDED]).repeat(num // 2, 1)
    output = Particles(constraint=FirstTwoEqual(), resample=resample).sample(
        algorithm, real, generator=make_generator(1)
    )
    weights, chance = output.log_weights.exp(), []
    for kind in (FULL, PADDED):
        world = ToyWorld.make(kind)
        law = grid_law(algorithm, world, grid(algorithm, 500), "ancestral")
        met = law * FirstTwoEqual().met(world.x0)
        chance.append(float(met.sum()))
        rows = ((output.x0 != PAD) == kind).all(dim=1) & (weights > 0)
        found = world.distribution(output.x0[rows], weights[rows])
        assert total_variation(found, met / met.sum()) < noise_floor(met, num // 8) + 2e-3
        share = float(weights[rows].sum() / weights.sum())
        if kind is FULL:
            of_full = share
    mean = sum(chance) / 2
    assert log_mean(output.log_weights) == pytest.approx(math.log(mean), abs=0.03)
    assert of_full == pytest.approx(chance[0] / sum(chance), abs=0.03)


def test_systematic_resampling_draws_each_row_as_often_as_it_weighs_on_average():
    weights = torch.tensor([0.15, 0.35, 0.05, 0.45], dtype=torch.float64)
    generator, num, times = make_generator(0), 3, 4_000
    drawn = torch.cat([systematic_rows(weights.log(), num, generator) for _ in range(times)])
    found = torch.bincount(drawn, minlength=4).double() / times
    error = 0.5 / times**0.5  # a number is one of two neighbours
    assert ((found - num * weights).abs() < 4.5 * error).all()


@pytest.mark.slow
@pytest.mark.parametrize("resample", [0.5, 1.0])
def test_the_variance_of_a_share_is_that_of_so_many_independent_samples(resample):
    """p (1 - p) / n, within a factor of 1.4 over tokens; the weights alone say twice as many."""
    sampler, runs, sets = Particles(constraint=ManyOnes(5), resample=resample), 60, 4
    shares, found, by_weights = [], [], []
    for run in range(runs):
        parts = [
            sampler.sample(model(), REAL.expand(16, -1), generator=make_generator(run, k))
            for k in range(sets)
        ]
        log_weights = torch.cat([part.log_weights for part in parts])
        weights = log_weights.softmax(dim=0)
        shares.append(weights @ torch.cat([part.x0 for part in parts]).double())
        found.append(effective_samples(parts, 4))
        by_weights.append(effective_number(log_weights))
    p, variance = torch.stack(shares).mean(dim=0), torch.stack(shares).var(dim=0)
    true = float((p * (1 - p)).sum() / variance.sum())
    for n in torch.tensor(found).quantile(torch.tensor([0.1, 0.5, 0.9])).tolist():
        assert 1 / 1.5 < n / true < 1.5
    assert 1 / 1.4 < float(torch.tensor(found).median()) / true < 1.4
    assert float(torch.tensor(by_weights).median()) > 1.6 * true


def of(x0, log_weights, ancestors=None):
    num = len(x0)
    return SampleOutput(
        torch.tensor(x0),
        torch.zeros(num).long(),
        torch.tensor(log_weights).double(),
        ancestors=None if ancestors is None else torch.tensor(ancestors),
    )


def test_copies_of_one_ancestor_count_once():
    rows = [[0], [0], [1], [1]]
    assert effective_samples([of(rows, [0.0] * 4)], 2) == pytest.approx(4.0)
    two = of(rows, [0.0] * 4, [0, 0, 2, 2])
    assert effective_samples([two], 2) == pytest.approx(4 / 3)
    three = of(rows, [0.0] * 4, [0, 0, 2, 3])
    assert 4 / 3 < effective_samples([three], 2) < 4
    unlike = of(rows, [0.0] * 4, [0, 1, 0, 1])  # no family differs from another: too few to tell
    assert effective_samples([unlike], 2) == pytest.approx(2.0)
    assert effective_samples([of([[1]], [0.0], [0]), of([[1]], [0.0], [0])], 2) == 2.0
    assert effective_samples([of(rows, [-torch.inf] * 4)], 2) == 0.0
