"""Samplers of algorithms that work in blocks, against distributions computed by enumeration."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.sampling import Autoregressive, FirstHitting
from laws import grid, grid_law
from toy_samplers import BLOCKS, ar, bd3lm, draw_from, fitting_samplers, takes_steps
from toy_world import FULL, LENGTH, MASK, PADDED, ToyWorld, noise_floor, total_variation

NUM, FEW = 20_000, 10_000
LEFT_TO_RIGHT = [(bd3lm, FirstHitting), (ar, FirstHitting), (ar, Autoregressive)]


@pytest.mark.parametrize("blocks", list(BLOCKS))
@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
def test_first_hitting_reproduces_the_joint_block_by_block(blocks, real):
    world, algorithm = ToyWorld.make(real), bd3lm("per_group", blocks)
    output = FirstHitting().sample(
        algorithm, real.expand(NUM, -1), generator=make_generator(1), keep_trajectory=True
    )
    assert total_variation(world.distribution(output.x0), world.prob) < noise_floor(world.prob, NUM)
    assert (output.nfe == real.sum()).all()
    for state in output.trajectory:  # a block begins when the ones before it are full
        filled = (state != MASK) & real
        for block in algorithm.blocks.unique()[1:]:
            begun = filled[:, algorithm.blocks >= block].any(dim=1)
            assert filled[begun][:, (algorithm.blocks < block) & real].all()


def test_ancestral_runs_its_grid_once_per_block():
    world, algorithm = ToyWorld.make(), bd3lm("cosine")

    def law_of(steps: int) -> torch.Tensor:
        return grid_law(algorithm, world, grid(algorithm, steps), "ancestral")

    gaps = [total_variation(law_of(n), world.prob) for n in (4, 16, 64)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 0.01
    output = draw_from(algorithm, "ancestral", NUM, steps=4)
    assert total_variation(world.distribution(output.x0), law_of(4)) < noise_floor(law_of(4), NUM)
    assert (output.nfe <= 3).all()  # one token at a time costs most
    assert (output.nfe >= 2).all()


@pytest.mark.parametrize(
    ("sampler", "options"),
    [
        ("predictor-corrector", {"corrector_steps": 1}),
        ("renoise", {}),
        ("remdm", {"strategy": "cap", "eta": 0.3}),
    ],
)
def test_samplers_that_revise_run_their_grid_once_per_block(sampler, options):
    world, algorithm = ToyWorld.make(), bd3lm("cosine", "pairs")
    law = grid_law(algorithm, world, grid(algorithm, 4), sampler, **options)
    output = draw_from(algorithm, sampler, FEW, steps=4, **options)
    assert total_variation(world.distribution(output.x0), law) < noise_floor(law, FEW)


@pytest.mark.parametrize("blocks", list(BLOCKS))
@pytest.mark.parametrize(
    ("sampler", "options"),
    [
        ("margin", {}),
        ("entropy", {}),
        ("entropy-bounded", {"entropy_budget": 0.0}),
    ],
)
def test_chosen_orders_reproduce_the_joint_block_by_block(sampler, options, blocks):
    world = ToyWorld.make()
    output = draw_from(bd3lm("per_group", blocks), sampler, FEW, **options)
    share = world.distribution(output.x0)
    assert total_variation(share, world.prob) < noise_floor(world.prob, FEW)


@pytest.mark.parametrize("blocks", list(BLOCKS))
@pytest.mark.parametrize("sampler", fitting_samplers(bd3lm()))
def test_every_sampler_finishes_a_block_before_it_begins_the_next(sampler, blocks):
    algorithm = bd3lm(blocks=blocks)
    steps = {"steps": 6} if takes_steps(algorithm, sampler) else {}
    for real in (FULL, PADDED):
        output = draw_from(algorithm, sampler, 200, real=real, keep_trajectory=True, **steps)
        hidden = (output.trajectory == MASK) & real
        for block in algorithm.blocks.unique()[1:]:
            begun = (~hidden & real)[:, :, algorithm.blocks >= block].any(dim=2)  # (K, B)
            assert begun.any() or not real[algorithm.blocks >= block].any()
            before = algorithm.blocks < block
            assert not hidden[:, :, before][begun].any()
            final = output.x0[:, before].expand(len(hidden), -1, -1)
            assert torch.equal(output.trajectory[:, :, before][begun], final[begun])


@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
@pytest.mark.parametrize("sampler", [Autoregressive(), FirstHitting()])
def test_autoregressive_models_reproduce_the_joint(sampler, real):
    world = ToyWorld.make(real)
    output = sampler.sample(ar(), real.expand(NUM, -1), generator=make_generator(4))
    assert total_variation(world.distribution(output.x0), world.prob) < noise_floor(world.prob, NUM)
    assert (output.nfe == real.sum()).all()
    assert (output.log_weights == 0).all()


@pytest.mark.parametrize("positions", [(0,), (0, 1), (0, 1, 2)])
@pytest.mark.parametrize(("make", "sampler"), LEFT_TO_RIGHT)
def test_clamping_a_prefix_gives_the_exact_conditional(make, sampler, positions):
    world = ToyWorld.make()
    held = world.x0[world.prob.argmin()]
    clamp = torch.full((LENGTH,), -1)
    clamp[list(positions)] = held[list(positions)]
    output = sampler().sample(
        make(), FULL.expand(NUM, -1), generator=make_generator(5), clamp=clamp.expand(NUM, -1)
    )
    match = (world.x0[:, list(positions)] == held[list(positions)]).all(1)
    conditional = torch.where(match, world.prob, 0.0)
    conditional = conditional / conditional.sum()
    assert total_variation(world.distribution(output.x0), conditional) < noise_floor(
        conditional, NUM
    )
    assert (output.nfe == LENGTH - len(positions)).all()


@pytest.mark.parametrize(("make", "sampler"), LEFT_TO_RIGHT)
def test_a_clamp_in_the_middle_is_kept_and_seen_by_what_follows(make, sampler):
    """p(x0_0) p(x0_2 | x0_0, held), not the joint's conditional: the clamp is not seen before."""
    world = ToyWorld.make()
    clamp = torch.tensor([-1, 2, -1])
    algorithm = bd3lm(blocks="ones") if make is bd3lm else make()
    output = sampler().sample(
        algorithm, FULL.expand(NUM, -1), generator=make_generator(6), clamp=clamp.expand(NUM, -1)
    )
    match = world.x0[:, 1] == 2
    law = torch.zeros_like(world.prob)
    for first in range(3):
        begins = world.x0[:, 0] == first
        rest = torch.where(match & begins, world.prob, 0.0)
        law += world.prob[begins].sum() * rest / rest.sum()
    assert total_variation(world.distribution(output.x0), law) < noise_floor(law, NUM)
    assert (
        total_variation(law, torch.where(match, world.prob, 0.0) / world.prob[match].sum()) > 0.02
    )


@pytest.mark.parametrize(("make", "sampler"), LEFT_TO_RIGHT)
def test_weights_undo_the_tilt_of_a_narrowed_support(make, sampler):
    world, algorithm = ToyWorld.make(), make()
    support = algorithm.layout.support.clone()
    support[1, 3] = support[1, 1] = support[2, 2] = False
    allowed = support[torch.arange(LENGTH), world.x0].all(1)
    conditional = torch.where(allowed, world.prob, 0.0)
    mass = float(conditional.sum())
    output = sampler().sample(
        algorithm,
        FULL.expand(NUM, -1),
        generator=make_generator(7),
        support=support.expand(NUM, -1, -1),
    )
    assert world.distribution(output.x0)[~allowed].sum() == 0
    weights = output.log_weights.exp()
    weighted = world.distribution(output.x0, weights)
    assert total_variation(weighted, conditional / mass) < 2 * noise_floor(conditional / mass, NUM)
    assert weights.mean().item() == pytest.approx(mass, abs=4 * (weights.std() / NUM**0.5).item())
