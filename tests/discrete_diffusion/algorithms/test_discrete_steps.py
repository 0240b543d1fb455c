"""MATHS check 5: the bound of T steps falls onto the continuous one as T grows, from above."""

from __future__ import annotations

import itertools

import pytest
import torch

from discrete_diffusion.categorical import log_one_hot
from discrete_diffusion.forward_process import Absorbing, ForwardProcess
from toy_world import LENGTH, VOCAB_SIZE, ToyWorld, all_schedules, toy_layout, uniform_process


def bound_of_steps(world: ToyWorld, process: ForwardProcess, steps: int) -> float:
    """sum over steps of E KL(q(xs | xt, x0) || p(xs | xt)) with the exact D, by enumeration.

    Both are the process's step posterior, with D a point mass on x0 and with the exact D; the last
    step (s = 0) then costs -log P(x0).
    """
    xt = world.states(process)
    times = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
    total = 0.0
    for s, t in itertools.pairwise(times):
        at_t, at_s = t.expand(len(xt)), s.expand(len(xt))
        reached = world.log_q(process, xt, t.unsqueeze(0)).sum(-1).exp()  # (S, K)
        log_d0 = world.log_d0(process, xt, t.unsqueeze(0))
        model = process.posterior_log_probs(xt, log_d0, at_t, at_s)
        for k, prob in enumerate(world.prob):
            clean = log_one_hot(world.x0[k].expand(len(xt), -1), VOCAB_SIZE, torch.float64)
            truth = process.posterior_log_probs(xt, clean, at_t, at_s)
            kl = (truth.exp() * (truth - model)).sum(-1).sum(-1)
            possible = reached[:, k] > 1e-200
            total += float(prob * (reached[:, k] * kl)[possible].sum())
    return total


@pytest.mark.slow
@pytest.mark.parametrize("make", [Absorbing, uniform_process])
def test_the_bound_of_t_steps_falls_to_the_entropy(make):
    layout = toy_layout()
    world, process = ToyWorld.make(), make(layout, all_schedules(layout)["log_linear"])
    bounds = [bound_of_steps(world, process, steps) for steps in (1, 2, 4, 16, 64)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] > world.entropy
    assert bounds[-1] - world.entropy < 1.3 / 64  # like 1 / T
    one_step = sum(  # T = 1 knows nothing but the marginals: the sum of their entropies
        float(-(p * p.log()).nan_to_num().sum())
        for p in torch.stack(
            [
                torch.zeros(VOCAB_SIZE, dtype=torch.float64).index_add_(
                    0, world.x0[:, position], world.prob
                )
                for position in range(LENGTH)
            ]
        )
    )
    assert bounds[0] == pytest.approx(one_step, abs=1e-9)


def test_one_absorbing_step_is_the_weighted_cross_entropy():
    """E KL of a step = (alpha_s - alpha_t) / (1 - alpha_t) sum over masked of -log D."""
    layout = toy_layout()
    process = Absorbing(layout, all_schedules(layout)["per_group"])
    world = ToyWorld.make()
    xt = world.states(process)
    t, s = torch.full((len(xt),), 0.8).double(), torch.full((len(xt),), 0.5).double()
    log_d0 = world.log_d0(process, xt, t[:1])
    x0 = world.x0[3].expand(len(xt), -1)
    truth = process.posterior_log_probs(xt, log_one_hot(x0, VOCAB_SIZE, torch.float64), t, s)
    model = process.posterior_log_probs(xt, log_d0, t, s)
    kl = (truth.exp() * (truth - model)).sum(-1)
    share = (process.alpha(s) - process.alpha(t)) / process.one_minus_alpha(t)
    nll = -log_d0.gather(-1, x0.unsqueeze(-1)).squeeze(-1)
    masked = xt == layout.mask_id
    torch.testing.assert_close(kl[masked], (share * nll)[masked], rtol=1e-9, atol=1e-12)
