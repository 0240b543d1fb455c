"""MATHS checks 7 and 8: samplers against distributions computed by enumeration."""

from __future__ import annotations

import itertools

import pytest
import torch

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.sampling import Ancestral, FirstHitting
from toy_world import (
    FULL,
    LENGTH,
    MASK,
    PAD,
    PADDED,
    ExactBackbone,
    ToyWorld,
    all_schedules,
    noise_floor,
    total_variation,
    toy_layout,
)

NUM = 200_000


def mdlm(name: str = "log_linear", tilt: float = 0.0) -> MDLM:
    layout = toy_layout()
    process = Absorbing(layout, all_schedules(layout)[name])
    return MDLM(ExactBackbone(process, tilt), process)


def reverse_law(algorithm: MDLM, world: ToyWorld, steps: int) -> torch.Tensor:
    """The exact distribution of ancestral sampling with ``steps`` steps, state by state."""
    states = world.states(algorithm.process)
    real = world.real.expand(len(states), -1)
    law = (states == MASK).logical_or(~real).all(1).double()
    times = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
    for t, s in itertools.pairwise(times):
        n = len(states)
        step = algorithm.log_prob_step(states, t.expand(n), s.expand(n), real).double()
        log_move = step[:, torch.arange(LENGTH), states].sum(-1)  # [from, to]
        law = law @ log_move.exp()
    clean = ((states != MASK) | ~real).all(1)
    out = torch.zeros(len(world.x0), dtype=torch.float64)
    for state, mass in zip(states[clean], law[clean], strict=True):
        out[(world.x0 == state).all(1).nonzero().item()] = mass
    return out


@pytest.mark.parametrize("name", list(all_schedules(toy_layout())))
@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
def test_first_hitting_reproduces_the_joint(name, real):
    world = ToyWorld.make(real)
    output = FirstHitting().sample(mdlm(name), real.expand(NUM, -1), generator=make_generator(1))
    share = world.distribution(output.tokens)
    assert total_variation(share, world.prob) < noise_floor(world.prob, NUM)
    assert (output.nfe == real.sum()).all()
    assert (output.log_weights == 0).all()


@pytest.mark.parametrize("name", ["log_linear", "per_group"])
def test_first_hitting_is_the_ancestral_limit_for_a_time_dependent_denoiser(name):
    """A wrong, time-dependent D: the sampler's own law, not the data's, must come out."""
    world, algorithm = ToyWorld.make(), mdlm(name, tilt=3.0)
    limit = reverse_law(algorithm, world, 2000)
    assert total_variation(limit, world.prob) > 0.05
    output = FirstHitting().sample(algorithm, FULL.expand(NUM, -1), generator=make_generator(2))
    assert (
        total_variation(world.distribution(output.tokens), limit) < noise_floor(limit, NUM) + 1e-3
    )


def test_ancestral_converges_as_steps_grow():
    world, algorithm = ToyWorld.make(), mdlm("cosine")
    gaps = [total_variation(reverse_law(algorithm, world, n), world.prob) for n in (4, 16, 64, 256)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 0.003
    for steps in (4, 16):
        law = reverse_law(algorithm, world, steps)
        output = Ancestral(default_steps=steps).sample(
            algorithm, FULL.expand(NUM, -1), generator=make_generator(3)
        )
        assert total_variation(world.distribution(output.tokens), law) < noise_floor(law, NUM)
        assert (output.nfe <= steps).all()


@pytest.mark.parametrize("name", ["cosine", "per_group"])
def test_masked_share_along_the_way_follows_the_schedule(name):
    algorithm, steps, num = mdlm(name), 8, 40_000
    output = Ancestral().sample(
        algorithm,
        FULL.expand(num, -1),
        generator=make_generator(4),
        steps=steps,
        keep_trajectory=True,
    )
    times = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
    share = (output.trajectory == MASK).double().mean(dim=1)
    expected = algorithm.process.one_minus_alpha(times).expand(-1, LENGTH)
    error = (expected * (1 - expected) / num).sqrt()
    assert ((share - expected).abs() <= 4.5 * error + 1e-9).all()


@pytest.mark.parametrize("positions", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)])
def test_clamping_gives_the_exact_conditional(positions):
    world = ToyWorld.make()
    held = world.x0[world.prob.argmin()]  # the rarest: clamping must not follow the prior
    clamp = torch.full((LENGTH,), -1)
    clamp[list(positions)] = held[list(positions)]
    output = FirstHitting().sample(
        mdlm("per_group"),
        FULL.expand(NUM, -1),
        generator=make_generator(5),
        clamp=clamp.expand(NUM, -1),
        keep_trajectory=True,
    )
    match = (world.x0[:, list(positions)] == held[list(positions)]).all(1)
    conditional = torch.where(match, world.prob, 0.0)
    conditional = conditional / conditional.sum()
    tv = total_variation(world.distribution(output.tokens), conditional)
    assert tv < noise_floor(conditional, NUM)
    assert (output.nfe == LENGTH - len(positions)).all()
    for state in output.trajectory:  # visible from the start, never hidden again
        assert (state[:, list(positions)] == held[list(positions)]).all()


def test_narrowed_support_is_always_satisfied_and_its_weights_undo_the_tilt():
    world, algorithm = ToyWorld.make(), mdlm()
    support = algorithm.layout.support.clone()
    support[0, 0] = support[1, 3] = support[1, 1] = False
    allowed = support[torch.arange(LENGTH), world.x0].all(1)
    conditional = torch.where(allowed, world.prob, 0.0)
    mass = float(conditional.sum())
    conditional = conditional / mass
    output = FirstHitting().sample(
        algorithm,
        FULL.expand(NUM, -1),
        generator=make_generator(6),
        support=support.expand(NUM, -1, -1),
    )
    share = world.distribution(output.tokens)
    assert share[~allowed].sum() == 0
    assert total_variation(share, conditional) > 0.02  # each step renormalises locally
    weights = output.log_weights.exp()
    weighted = world.distribution(output.tokens, weights)
    assert total_variation(weighted, conditional) < 2 * noise_floor(conditional, NUM)
    assert weights.mean().item() == pytest.approx(mass, abs=4 * (weights.std() / NUM**0.5).item())


@pytest.mark.parametrize("sampler", [FirstHitting(), Ancestral(default_steps=7)])
def test_mixed_sizes_share_calls_and_keep_padding(sampler):
    algorithm = mdlm()
    real = torch.stack([FULL, PADDED]).repeat(500, 1)
    output = sampler.sample(algorithm, real, generator=make_generator(7))
    assert (output.tokens[~real] == PAD).all()
    algorithm.layout.check(output.tokens, real)
    if isinstance(sampler, FirstHitting):
        assert torch.equal(output.nfe, real.sum(1))
