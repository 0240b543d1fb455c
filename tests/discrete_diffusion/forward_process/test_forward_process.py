"""Transitions by their definition, sigma, times of masked shares; ``check_process`` has the rest.

``test_checked_processes.py`` derives posteriors, marginals and samples from the transitions.
"""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.forward_process import Absorbing, InterpolatingProcess
from toy_algorithms import PROCESSES
from toy_world import (
    FULL,
    LENGTH,
    MASK,
    PADDED,
    ToyWorld,
    all_schedules,
    chain,
    marginal_process,
    toy_layout,
)

T, S = torch.tensor([0.7], dtype=torch.float64), torch.tensor([0.3], dtype=torch.float64)


def absorbing(schedule: str) -> Absorbing:
    return Absorbing(toy_layout(), all_schedules(toy_layout())[schedule])


@pytest.mark.parametrize("schedule", ["cosine", "per_group"])
@pytest.mark.parametrize("make", [*PROCESSES.values(), marginal_process])
def test_transitions_are_those_of_the_definition(make, schedule):
    process = make(toy_layout(), all_schedules(toy_layout())[schedule])
    rows = process.layout.support | (process.prior() > 0)
    for times in ((torch.zeros_like(S), S), (S, T)):
        step = process.transition(*times)[0][process.matrix_index()][rows]
        torch.testing.assert_close(step, chain(process, *times)[0][rows], rtol=0, atol=1e-12)


@pytest.mark.parametrize("schedule", ["cosine", "per_group"])
def test_absorbing_closed_forms_are_the_general_ones(schedule):
    """The posterior, and sampling of more noise bit for bit."""
    process, world = absorbing(schedule), ToyWorld.make()
    xt = world.states(process)
    log_d0 = world.log_d0(process, xt, T)
    for time, earlier in ((0.7, 0.0), (0.05, 0.02)):
        t, s = (torch.full((len(xt),), x, dtype=torch.float64) for x in (time, earlier))
        closed = process.posterior_log_probs(xt, log_d0, t, s).exp()
        general = InterpolatingProcess.posterior_log_probs(process, xt, log_d0, t, s).exp()
        torch.testing.assert_close(closed, general, rtol=0, atol=1e-12)
    real = torch.ones_like(xt, dtype=torch.bool)
    own = process.corrupt_further(xt, s, t, real, make_generator(3))
    general = InterpolatingProcess.corrupt_further(process, xt, s, t, real, make_generator(3))
    assert torch.equal(own, general)
    assert (own[xt == MASK] == MASK).all()


def test_sigma_is_minus_log_of_the_mean_alpha_with_a_floor():
    process, real = absorbing("per_group"), torch.stack([FULL, PADDED])
    t = torch.tensor([0.5, 0.5], dtype=torch.float64)
    alpha = torch.tensor([(0.75 + 0.5 + 0.5) / 3, (0.75 + 0.5) / 2])
    torch.testing.assert_close(process.sigma(t, real), -alpha.log())
    top = process.sigma(torch.ones(2, dtype=torch.float64), real)
    torch.testing.assert_close(top, torch.full((2,), 9.2103404))
    assert process.sigma(torch.zeros(2, dtype=torch.float64), real).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("schedule", ["cosine", "per_group"])
def test_time_of_share_inverts_the_masked_share(schedule):
    """The mean of 1 - alpha over some of the positions, which differ where the schedule does."""
    process = absorbing(schedule)
    share = torch.tensor([1e-6, 0.01, 1 / 3, 0.5, 0.99, 1 - 1e-9], dtype=torch.float64)
    for among in (FULL, PADDED, FULL & torch.tensor([False, True, True])):
        rows = among.expand(len(share), -1)
        t = process.time_of_share(share, rows)
        hidden = process.one_minus_alpha(t).expand(-1, LENGTH)
        mean = (hidden * rows).sum(dim=1) / rows.sum(dim=1)
        torch.testing.assert_close(mean, share, rtol=1e-8, atol=1e-12)
    first, last = process.time_of_share(torch.tensor([0.0, 1.0]).double(), FULL.expand(2, -1))
    assert 0 < first < 1e-12
    assert 1 - 1e-12 < last <= 1
    assert process.time_of_share(torch.zeros(0).double(), FULL.expand(0, -1)).shape == (0,)
