"""Draws of t: the same mean for any integrand, whatever their density."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.algorithms.draws import (
    TIME_DRAWS,
    WEIGHTED_DRAWS,
    draw_times,
    draw_weighted_times,
    vanishing_power,
)
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.forward_process import Hybrid, Uniform
from discrete_diffusion.noise_schedules import LogLinear
from toy_world import all_schedules, toy_layout

SCHEDULES = list(all_schedules(toy_layout()))


@pytest.mark.parametrize("how", TIME_DRAWS)
def test_times_are_uniform_and_never_zero(how):
    t = torch.cat([draw_times(how, 101, make_generator(k), "cpu") for k in range(200)])
    assert (t > 0).all()
    assert (t <= 1).all()
    share = torch.histc(t.float(), bins=10, min=0, max=1) / len(t)
    assert (share - 0.1).abs().max() < 0.015


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("how", WEIGHTED_DRAWS)
def test_weights_undo_the_density(how, name):
    """E[weight f(t)] = integral of f, for functions that look at either end of [0, 1]."""
    process = Uniform(toy_layout(), all_schedules(toy_layout())[name])
    t, weight = draw_weighted_times(how, process, 400_000, make_generator(0), "cpu")
    assert ((t > 0) & (t < 1)).all()
    for power in (0.0, 0.5, 1.0, 4.0):
        for value in (t**power, (1 - t) ** power):
            draws = weight * value
            error = 5 * draws.std() / len(t) ** 0.5 + 1e-9
            assert abs(draws.mean() - 1 / (power + 1)) < error


def test_importance_draws_follow_the_corrupted_share():
    """1 - alpha = v^2 with v evenly spread: a quarter of the times has less than 1/16 corrupted."""
    process = Uniform(toy_layout(), all_schedules(toy_layout())["cosine"])
    t, _ = draw_weighted_times("importance", process, 1000, make_generator(0), "cpu")
    share = process.one_minus_alpha(t).squeeze(1)
    for v in (0.1, 0.25, 0.5, 0.9):
        assert (share < v**2).double().mean() == pytest.approx(v, abs=0.002)


@pytest.mark.parametrize(("gamma", "power"), [(2.0, 1.0), (1.0, 0.5), (0.5, 0.25)])
def test_importance_draws_follow_how_fast_noise_sets_in(gamma, power):
    """Hybrid noise touches a token with probability ~ share^(gamma/2): t = v^(4/gamma)."""
    process = Hybrid(toy_layout(), LogLinear(), gamma=gamma)
    assert vanishing_power(process, torch.device("cpu")) == power
    t, weight = draw_weighted_times("importance", process, 1000, make_generator(0), "cpu")
    torch.testing.assert_close(weight, 2 / power * t ** (1 - power / 2), rtol=1e-9, atol=0)


def test_unknown_draws_name_those_there_are():
    process = Uniform(toy_layout(), all_schedules(toy_layout())["cosine"])
    with pytest.raises(ValueError, match="did you mean 'importance'"):
        draw_weighted_times("importanc", process, 3, make_generator(0), "cpu")
