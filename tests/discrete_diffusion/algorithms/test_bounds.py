"""The general bound against its definition, jump by jump."""

from __future__ import annotations

from itertools import accumulate

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from discrete_diffusion.algorithms import general_bound
from discrete_diffusion.categorical import log_softmax_on, make_generator
from discrete_diffusion.forward_process import InterpolatingProcess, base
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import LogLinear
from toy_algorithms import PROCESSES
from toy_world import PAD, ToyWorld, all_schedules, chain, toy_layout


def jump_by_jump(process, xt, x0, log_d0, t):
    """sum over y != z of r_hat (expm1(u) - u), u = log r_theta - log r_hat; (B, L)."""
    chains = chain(process, torch.zeros_like(t), t).expand(len(t), -1, -1, -1)
    rates = process.rates(t)[:, process.matrix_index()]
    out = torch.zeros(xt.shape, dtype=torch.float64)
    for b, row in enumerate(xt.tolist()):
        for position, z in enumerate(row):
            scores = log_d0[b, position].exp()
            big_q = scores @ chains[b, position]
            if isinstance(process, InterpolatingProcess):  # alpha G + b, whatever G sums to
                big_q = big_q + (1 - scores.sum()) * process.noise(t[b : b + 1])[0, position]
            q = chains[b, position, x0[b, position]]
            for y in range(len(q)):
                rate = rates[b, position, y, z]
                if y == z or rate == 0:
                    continue
                r_theta, r_hat = rate * big_q[y] / big_q[z], rate * q[y] / q[z]
                if r_hat == 0:
                    out[b, position] += r_theta
                    continue
                u = r_theta.log() - r_hat.log()
                out[b, position] += r_hat * (torch.expm1(u) - u)
    return out


def example(name: str, schedule: str, num: int = 40):
    layout = toy_layout()
    process = PROCESSES[name](layout, all_schedules(layout)[schedule])
    world, generator = ToyWorld.make(), make_generator(3)
    x0 = world.x0[torch.randint(len(world.x0), (num,), generator=generator)]
    real = torch.ones_like(x0, dtype=torch.bool)
    logits = torch.randn(num, 3, 6, dtype=torch.float64, generator=generator)
    return process, x0, real, log_softmax_on(logits, layout.support)


@pytest.mark.parametrize("name", list(PROCESSES))
def test_it_is_the_sum_over_jumps(name):
    """Near both ends of time too, where the terms are tiny differences or huge ratios."""
    process, x0, real, log_d0 = example(name, "per_group")
    for time in (1e-9, 1e-3, 0.3, 0.9, 0.999, 1 - 1e-7):
        t = torch.full((len(x0),), time, dtype=torch.float64)
        xt = process.corrupt(x0, t, real, make_generator(4))
        found = general_bound(process, xt, x0, log_d0, t, real)
        expected = jump_by_jump(process, xt, x0, log_d0, t)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["hybrid", "matrix"])
def test_padding_costs_nothing_and_has_no_gradient(name):
    process = PROCESSES[name](toy_layout(), LogLinear())
    x0 = torch.tensor([[0, 1, PAD], [2, 3, 2]])
    real = x0 != PAD
    logits = torch.zeros(2, 3, 6, dtype=torch.float64, requires_grad=True)
    t = torch.tensor([0.5, 0.7], dtype=torch.float64)
    xt = process.corrupt(x0, t, real, make_generator(0))
    terms = general_bound(process, xt, x0, log_softmax_on(logits, process.layout.support), t, real)
    terms.sum().backward()
    assert terms[0, 2] == 0
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert (logits.grad[0, 2] == 0).all()


@pytest.mark.parametrize("name", list(PROCESSES))
def test_its_gradient_is_that_of_the_sum_over_jumps(name):
    """Of a weighted sum over positions, with scores that are not normalised."""
    process, x0, real, log_d0 = example(name, "per_group", num=12)
    log_d0[:6] += torch.linspace(-2, 2, 3, dtype=torch.float64)[:, None] * process.layout.support
    weight = torch.linspace(0.5, 2, 36, dtype=torch.float64).reshape(12, 3)
    t = torch.tensor([1e-6, 0.2, 0.95], dtype=torch.float64).repeat(4)
    xt = process.corrupt(x0, t, real, make_generator(4))
    xt[::2] = process.sample_noise(t, make_generator(5))[::2]

    def gradient(bound):
        leaf = log_d0.clone().requires_grad_()
        return torch.autograd.grad((weight * bound(leaf)).sum(), leaf)[0]

    found = gradient(lambda d: general_bound(process, xt, x0, d, t, real))
    expected = gradient(lambda d: jump_by_jump(process, xt, x0, d, t))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("at_once", [1, 13])
@pytest.mark.parametrize("name", ["uniform", "hybrid"])
def test_parts_change_nothing(name, at_once, monkeypatch):
    process, x0, real, log_d0 = example(name, "per_group")
    t = torch.linspace(0.01, 0.99, len(x0), dtype=torch.float64)
    xt = process.corrupt(x0, t, real, make_generator(4))
    found = []
    for most in (base.AT_ONCE, at_once):
        monkeypatch.setattr(base, "AT_ONCE", most)
        leaf = log_d0.clone().requires_grad_()
        terms = general_bound(process, xt, x0, leaf, t, real)
        terms.square().sum().backward()
        found.append((terms.detach(), leaf.grad))
    for whole, in_parts in zip(*found, strict=True):
        torch.testing.assert_close(in_parts, whole, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("name", "num"), [("uniform", 1), ("hybrid", 4)])
def test_many_ids_need_little_memory(name, num):
    """The bound and its gradient: at most three times log D in float32, which are two: what is kept
    for the gradient, and the gradient."""
    size, length = 30_000, 64 // num
    support = torch.ones(length, size, dtype=torch.bool)
    support[:, -1] = False
    layout = TokenLayout(support, mask_id=size - 1, group=torch.zeros(length, dtype=torch.long))
    process = PROCESSES[name](layout, LogLinear())
    x0 = torch.arange(num * length).reshape(num, length)
    log_d0 = torch.zeros(num, length, size, requires_grad=True)
    t = torch.full((num,), 0.5, dtype=torch.float64)
    real = torch.ones_like(x0, dtype=torch.bool)
    xt = process.corrupt(x0, t, real, make_generator(0))

    def work():
        general_bound(process, xt, x0, log_d0, t, real).sum().backward()

    assert peak_of_tensors(work) < 3 * log_d0.nbytes


def peak_of_tensors(work) -> int:
    """Bytes of tensors alive at once that were made in ``work``, as PyTorch's allocator counts."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        work()
    events = [e for e in found.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return max(accumulate(event.nbytes() for event in events))
