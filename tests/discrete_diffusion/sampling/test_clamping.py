"""Tokens that are held: exact conditionals, and never hidden again."""

from __future__ import annotations

import itertools

import pytest
import torch

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.sampling import build_sampler
from laws import GridLaw, grid
from toy_samplers import CASES, draw_from, exact, takes_steps
from toy_world import FULL, LENGTH, PADDED, ToyWorld, noise_floor, total_variation

NUM = 8_000
EXACT = {
    "first-hitting": {},
    "margin": {},
    "entropy": {},
    "entropy-bounded": {"budget": 0.0, "order": "random"},
    "speculative": {},
}
SUBSETS = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]


def held_at(positions: tuple[int, ...], world: ToyWorld) -> torch.Tensor:
    """Int[3]: the rarest sequence's tokens there: clamping must not follow the prior."""
    clamp = torch.full((LENGTH,), -1)
    clamp[list(positions)] = world.x0[world.prob.argmin()][list(positions)]
    return clamp


def conditional_on(clamp: torch.Tensor, world: ToyWorld) -> torch.Tensor:
    match = ((world.x0 == clamp) | (clamp < 0)).all(dim=1)
    law = torch.where(match, world.prob, 0.0)
    return law / law.sum()


@pytest.mark.parametrize("positions", SUBSETS)
@pytest.mark.parametrize("schedule", ["log_linear", "per_group"])
@pytest.mark.parametrize("sampler", list(EXACT))
def test_clamping_gives_the_exact_conditional(sampler, schedule, positions):
    world = ToyWorld.make()
    clamp = held_at(positions, world)
    output = draw_from(exact("mdlm", schedule), sampler, NUM, clamp=clamp, **EXACT[sampler])
    conditional = conditional_on(clamp, world)
    share = world.distribution(output.x0)
    assert total_variation(share, conditional) < noise_floor(conditional, NUM)
    if sampler != "speculative":
        assert (output.nfe == LENGTH - len(positions)).all()


def test_clamping_is_exact_with_padding_too():
    world = ToyWorld.make(PADDED)
    clamp = torch.tensor([2, -1, -1])
    for sampler, options in EXACT.items():
        output = draw_from("mdlm", sampler, NUM, real=PADDED, clamp=clamp, **options)
        conditional = conditional_on(clamp, world)
        share = world.distribution(output.x0)
        assert total_variation(share, conditional) < noise_floor(conditional, NUM)


@pytest.mark.parametrize("sampler", list(EXACT))
def test_every_sample_may_hold_its_own(sampler):
    world, clamps = ToyWorld.make(), torch.tensor([[1, -1, -1], [-1, 2, 3], [-1, -1, -1]])
    output = build_sampler({"name": sampler, **EXACT[sampler]}).sample(
        exact("mdlm"),
        FULL.expand(3 * NUM, -1),
        generator=make_generator(2),
        clamp=clamps.repeat(NUM, 1),
    )
    for k, clamp in enumerate(clamps):
        conditional = conditional_on(clamp, world)
        share = world.distribution(output.x0[k::3])
        assert total_variation(share, conditional) < noise_floor(conditional, NUM)


@pytest.mark.parametrize("sampler", ["ancestral", "predictor-corrector", "renoise"])
@pytest.mark.parametrize("positions", [(0,), (1, 2)])
def test_grid_samplers_near_the_conditional(sampler, positions):
    """For absorbing noise as the steps grow, by enumeration."""
    world, algorithm = ToyWorld.make(), exact("mdlm")
    clamp = held_at(positions, world)
    gaps = []
    for steps in (8, 64):
        law = GridLaw(algorithm, world, free=clamp < 0, held=clamp)
        times = grid(algorithm, steps)
        for t, s in itertools.pairwise(times):
            law.move(law.renoise(t, s) if sampler == "renoise" else law.ancestral(t, s))
            if sampler == "predictor-corrector" and s > 0:
                law.move(law.noising(s, t))
                law.move(law.ancestral(t, s))
        gaps.append(total_variation(law.clean(), conditional_on(clamp, world)))
        if steps == 8:
            output = draw_from(algorithm, sampler, NUM, clamp=clamp, steps=steps)
            share = world.distribution(output.x0)
            assert total_variation(share, law.clean()) < noise_floor(law.clean(), NUM)
    assert gaps[1] < gaps[0] or gaps[0] < 1e-12  # one free token leaves nothing to get wrong
    assert gaps[1] < 0.02


@pytest.mark.parametrize(("name", "sampler"), CASES)
def test_held_tokens_stay_in_every_frame(name, sampler):
    """From the noise on: no sampler hides or redraws them, however often it revises others."""
    steps = {"steps": 8} if takes_steps(name, sampler) else {}
    options = {"strategy": "rescale", "eta": 1.0} if sampler == "remdm" else {}
    for real, held in ((FULL, [1, -1, 3]), (FULL, [-1, 0, -1]), (PADDED, [-1, 2, -1])):
        clamp = torch.tensor(held)
        output = draw_from(
            name, sampler, 200, real=real, clamp=clamp, keep_trajectory=True, **steps, **options
        )
        fixed = clamp >= 0
        assert len(output.trajectory) > 1
        assert (output.trajectory[:, :, fixed] == clamp[fixed]).all()
        assert torch.equal(output.trajectory[-1], output.x0)
