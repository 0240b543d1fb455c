"""Transitions by their definition, sigma, times of masked shares; ``check_process`` has the rest.

``test_checked_processes.py`` derives posteriors, marginals and samples from the transitions.
"""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.forward_process import (
    Absorbing,
    Hybrid,
    InterpolatingProcess,
    Marginal,
    Uniform,
)
from discrete_diffusion.forward_process.registry import build_forward_process
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import Cosine, LogLinear
from toy_algorithms import PROCESSES
from toy_world import (
    FULL,
    LEGAL,
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


# -- uniform, marginal and hybrid noise ------------------------------------------------------------


def test_marginal_counts_a_group_and_smooths():
    """pi of a position: counts of its group plus the smoothing, on its own legal ids."""
    layout = toy_layout()
    process = Marginal(layout, LogLinear(), smoothing=2.0)
    assert torch.equal(process.prior(), layout.uniform_log_probs().exp())  # until fitted
    x0 = torch.tensor([[0, 3, 2], [0, 3, 3], [1, 2, 5], [2, 0, 3]])
    real = torch.tensor([[True] * 3, [True] * 3, [True, True, False], [False] * 3])  # last: given
    process.fit(x0, real)
    node = torch.tensor([4.0, 3.0, 2.0]).double()  # counts 2, 1, 0
    torch.testing.assert_close(process.prior()[0, :3], node / node.sum())
    edge = torch.tensor([2.0, 2.0, 4.0, 5.0]).double()  # counts 0, 0, 2, 3 over both positions
    torch.testing.assert_close(process.prior()[1, :4], edge / edge.sum())
    torch.testing.assert_close(process.prior()[2, 2:4], edge[2:] / edge[2:].sum())
    assert (process.prior()[~layout.support] == 0).all()
    again = Marginal(layout, LogLinear())
    again.load_state_dict(process.state_dict())
    assert torch.equal(again.prior(), process.prior())


@pytest.mark.parametrize(("p_uniform", "gamma"), [(0.1, 0.5), (0.9, 2.0)])
def test_hybrid_shares_of_mask_and_uniform_tokens(p_uniform, gamma):
    """A share p of all tokens is uniform half way, none at either end, the same for every K_l."""
    process = Hybrid(toy_layout(), LogLinear(), p_uniform=p_uniform, gamma=gamma)
    t = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
    noise = process.noise(t)
    torch.testing.assert_close(noise.sum(-1), process.one_minus_alpha(t).expand(-1, 3))
    masked, uniform = noise[..., MASK], noise[..., :MASK].sum(-1)
    torch.testing.assert_close(uniform[1], torch.full((3,), p_uniform).double())
    assert (uniform[[0, 2]] == 0).all()
    assert process.alpha(t).squeeze(1).tolist()[::2] == [1.0, 0.0]
    assert (masked[2] == 1).all()
    for position, legal in enumerate(LEGAL):
        assert (noise[1, position] > 0).nonzero().flatten().tolist() == [*legal, MASK]


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_hybrid_rates_are_the_derivative_that_they_stand_for(gamma):
    """alpha d/dt [b_t(y) / alpha], by a central difference."""
    process, step = Hybrid(toy_layout(), Cosine(), p_uniform=0.3, gamma=gamma), 1e-6
    t = torch.linspace(0.05, 0.95, 19, dtype=torch.float64)
    after, before = (
        process.noise(s) / process.alpha(s).unsqueeze(-1) for s in (t + step, t - step)
    )
    expected = process.alpha(t).unsqueeze(-1) * (after - before) / (2 * step)
    rates = process.jump_rates(t)
    torch.testing.assert_close(rates, expected, rtol=1e-6, atol=1e-8)
    for ids in (torch.full((len(t), 3), MASK), torch.tensor([[0, 1, 2]]).expand(len(t), -1)):
        at_ids = rates.gather(-1, ids.unsqueeze(-1)).squeeze(-1)
        torch.testing.assert_close(process.log_rate_at(ids, t).exp(), at_ids)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"name": "hybrid", "gamma": 3.0}, "gamma=3.0: expected 0 < gamma <= 2"),
        ({"name": "hybrid", "p_uniform": 0.0}, "forward_process=absorbing"),
        ({"name": "hybrid", "p_uniform": 1.0}, "p_uniform=1.0"),
        ({"name": "marginal", "smoothing": 0.0}, "smoothing=0.0"),
        ({"name": "unifrom"}, "did you mean 'uniform'"),
    ],
)
def test_bad_options_name_themselves(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        build_forward_process(options, toy_layout(), LogLinear())


@pytest.mark.parametrize("kind", [Uniform, Hybrid])
@pytest.mark.parametrize("alike", [True, False])
def test_equal_rows_of_a_prior_are_held_once(kind, alike):
    """Noise is that of rows of its own, to the bit."""
    support = torch.ones(5, 9, dtype=torch.bool)
    support[:, 8], support[0, 0] = False, alike
    process = kind(TokenLayout(support, mask_id=8), LogLinear())
    probs = process.prior() if kind is Uniform else process.uniform
    assert probs.untyped_storage().nbytes() == probs.element_size() * 9 * (1 if alike else 5)
    t = torch.linspace(0.1, 1.0, 400, dtype=torch.float64)
    found = process.sample_noise(t, make_generator(0))
    torch.testing.assert_close(probs.sum(dim=1), torch.ones(5, dtype=torch.float64))
    process.rows = probs.contiguous()
    assert torch.equal(found, process.sample_noise(t, make_generator(0)))
