"""Samplers of every algorithm on the enumerable world: converging, clamped, narrowed."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import Ancestral, FirstHitting
from laws import grid, grid_law
from toy_algorithms import TOYS
from toy_samplers import exact, fitting_samplers
from toy_world import FULL, LENGTH, ToyWorld, noise_floor, total_variation

NUM = 3000


@pytest.mark.parametrize("name", list(TOYS))
def test_ancestral_sampling_converges_to_the_data(name):
    """Its exact law nears the joint as steps grow, and its samples follow that law."""
    world, algorithm = ToyWorld.make(), exact(name, "log_linear")
    gaps = []
    for steps in (8, 64):
        law = grid_law(algorithm, world, grid(algorithm, steps), "ancestral")
        gaps.append(total_variation(law, world.prob))
        if steps == 8:
            sampler = Ancestral(steps=steps)
            real = FULL.expand(NUM, -1)
            tokens = sampler.sample(algorithm, real, generator=make_generator(3)).x0
            share = world.distribution(tokens)
            assert total_variation(share, law) < noise_floor(law, NUM)
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 0.012


@pytest.mark.parametrize("name", list(TOYS))
def test_first_hitting_where_it_fits(name):
    world, algorithm = ToyWorld.make(), exact(name, "per_group")
    real = FULL.expand(NUM, -1)
    if "first-hitting" not in fitting_samplers(algorithm):
        with pytest.raises(ValueError, match="ancestral"):
            FirstHitting().sample(algorithm, real, generator=make_generator(1))
        return
    tokens = FirstHitting().sample(algorithm, real, generator=make_generator(1)).x0
    assert total_variation(world.distribution(tokens), world.prob) < noise_floor(world.prob, NUM)


@pytest.mark.parametrize("name", ["udlm", "gidd"])
def test_clamping_noise_that_leaves_doubt_is_approximate(name):
    """The network takes a clamped token for a noisy one: as documented, not the conditional."""
    world, algorithm, num = ToyWorld.make(), exact(name, "log_linear"), 2000
    held = world.x0[world.prob.argmax()]
    clamp = torch.tensor([int(held[0]), -1, -1]).expand(num, -1)
    output = Ancestral(steps=40).sample(
        algorithm, FULL.expand(num, -1), generator=make_generator(5), clamp=clamp
    )
    assert (output.x0[:, 0] == held[0]).all()
    conditional = torch.where(world.x0[:, 0] == held[0], world.prob, 0.0)
    apart = total_variation(world.distribution(output.x0), conditional / conditional.sum())
    assert 0.03 < apart < 0.3


ANY_ORDER = [
    name for name, toy in TOYS.items() if "first-hitting" in fitting_samplers(toy.make(LogLinear()))
]


@pytest.mark.parametrize("positions", [(0,), (2,), (0, 2)])
@pytest.mark.parametrize("name", ANY_ORDER)
def test_clamping_and_narrowing_give_the_exact_conditional(name, positions):
    """Clamped: as it stands. Narrowed: with the weights, whose mean is the probability kept."""
    world, algorithm = ToyWorld.make(), exact(name, "per_group")
    held = world.x0[world.prob.argmin()]
    clamp = torch.full((LENGTH,), -1)
    clamp[list(positions)] = held[list(positions)]
    match = (world.x0[:, list(positions)] == held[list(positions)]).all(1)
    conditional = torch.where(match, world.prob, 0.0)
    mass, conditional = float(conditional.sum()), conditional / conditional.sum()
    real = FULL.expand(NUM, -1)
    clamped = FirstHitting().sample(
        algorithm, real, generator=make_generator(5), clamp=clamp.expand(NUM, -1)
    )
    share = world.distribution(clamped.x0)
    assert total_variation(share, conditional) < noise_floor(conditional, NUM)
    support = algorithm.layout.support.clone()
    for position in positions:
        support[position] = torch.arange(support.shape[1]) == held[position]
    narrowed = FirstHitting().sample(
        algorithm, real, generator=make_generator(6), support=support.expand(NUM, -1, -1)
    )
    weights = narrowed.log_weights.exp()
    weighted = world.distribution(narrowed.x0, weights)
    effective = float(weights.sum().square() / weights.square().sum())
    assert total_variation(weighted, conditional) < noise_floor(conditional, int(effective))
    assert weights.mean().item() == pytest.approx(mass, abs=4.5 * (weights.std() / NUM**0.5).item())
