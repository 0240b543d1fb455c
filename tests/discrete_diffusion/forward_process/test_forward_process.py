"""MATHS checks 1-3: normalisation, marginals, Bayes' rule by enumeration."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.categorical import log_one_hot, make_generator
from discrete_diffusion.forward_process import Absorbing, ForwardProcess, InterpolatingProcess
from discrete_diffusion.forward_process.registry import build_forward_process
from discrete_diffusion.noise_schedules import LogLinear, Schedule
from toy_algorithms import PROCESSES as SHIPPED
from toy_world import (
    FULL,
    LENGTH,
    MASK,
    PAD,
    PADDED,
    VOCAB_SIZE,
    ToyWorld,
    all_schedules,
    chain,
    marginal_process,
    toy_layout,
)

PROCESSES = {**SHIPPED, "any fixed prior": marginal_process}
SCHEDULES = list(all_schedules(toy_layout()))
T, S = torch.tensor([0.7], dtype=torch.float64), torch.tensor([0.3], dtype=torch.float64)


@pytest.fixture(params=SCHEDULES)
def schedule_name(request):
    return request.param


@pytest.fixture(params=list(PROCESSES))
def process(request, schedule_name) -> ForwardProcess:
    layout = toy_layout()
    return PROCESSES[request.param](layout, all_schedules(layout)[schedule_name])


@pytest.fixture(params=["full", "padded"])
def world(request) -> ToyWorld:
    return ToyWorld.make(FULL if request.param == "full" else PADDED)


def test_marginal_and_posterior_are_normalised(process, world):
    xt = world.states(process)
    log_d0 = world.log_d0(process, xt, T)
    for log_probs in (
        process.marginal_log_probs(log_d0, T),
        process.posterior_log_probs(xt, log_d0, T.expand(len(xt)), S.expand(len(xt))),
    ):
        total = log_probs.exp().sum(-1)[:, world.real]
        torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-12)
        assert (log_probs.exp()[:, world.real][..., PAD] == 0).all()
    reach = process.layout.support | (process.prior() > 0)
    unreachable = ~reach & world.real.unsqueeze(1)
    assert (process.marginal_log_probs(log_d0, T).exp()[:, unreachable] == 0).all()


def test_posterior_at_zero_is_the_ordinary_posterior(process, world):
    """s = 0 turns the leave-one-out D into p(x0_l | xt)."""
    xt = world.states(process)
    log_d0 = world.log_d0(process, xt, T)
    zero = torch.zeros(len(xt), dtype=torch.float64)
    p = process.posterior_log_probs(xt, log_d0, T.expand(len(xt)), zero).exp()
    exact = world.posterior(process, xt, T)
    torch.testing.assert_close(p[:, world.real], exact[:, world.real], rtol=0, atol=1e-12)


def test_step_posterior_is_bayes_rule(process, world):
    """p(xs_l | xt) from the full joint over x0 and xs_l, with q(xt | xs) from its definition."""
    xt = world.states(process)
    further, at_s = chain(process, S, T)[0], chain(process, torch.zeros_like(S), S)[0]
    position = torch.arange(LENGTH)
    log_q = world.log_q(process, xt, T)
    others = (log_q.sum(-1, keepdim=True) - log_q).exp()  # prod over k != l of q(xt_k | x0_k)
    exact = torch.zeros(len(xt), LENGTH, VOCAB_SIZE, dtype=torch.float64)
    for y in range(VOCAB_SIZE):
        q_s = at_s[position, world.x0, y]  # (K, 3): q_s(y | x0_l)
        step = further[position, y, xt]  # (S, 3): q(xt_l | xs_l = y)
        exact[..., y] = torch.einsum("skl,k,kl->sl", others, world.prob, q_s) * step
    exact = exact / exact.sum(-1, keepdim=True)
    log_d0 = world.log_d0(process, xt, T)
    p = process.posterior_log_probs(xt, log_d0, T.expand(len(xt)), S.expand(len(xt))).exp()
    torch.testing.assert_close(p[:, world.real], exact[:, world.real], rtol=0, atol=1e-12)


def test_chapman_kolmogorov(process):
    """sum over xs of q(xt | xs) q_s(xs | x0) = q_t(xt | x0)."""
    zero, cells = torch.zeros_like(S), process.matrix_index()
    q_s, step, q_t = (
        process.transition(*times)[0][cells] for times in ((zero, S), (S, T), (zero, T))
    )
    assert (step >= -1e-15).all()
    torch.testing.assert_close(q_s @ step, q_t, rtol=0, atol=1e-12)
    rows = process.layout.support | (process.prior() > 0)
    for found, times in ((step, (S, T)), (q_t, (zero, T))):
        torch.testing.assert_close(found[rows], chain(process, *times)[0][rows], rtol=0, atol=1e-12)


def test_rates_are_non_negative_and_match_finite_differences(process):
    t = torch.linspace(0.02, 0.98, 49, dtype=torch.float64)
    off = ~torch.eye(VOCAB_SIZE, dtype=torch.bool)
    assert (process.rates(t)[..., off] >= 0).all()
    h = 1e-8
    rows = process.layout.support | (process.prior() > 0)
    found = (process.rates(T)[0][process.matrix_index()] * off)[rows]
    expected = (chain(process, T, T + h)[0] * off / h)[rows]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_corrupt_follows_the_marginal(process, world):
    """Empirical q_t(. | x0) within 4.5 standard errors at every position and id."""
    num = 40_000
    x0 = world.x0[5].expand(num, -1)
    real = world.real.expand(num, -1)
    xt = process.corrupt(x0, T.expand(num), real, make_generator(3))
    exact = process.marginal_log_probs(log_one_hot(x0[:1], VOCAB_SIZE, torch.float64), T).exp()[0]
    share = torch.stack([(xt == y).double().mean(0) for y in range(VOCAB_SIZE)], dim=-1)
    error = (exact * (1 - exact) / num).sqrt()
    assert ((share - exact).abs() <= 4.5 * error + 1e-12)[world.real].all()
    assert (xt[:, ~world.real] == PAD).all()


def test_masked_share_is_one_minus_alpha(schedule_name):
    layout = toy_layout()
    process = Absorbing(layout, all_schedules(layout)[schedule_name])
    num = 40_000
    t = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64).repeat_interleave(num)
    x0 = ToyWorld.make().x0[:1].expand(3 * num, -1)
    xt = process.corrupt(x0, t, torch.ones_like(x0, dtype=torch.bool), make_generator(5))
    share = (xt == MASK).double().reshape(3, num, LENGTH).mean(1)
    expected = process.one_minus_alpha(t[::num]).expand(3, LENGTH)
    error = (expected * (1 - expected) / num).sqrt()
    assert ((share - expected).abs() <= 4.5 * error + 1e-12).all()


@pytest.mark.parametrize("time", [1.0, 0.7, 0.05])
@pytest.mark.parametrize("earlier", [0.0, 0.02])
def test_absorbing_closed_form_equals_the_general_posterior(schedule_name, time, earlier):
    layout = toy_layout()
    process = Absorbing(layout, all_schedules(layout)[schedule_name])
    world = ToyWorld.make()
    xt = world.states(process)
    if time == 1.0:
        xt = xt[(xt == MASK).all(dim=1)]
    log_d0 = world.log_d0(process, xt, T)
    t = torch.full((len(xt),), time, dtype=torch.float64)
    s = torch.full((len(xt),), earlier, dtype=torch.float64)
    closed = process.posterior_log_probs(xt, log_d0, t, s).exp()
    general = InterpolatingProcess.posterior_log_probs(process, xt, log_d0, t, s).exp()
    torch.testing.assert_close(closed, general, rtol=0, atol=1e-12)


def test_prior_sample_is_the_prior_and_keeps_padding(process):
    real = torch.stack([FULL, PADDED]).repeat(20_000, 1)
    x1 = process.prior_sample(real, make_generator(1))
    assert (x1[~real] == PAD).all()
    prior = process.prior()
    for position in range(LENGTH):
        column = x1[:, position][real[:, position]]
        share = torch.bincount(column, minlength=VOCAB_SIZE).double() / len(column)
        error = (prior[position] * (1 - prior[position]) / len(column)).sqrt()
        assert ((share - prior[position]).abs() <= 4.5 * error + 1e-12).all()


def test_sigma_is_minus_log_of_the_mean_alpha_with_a_floor():
    layout = toy_layout()
    process = Absorbing(layout, all_schedules(layout)["per_group"])
    real = torch.stack([FULL, PADDED])
    t = torch.tensor([0.5, 0.5], dtype=torch.float64)
    alpha = torch.tensor([(0.75 + 0.5 + 0.5) / 3, (0.75 + 0.5) / 2])
    torch.testing.assert_close(process.sigma(t, real), -alpha.log())
    top = process.sigma(torch.ones(2, dtype=torch.float64), real)
    torch.testing.assert_close(top, torch.full((2,), 9.2103404))
    assert process.sigma(torch.zeros(2, dtype=torch.float64), real).tolist() == [0.0, 0.0]


def test_a_process_with_negative_rates_is_refused():
    class Bump(LogLinear):
        def alpha(self, t):
            return 1 - t + 0.2 * torch.sin(6.0 * torch.pi * t)

    with pytest.raises(ValueError, match="negative rates"):
        Absorbing(toy_layout(), Bump())


def test_unknown_process_names_the_closest():
    with pytest.raises(ValueError, match="did you mean 'absorbing'"):
        build_forward_process({"name": "absorbin"}, toy_layout(), LogLinear())


def test_schedule_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Schedule()
