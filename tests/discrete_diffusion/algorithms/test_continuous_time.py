"""What logits may stand for under noise that leaves doubt about visible tokens."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.algorithms import UDLM, build_algorithm
from discrete_diffusion.categorical import log_softmax_on, make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.forward_process import Uniform
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.noise_schedules import LogLinear
from toy_algorithms import ZeroBackbone
from toy_world import VOCAB_SIZE, ToyWorld, toy_layout


def udlm(**options) -> UDLM:
    return UDLM(ZeroBackbone(), Uniform(toy_layout(), LogLinear()), **options)


def states(world: ToyWorld) -> torch.Tensor:
    return world.x0  # under uniform noise every clean sequence can be a noisy one, and no other


def test_posterior_logits_become_the_ratios_of_the_textbook():
    """Averaging the ratio over P equals D proportional to P / q_t(z | x0): for y != z

    ratio(y) = b(y) [ (1 - P(z)) / b(z) + P(z) / (b(z) + alpha) ] + alpha P(y) / b(z)
    """
    algorithm, world = udlm(parameterization="posterior"), ToyWorld.make()
    process, layout = algorithm.process, algorithm.layout
    xt = states(world)
    logits = torch.randn(len(xt), 3, VOCAB_SIZE, dtype=torch.float64, generator=make_generator(0))
    algorithm.logits = lambda *_: logits
    t = torch.full((len(xt),), 0.35, dtype=torch.float64)
    log_d0 = algorithm.denoise(xt, t, world.real.expand(len(xt), -1))
    log_q = process.marginal_log_probs(log_d0, t)
    z = xt.unsqueeze(-1)
    ratio = (log_q - log_q.gather(-1, z)).exp()
    p = log_softmax_on(logits, layout.support).exp()
    alpha, b = process.alpha(t).unsqueeze(-1), process.noise(t)
    b_z, p_z = b.gather(-1, z), p.gather(-1, z)
    expected = b * ((1 - p_z) / b_z + p_z / (b_z + alpha)) + alpha * p / b_z
    other = layout.support & (torch.arange(VOCAB_SIZE) != z)
    torch.testing.assert_close(ratio[other], expected[other])


def test_unknown_options_name_those_there_are():
    with pytest.raises(ValueError, match="did you mean 'leave_one_out'"):
        udlm(parameterization="leave_one")
    with pytest.raises(ValueError, match="did you mean 'importance'"):
        udlm(draw="importanc")


def test_fitted_on_diagrams_its_noise_has_their_frequencies():
    algorithm = build_algorithm(compose("train", ["algo=marginal", "model=bd_tiny"]))
    vocab = RPLAN_VOCAB_CONFIG
    real = vocab.real_positions(torch.full((100,), 5))
    x0 = torch.where(real, algorithm.layout.support.long().argmax(dim=1), vocab.pad_id)
    algorithm.process.fit(x0, real)
    pi = algorithm.process.prior()
    rooms, relations = 500, 1000
    torch.testing.assert_close(pi[0, 0], torch.tensor((rooms + 1) / (rooms + 13)).double())
    torch.testing.assert_close(pi[8, 15], torch.tensor((relations + 1) / (relations + 11)).double())
    assert (pi[algorithm.layout.support] > 0).all()
    torch.testing.assert_close(pi.sum(1), torch.ones(36).double())
    assert "process.pi" in algorithm.state_dict()  # a checkpoint carries it
