"""What logits may stand for under noise that leaves doubt about visible tokens."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.algorithms import D3PM, GIDD, SEDD, UDLM, build_algorithm, general_bound
from discrete_diffusion.algorithms.time_sampling import WEIGHTED_DRAWS
from discrete_diffusion.categorical import log_one_hot, log_softmax_on, make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing, Hybrid, Uniform
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.noise_schedules import Cosine, LogLinear
from toy_algorithms import PROCESSES, ZeroBackbone, leave_one_out
from toy_samplers import fitting_samplers
from toy_world import LENGTH, MASK, VOCAB_SIZE, ToyWorld, toy_layout


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


def gidd(**options) -> GIDD:
    return GIDD(ZeroBackbone(), Hybrid(toy_layout(), LogLinear(), p_uniform=0.3), **options)


def test_dynamic_weight_by_kind_of_token():
    """2 at a MASK, 1 at a wrong token, b / (alpha + b) at an untouched one."""
    algorithm = gidd()
    process, t = algorithm.process, torch.full((1,), 0.3, dtype=torch.float64)
    x0, xt = torch.tensor([[0, 1, 2]]), torch.tensor([[MASK, 3, 2]])
    factor = algorithm.training_weight(xt, x0, t)
    rate = process.jump_rates(t)[0, torch.arange(LENGTH), xt[0]]
    noise = process.noise(t)[0, torch.arange(LENGTH), xt[0]]
    q = noise + process.alpha(t)[0] * (xt == x0)[0]
    expected = torch.stack([q[0].new_tensor(2.0), q[0].new_tensor(1.0), (noise / q)[2]])
    torch.testing.assert_close(factor[0] * rate / q, expected)


@pytest.mark.parametrize("weighting", ["dynamic", "elbo"])
def test_the_exact_denoiser_is_a_stationary_point(weighting):
    """The gradient of E[weighted term] with respect to the logits vanishes at the exact D."""
    algorithm, world = gidd(weighting=weighting), ToyWorld.make()
    process = algorithm.process
    xt = torch.cartesian_prod(
        *[torch.tensor([*ids, MASK]) for ids in ((0, 1, 2), (0, 1, 2, 3), (2, 3))]
    )
    t = torch.full((1,), 0.4, dtype=torch.float64)
    at, real = t.expand(len(xt)), world.real.expand(len(xt), -1)
    for shift in (0.0, 0.5):
        logits = leave_one_out(process, xt, at, real).clamp(min=-50)
        logits = (logits + shift * torch.linspace(-1, 1, 6)).requires_grad_()
        log_d0 = log_softmax_on(logits, algorithm.layout.support)
        mass = world.log_q(process, xt, t).sum(-1).exp() * world.prob
        total = torch.zeros((), dtype=torch.float64)
        for k in range(len(world.x0)):
            x0 = world.x0[k].expand(len(xt), -1)
            terms = general_bound(process, xt, x0, log_d0, at, real)
            weight = algorithm.training_weight(xt, x0, at)
            total = total + (mass[:, k, None] * weight * terms).sum()
        (gradient,) = torch.autograd.grad(total, logits)
        assert (gradient.abs().max() < 1e-9) == (shift == 0.0)


def test_the_reported_bound_has_the_elbo_weight():
    world = ToyWorld.make()
    batch = Batch(world.x0, world.real.expand(len(world.x0), -1))
    dynamic = gidd(time_sampling="importance").loss(batch, make_generator(1))
    elbo = gidd(weighting="elbo", time_sampling="importance").loss(batch, make_generator(1))
    assert torch.equal(dynamic.nelbo, elbo.nelbo)
    assert elbo.loss.item() == pytest.approx(elbo.nelbo.mean().item() / LENGTH, rel=1e-6)
    assert dynamic.loss.item() != pytest.approx(elbo.loss.item(), rel=1e-2)


class TableBackbone(ZeroBackbone):
    """Random logits, the same for the same input."""

    def forward(self, x_t, sigma=None):
        table = torch.randn(VOCAB_SIZE, 3, VOCAB_SIZE, generator=make_generator(7))
        return table[x_t.sum(dim=1) % VOCAB_SIZE]


def world_batch() -> Batch:
    world = ToyWorld.make()
    return Batch(world.x0, world.real.expand(len(world.x0), -1))


def test_absorbing_closed_form_is_the_general_bound():
    process = Absorbing(toy_layout(), Cosine())
    algorithm, data = SEDD(TableBackbone(), process), world_batch()
    t = torch.full((len(data),), 0.4, dtype=torch.float64)
    xt = process.corrupt(data.x0, t, data.real, make_generator(0))
    log_g = algorithm.log_prediction(xt, t, data.real).double()
    general = general_bound(process, xt, data.x0, log_g, t, data.real)
    g0 = log_g.gather(-1, data.x0.unsqueeze(-1)).squeeze(-1)
    closed = process.weight(t) * (log_g.exp().sum(-1) - 1 - g0) * (xt == MASK)
    torch.testing.assert_close(general, closed)


def test_large_logits_at_visible_tokens_do_no_harm():
    """They are not trained, so nothing keeps them small."""

    class Loud(ZeroBackbone):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(()))

        def forward(self, x_t, sigma=None):
            logits = super().forward(x_t) + self.weight
            return torch.where((x_t != MASK).unsqueeze(-1), 500.0 * logits, logits)

    algorithm = SEDD(Loud(), Absorbing(toy_layout(), LogLinear()))
    output = algorithm.loss(world_batch(), make_generator(0))
    output.loss.backward()
    assert output.nelbo.isfinite().all()
    assert algorithm.backbone.weight.grad.isfinite()


@pytest.mark.parametrize("make", [Absorbing, Uniform])
def test_the_best_draw_and_the_samplers_follow_the_noise(make):
    algorithm = SEDD(ZeroBackbone(), make(toy_layout(), LogLinear()))
    absorbing = make is Absorbing
    assert algorithm.time_sampling == algorithm.evaluation_draw
    assert algorithm.time_sampling == ("uniform_count" if absorbing else "importance")
    assert ("first-hitting" in fitting_samplers(algorithm)) == absorbing


# -- discrete time ---------------------------------------------------------------------------------


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
