"""D3PM: how steps are drawn, and that the absorbing form is the general one."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.algorithms import D3PM
from discrete_diffusion.algorithms.time_sampling import WEIGHTED_DRAWS
from discrete_diffusion.categorical import log_one_hot, log_softmax_on, make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.noise_schedules import Cosine
from toy_algorithms import PROCESSES, ZeroBackbone
from toy_world import MASK, VOCAB_SIZE, ToyWorld, toy_layout


def d3pm(name: str = "absorbing", num_steps: int = 10, **options) -> D3PM:
    process = PROCESSES[name](toy_layout(), Cosine())
    return D3PM(ZeroBackbone(), process, num_steps=num_steps, **options)


@pytest.mark.parametrize("how", WEIGHTED_DRAWS)
def test_weights_are_inverse_probabilities(how):
    """Steps are 1..T, and E[weight [step = i]] = 1 for every one of them."""
    algorithm, num = d3pm(num_steps=7), 140_000
    step, weight = algorithm.sample_steps(how, num, make_generator(0), "cpu")
    assert set(step.tolist()) == set(range(1, 8))
    for i in range(1, 8):
        assert (weight * (step == i)).mean() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("interval", [(0.5, 0.4), (0.1, 0.0)])
def test_absorbing_step_is_the_kl_of_the_posteriors(interval):
    algorithm, world = d3pm(), ToyWorld.make()
    process = algorithm.process
    assert isinstance(process, Absorbing)
    x0 = world.x0
    t, s = (torch.full((len(x0),), v, dtype=torch.float64) for v in interval)
    xt = process.corrupt(x0, t, torch.ones_like(x0, dtype=torch.bool), make_generator(2))
    logits = torch.randn(len(x0), 3, VOCAB_SIZE, dtype=torch.float64, generator=make_generator(1))
    log_d0 = log_softmax_on(logits, algorithm.layout.support)
    truth = process.posterior_log_probs(xt, log_one_hot(x0, VOCAB_SIZE, torch.float64), t, s)
    model = process.posterior_log_probs(xt, log_d0, t, s)
    kl = (truth.exp() * (truth - model)).sum(-1)
    found = algorithm.step_terms(xt, x0, log_d0, t, s)
    torch.testing.assert_close(found, kl, atol=1e-12, rtol=1e-9)
    assert (found[xt != MASK] == 0).all()


@pytest.mark.parametrize("name", ["absorbing", "hybrid"])
def test_one_step_sees_nothing(name):
    """T = 1 starts from the prior: with zero logits, sum log K exactly, for every draw of it."""
    algorithm, world = d3pm(name, num_steps=1), ToyWorld.make()
    data = Batch(world.x0, world.real.expand(len(world.x0), -1))
    nelbo = algorithm.loss(data, make_generator(0)).nelbo
    torch.testing.assert_close(nelbo, torch.full_like(nelbo, world.sum_log_k))


@pytest.mark.parametrize("name", ["absorbing", "uniform", "matrix"])
def test_the_last_step_prices_what_underflows_in_float32(name):
    """-log P(x0) of about 150, with a gradient."""
    algorithm, world = d3pm(name), ToyWorld.make()
    x0 = world.x0
    log_d0 = torch.full((*x0.shape, VOCAB_SIZE), -150.0)
    log_d0.scatter_(-1, ((x0 + 1) % 4).unsqueeze(-1), 0.0)
    log_d0 = log_softmax_on(log_d0, algorithm.layout.support).requires_grad_()
    t = torch.full((len(x0),), 0.1, dtype=torch.float64)
    xt = algorithm.process.corrupt(x0, t, torch.ones_like(x0, dtype=torch.bool), make_generator(0))
    terms = algorithm.step_terms(xt, x0, log_d0, t, torch.zeros_like(t))
    terms.sum().backward()
    assert terms.max() < 200
    assert log_d0.grad is not None
    assert log_d0.grad.isfinite().all()
