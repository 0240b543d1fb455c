"""What logits may stand for under noise that leaves doubt about visible tokens."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.algorithms import UDLM, build_algorithm, general_bound
from discrete_diffusion.categorical import log_softmax_on, make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Uniform
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.noise_schedules import LogLinear
from toy_algorithms import PROCESSES, ZeroBackbone, leave_one_out
from toy_world import VOCAB_SIZE, ToyWorld, quadrature, toy_layout


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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uniform", "marginal", "hybrid"])
def test_the_ordinary_posterior_in_the_place_of_d_is_looser(name):
    world = ToyWorld.make()
    process = PROCESSES[name](toy_layout(), LogLinear())
    reach = toy_layout().support.clone()
    reach[:, 4] = name == "hybrid"
    xt = torch.cartesian_prod(*[row.nonzero().flatten() for row in reach])
    real, loose = world.real.expand(len(xt), -1), 0.0
    for t, weight in quadrature(30):
        at = t.expand(len(xt))
        log_p = leave_one_out(process, xt, at, real, posterior=True)
        mass = world.log_q(process, xt, t).sum(-1).exp() * world.prob
        for k in range(len(world.x0)):
            x0 = world.x0[k].expand(len(xt), -1)
            terms = general_bound(process, xt, x0, log_p, at, real).sum(1)
            loose += weight * float((mass[:, k] * terms)[mass[:, k] > 1e-200].sum())
    assert loose > world.entropy + 0.5


def test_untrained_posterior_logits_have_a_bound_that_grows_as_t_nears_0():
    """Zero logits for D cost sum log K at every t; for P the integrand grows like 1 / t."""
    world = ToyWorld.make()
    real = world.real.expand(len(world.x0), -1)
    cost = {}
    for kind in ("leave_one_out", "posterior"):
        algorithm = udlm(parameterization=kind)
        for time in (1e-2, 1e-4):
            t = torch.full((len(world.x0),), time, dtype=torch.float64)
            log_d0 = algorithm.denoise(world.x0, t, real).double()
            terms = general_bound(algorithm.process, world.x0, world.x0, log_d0, t, real)
            cost[kind, time] = float(terms.sum(1).mean())
    assert cost["posterior", 1e-4] > 50 * cost["posterior", 1e-2]
    assert cost["leave_one_out", 1e-4] < 2 * cost["leave_one_out", 1e-2]


def test_without_time_conditioning_the_backbone_sees_none():
    seen = []

    class Spy(ZeroBackbone):
        def forward(self, x_t, sigma=None):
            seen.append(sigma)
            return super().forward(x_t)

    world = ToyWorld.make()
    batch = Batch(world.x0, world.real.expand(len(world.x0), -1))
    process = Uniform(toy_layout(), LogLinear())
    for conditioned in (True, False):
        UDLM(Spy(), process, time_conditioning=conditioned).loss(batch, make_generator(0))
    assert seen[0].dtype == torch.float32
    assert seen[1] is None


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
