"""Samplers that draw from the model itself, against distributions computed by enumeration."""

from __future__ import annotations

import itertools

import pytest
import torch

from discrete_diffusion.algorithms import MDLM
from laws import GridLaw, grid, grid_law, order_law
from toy_samplers import absorbing, draw_from, exact
from toy_world import (
    FULL,
    LENGTH,
    MASK,
    PADDED,
    ExactBackbone,
    ToyWorld,
    all_schedules,
    noise_floor,
    total_variation,
    toy_layout,
)

NUM, MANY = 10_000, 200_000
EXACT = {
    "first-hitting": {},
    "margin": {},
    "entropy": {},
    "entropy-bounded, entropy": {"budget": 0.0, "order": "entropy"},
    "entropy-bounded, random": {"budget": 0.0, "order": "random"},
    "entropy-bounded, margin": {"budget": 0.0, "order": "margin"},
    "margin, groups": {"groups_in_turn": True},
}
REAL = pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])


@REAL
@pytest.mark.parametrize("schedule", ["log_linear", "per_group"])
@pytest.mark.parametrize("sampler", list(EXACT))
def test_one_token_per_call_reproduces_the_joint(sampler, schedule, real):
    world, name = ToyWorld.make(real), sampler.partition(",")[0]
    output = draw_from(exact("mdlm", schedule), name, NUM, real=real, **EXACT[sampler])
    share = world.distribution(output.x0)
    assert total_variation(share, world.prob) < noise_floor(world.prob, NUM)
    assert (output.nfe == real.sum()).all()
    assert (output.log_weights == 0).all()


@pytest.mark.parametrize("schedule", list(all_schedules(toy_layout())))
def test_first_hitting_reproduces_the_joint_with_every_schedule(schedule):
    world = ToyWorld.make()
    num = MANY if schedule == "per_group" else NUM
    output = draw_from(exact("mdlm", schedule), "first-hitting", num, seed=2)
    share = world.distribution(output.x0)
    assert total_variation(share, world.prob) < noise_floor(world.prob, num)


@pytest.mark.parametrize("score", ["margin", "entropy", "random"])
def test_any_order_chosen_from_what_is_visible_is_exact(score):
    """The enumeration agrees, to rounding."""
    world = ToyWorld.make()
    law = order_law(exact("mdlm"), world, score)
    torch.testing.assert_close(law, world.prob, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_first_hitting_is_the_ancestral_limit_for_a_time_dependent_denoiser():
    """A D that is wrong differently at every t: the limit is the sampler's law, not the data's."""
    world, process = ToyWorld.make(), absorbing("per_group")
    algorithm = MDLM(ExactBackbone(process, tilt=3.0), process).eval()
    limit = grid_law(algorithm, world, grid(algorithm, 600), "ancestral")
    assert total_variation(limit, world.prob) > 0.05
    share = world.distribution(draw_from(algorithm, "first-hitting", MANY, seed=2).x0)
    assert total_variation(share, limit) < noise_floor(limit, MANY) + 2e-3


@pytest.mark.parametrize("schedule", ["cosine", "per_group"])
@pytest.mark.parametrize("sampler", ["ancestral", "predictor-corrector", "remdm", "renoise"])
def test_masked_share_along_the_way_follows_the_schedule(sampler, schedule):
    """1 - alpha at every time of the grid, though tokens are hidden again on the way."""
    algorithm, steps, num = exact("mdlm", schedule), 8, 20_000
    options = {"strategy": "rescale", "eta": 0.7} if sampler == "remdm" else {}
    output = draw_from(
        algorithm, sampler, num, seed=4, steps=steps, keep_trajectory=True, **options
    )
    share = (output.trajectory == MASK).double().mean(dim=1)
    times = grid(algorithm, steps)
    if sampler == "predictor-corrector":  # two frames of each step but the first and the last
        times = torch.cat([times[:2], times[2:-1].repeat_interleave(2), times[-1:]])
    expected = algorithm.process.one_minus_alpha(times).expand(-1, LENGTH)
    error = (expected * (1 - expected) / num).sqrt()
    assert ((share - expected).abs() <= 4.5 * error + 1e-9).all()


@pytest.mark.parametrize("name", ["udlm", "marginal", "gidd"])
def test_every_state_along_the_way_follows_the_process(name):
    """Ancestral sampling on a fine grid passes through the marginals of noised data, jointly."""
    world, algorithm = ToyWorld.make(), exact(name)
    times = grid(algorithm, 128, "squared")
    law = GridLaw(algorithm, world)
    for k, (t, s) in enumerate(itertools.pairwise(times)):
        law.move(law.ancestral(t, s))
        if k in (31, 63, 95):
            q = world.log_q(algorithm.process, law.states, s.reshape(1)).sum(-1).exp()
            assert total_variation(law.law, q @ world.prob) < 0.01
