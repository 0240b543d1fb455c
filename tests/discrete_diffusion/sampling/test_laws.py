"""Samples of grid samplers follow their own exact law, and how far that is from the data."""

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

NUM = 20_000
NOISES = ("mdlm", "udlm", "marginal", "gidd", "matrix")
SAMPLERS = {
    "ancestral": ("ancestral", {}),
    "corrector": ("predictor-corrector", {"corrector_steps": 1}),
    "two corrections": ("predictor-corrector", {"corrector_steps": 2}),
    "renoise": ("renoise", {}),
    "cap": ("remdm", {"strategy": "cap", "eta": 0.3}),
    "rescale": ("remdm", {"strategy": "rescale", "eta": 0.3}),
}
CASES = [
    (noise, case)
    for noise in NOISES
    for case, (sampler, _) in SAMPLERS.items()
    if noise == "mdlm" or sampler != "remdm"
]
DRAWN = [
    (noise, case, real)
    for noise, case in CASES
    for real in (FULL, PADDED)
    if case != "two corrections" and (real is FULL or noise in ("mdlm", "gidd"))
]
BOUNDS = {  # total variation to the data at 64 steps, any of the four processes
    "ancestral": 0.010,
    "corrector": 0.007,
    "two corrections": 0.007,
    "renoise": 0.032,
    "cap": 0.040,
    "rescale": 0.020,
}


def gaps(noise: str, case: str, steps: tuple[int, ...], how: str = "auto") -> list[float]:
    """Total variation of the exact law to the data."""
    world, algorithm = ToyWorld.make(), exact(noise)
    sampler, options = SAMPLERS[case]
    laws = (grid_law(algorithm, world, grid(algorithm, n, how), sampler, **options) for n in steps)
    return [total_variation(law, world.prob) for law in laws]


@pytest.mark.parametrize(("noise", "case", "real"), DRAWN)
def test_samples_follow_the_exact_law(noise, case, real):
    """Drawing coins, or x0, before the rest of a step changes nothing."""
    world, algorithm = ToyWorld.make(real), exact(noise, "cosine")
    sampler, options = SAMPLERS[case]
    law = grid_law(algorithm, world, grid(algorithm, 4), sampler, **options)
    output = draw_from(algorithm, sampler, NUM, real=real, steps=4, seed=2, **options)
    share = world.distribution(output.x0)
    assert total_variation(share, law) < noise_floor(law, NUM)


@pytest.mark.parametrize(("noise", "case"), CASES)
def test_laws_near_the_data_as_steps_grow(noise, case):
    found = gaps(noise, case, (4, 64))
    assert found == sorted(found, reverse=True)
    assert found[-1] < BOUNDS[case]


@pytest.mark.slow
def test_distances_of_ancestral_sampling():
    """At 16 and 64 steps on this world; the grid that ``auto`` takes is the better one for each
    noise."""
    even = {noise: gaps(noise, "ancestral", (16, 64), "uniform") for noise in NOISES}
    squared = {noise: gaps(noise, "ancestral", (16, 64), "quadratic") for noise in NOISES}
    assert even["mdlm"] == pytest.approx([0.0258, 0.0065], abs=1e-3)
    assert even["udlm"] == pytest.approx([0.0322, 0.0077], abs=1e-3)
    assert even["gidd"] == pytest.approx([0.0785, 0.0296], abs=1e-3)
    assert squared["udlm"] == pytest.approx([0.0240, 0.0058], abs=1e-3)
    assert squared["gidd"] == pytest.approx([0.0262, 0.0063], abs=1e-3)
    for noise in NOISES:
        better = squared if noise != "mdlm" else even
        assert better[noise] == min(even[noise], squared[noise])


def test_corrections_help_at_the_same_steps():
    for noise in NOISES:
        none, one, two = (
            gaps(noise, case, (8,))[0] for case in ("ancestral", "corrector", "two corrections")
        )
        assert two < one < none


@pytest.mark.parametrize("strategy", ["cap", "rescale"])
@pytest.mark.parametrize("schedule", ["log_linear", "per_group"])
def test_remdm_leaves_the_marginals_as_they_are(strategy, schedule):
    """For any sigma between 0 and s_max a token is hidden with probability 1 - alpha (eq. 6 of the
    paper); the enumeration says so of the formulas, the samples of the sampler."""
    world, algorithm, steps = ToyWorld.make(), exact("mdlm", schedule), 6
    law, times = GridLaw(algorithm, world), grid(algorithm, steps)
    output = draw_from(
        algorithm, "remdm", NUM, steps=steps, keep_trajectory=True, strategy=strategy, eta=0.9
    )
    assert len(output.trajectory) == steps + 1
    for k in range(steps):
        law.move(law.remasking(times[k], times[k + 1], 0.9, strategy))
        expected = algorithm.process.one_minus_alpha(times[k + 1 : k + 2]).expand(1, LENGTH)[0]
        shares = [law.share_of(position, MASK) for position in range(LENGTH)]
        assert shares == pytest.approx(expected.tolist(), abs=1e-12)
        drawn = (output.trajectory[k + 1] == MASK).double().mean(dim=0)
        assert ((drawn - expected).abs() < 4.5 * 0.5 / NUM**0.5).all()


# -- samplers that draw from the model itself ------------------------------------------------------


FEW, MANY = 10_000, 200_000
EXACT = {
    "first-hitting": {},
    "margin": {},
    "entropy": {},
    "entropy-bounded, entropy": {"entropy_budget": 0.0, "order": "entropy"},
    "entropy-bounded, random": {"entropy_budget": 0.0, "order": "random"},
    "entropy-bounded, margin": {"entropy_budget": 0.0, "order": "margin"},
    "first-surprise": {"surprises": 0.0},
    "margin, groups": {"group_by_group": True},
}
REAL = pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])


@REAL
@pytest.mark.parametrize("schedule", ["log_linear", "per_group"])
@pytest.mark.parametrize("sampler", list(EXACT))
def test_one_token_per_call_reproduces_the_joint(sampler, schedule, real):
    world, name = ToyWorld.make(real), sampler.partition(",")[0]
    output = draw_from(exact("mdlm", schedule), name, FEW, real=real, **EXACT[sampler])
    share = world.distribution(output.x0)
    assert total_variation(share, world.prob) < noise_floor(world.prob, FEW)
    assert (output.nfe == real.sum()).all()
    assert (output.log_weights == 0).all()


@pytest.mark.parametrize("schedule", list(all_schedules(toy_layout())))
def test_first_hitting_reproduces_the_joint_with_every_schedule(schedule):
    world = ToyWorld.make()
    num = MANY if schedule == "per_group" else FEW
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
    times = grid(algorithm, 128, "quadratic")
    law = GridLaw(algorithm, world)
    for k, (t, s) in enumerate(itertools.pairwise(times)):
        law.move(law.ancestral(t, s))
        if k in (31, 63, 95):
            q = world.log_q(algorithm.process, law.states, s.reshape(1)).sum(-1).exp()
            assert total_variation(law.law, q @ world.prob) < 0.01
