"""Samplers of algorithms that work in blocks, against distributions computed by enumeration."""

from __future__ import annotations

import itertools

import pytest
import torch

from discrete_diffusion.algorithms import AR, BD3LM, Algorithm, build_algorithm
from discrete_diffusion.categorical import make_generator, uniform_draws
from discrete_diffusion.cli import compose
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.sampling import Ancestral, Autoregressive, FirstHitting, Sampler
from toy_world import (
    FULL,
    LENGTH,
    MASK,
    PAD,
    PADDED,
    ExactBlockBackbone,
    ExactCausalBackbone,
    ToyWorld,
    all_schedules,
    noise_floor,
    total_variation,
    toy_layout,
)

NUM = 100_000
BLOCKS = {"groups": [1, 2], "pairs": [2, 1], "ones": [1, 1, 1]}


def absorbing(schedule: str) -> Absorbing:
    layout = toy_layout()
    return Absorbing(layout, all_schedules(layout)[schedule])


def bd3lm(schedule: str = "log_linear", blocks: str = "groups", tilt: float = 0.0) -> BD3LM:
    process = absorbing(schedule)
    return BD3LM(
        ExactBlockBackbone(process, tilt),
        process,
        block_lengths=BLOCKS[blocks],
        time_conditioning=tilt != 0,
    )


def ar() -> AR:
    process = absorbing("cosine")
    return AR(ExactCausalBackbone(process), process)


LEFT_TO_RIGHT = [(bd3lm, FirstHitting), (ar, FirstHitting), (ar, Autoregressive)]


def reverse_law(algorithm: BD3LM, world: ToyWorld, steps: int) -> torch.Tensor:
    """The exact distribution of ancestral sampling, the grid once per block, state by state."""
    states = world.states(algorithm.process)
    real = world.real.expand(len(states), -1)
    law = (states == MASK).logical_or(~real).all(1).double()
    same = states.unsqueeze(1) == states  # [from, to, position]
    times = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
    for block in algorithm.blocks.unique():
        turn = algorithm.blocks == block
        for t, s in itertools.pairwise(times):
            at = t.expand(len(states))
            step = algorithm.log_prob_step(states, at, s.expand(len(states)), real).double().exp()
            move = torch.where(turn, step[:, torch.arange(LENGTH), states], same.double())
            law = law @ move.prod(dim=-1)
    out = torch.zeros(len(world.x0), dtype=torch.float64)
    for state, mass in zip(states, law, strict=True):
        out += mass * (world.x0 == state).all(1)
    return out


@pytest.mark.parametrize("blocks", list(BLOCKS))
@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
def test_first_hitting_reproduces_the_joint_block_by_block(blocks, real):
    world, algorithm = ToyWorld.make(real), bd3lm("per_group", blocks)
    output = FirstHitting().sample(
        algorithm, real.expand(NUM, -1), generator=make_generator(1), keep_trajectory=True
    )
    assert total_variation(world.distribution(output.tokens), world.prob) < noise_floor(
        world.prob, NUM
    )
    assert (output.nfe == real.sum()).all()
    for state in output.trajectory:  # a block begins when the ones before it are full
        filled = (state != MASK) & real
        for block in algorithm.blocks.unique()[1:]:
            begun = filled[:, algorithm.blocks >= block].any(dim=1)
            assert filled[begun][:, (algorithm.blocks < block) & real].all()


def test_first_hitting_is_the_ancestral_limit_for_a_time_dependent_denoiser():
    """A wrong denoiser that is told t: sigma must be the function of t it was trained with."""
    world, algorithm = ToyWorld.make(), bd3lm("per_group", tilt=3.0)
    limit = reverse_law(algorithm, world, 600)
    assert total_variation(limit, world.prob) > 0.05
    output = FirstHitting().sample(algorithm, FULL.expand(NUM, -1), generator=make_generator(2))
    assert (
        total_variation(world.distribution(output.tokens), limit) < noise_floor(limit, NUM) + 3e-3
    )


def test_ancestral_runs_its_grid_once_per_block():
    world, algorithm = ToyWorld.make(), bd3lm("cosine")
    gaps = [total_variation(reverse_law(algorithm, world, n), world.prob) for n in (4, 16, 64)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 0.01
    law = reverse_law(algorithm, world, 4)
    output = Ancestral(default_steps=4).sample(
        algorithm, FULL.expand(NUM, -1), generator=make_generator(3)
    )
    assert total_variation(world.distribution(output.tokens), law) < noise_floor(law, NUM)
    assert (output.nfe <= 8).all()
    assert (output.nfe >= 2).all()


@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
@pytest.mark.parametrize("sampler", [Autoregressive(), FirstHitting()])
def test_autoregressive_models_reproduce_the_joint(sampler, real):
    world = ToyWorld.make(real)
    output = sampler.sample(ar(), real.expand(NUM, -1), generator=make_generator(4))
    assert total_variation(world.distribution(output.tokens), world.prob) < noise_floor(
        world.prob, NUM
    )
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
    assert total_variation(world.distribution(output.tokens), conditional) < noise_floor(
        conditional, NUM
    )
    assert (output.nfe == LENGTH - len(positions)).all()


@pytest.mark.parametrize(("make", "sampler"), LEFT_TO_RIGHT)
def test_a_clamp_in_the_middle_is_kept_and_seen_by_what_follows(make, sampler):
    """p(x0_0) p(x0_2 | x0_0, held), not the joint's conditional: the clamp is not seen before."""
    world = ToyWorld.make()
    clamp = torch.tensor([-1, 2, -1])
    blocks = {"block_lengths": [1, 1, 1]} if make is bd3lm else {}
    algorithm = make() if not blocks else bd3lm(blocks="ones")
    output = sampler().sample(
        algorithm, FULL.expand(NUM, -1), generator=make_generator(6), clamp=clamp.expand(NUM, -1)
    )
    match = world.x0[:, 1] == 2
    law = torch.zeros_like(world.prob)
    for first in range(3):
        begins = world.x0[:, 0] == first
        rest = torch.where(match & begins, world.prob, 0.0)
        law += world.prob[begins].sum() * rest / rest.sum()
    assert total_variation(world.distribution(output.tokens), law) < noise_floor(law, NUM)
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
    assert world.distribution(output.tokens)[~allowed].sum() == 0
    weights = output.log_weights.exp()
    weighted = world.distribution(output.tokens, weights)
    assert total_variation(weighted, conditional / mass) < 2 * noise_floor(conditional / mass, NUM)
    assert weights.mean().item() == pytest.approx(mass, abs=4 * (weights.std() / NUM**0.5).item())


@pytest.mark.parametrize(
    ("make", "sampler"), [*LEFT_TO_RIGHT, (bd3lm, lambda: Ancestral(default_steps=5))]
)
def test_sizes_and_clamps_may_be_mixed(make, sampler):
    algorithm = make()
    real = torch.stack([FULL, PADDED]).repeat(300, 1)
    clamp = torch.full_like(real, -1, dtype=torch.long)
    clamp[::3, 0] = 1
    clamp[::5, 1] = 2
    clamp[:2] = torch.tensor([[2, 0, 3], [0, 1, -1]])  # nothing left to draw
    output = sampler().sample(algorithm, real, generator=make_generator(8), clamp=clamp)
    assert (output.tokens[~real] == PAD).all()
    assert (output.tokens[clamp >= 0] == clamp[clamp >= 0]).all()
    algorithm.layout.check(output.tokens, real)
    assert (output.nfe[:2] == 0).all()
    if not isinstance(sampler(), Ancestral):
        assert torch.equal(output.nfe, (real & (clamp < 0)).sum(dim=1))
    empty = sampler().sample(algorithm, real[:0], generator=make_generator(8))
    assert empty.tokens.shape == (0, LENGTH)


@pytest.fixture(scope="module")
def diagram_ar() -> AR:
    """With a small dit whose parameters are all random: fresh ones see no neighbour."""
    algorithm = build_algorithm(compose("train", ["algo=ar", "model=dit_tiny"])).eval()
    generator = make_generator(0)
    with torch.no_grad():
        for parameter in algorithm.parameters():
            noise = torch.empty_like(parameter).normal_(generator=generator)
            parameter.copy_(noise / parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else 1 + noise)
    return algorithm


def test_the_cache_changes_no_token(diagram_ar):
    """first-hitting draws unmask times first; after them both draw the same numbers."""
    real = RPLAN_VOCAB_CONFIG.real_positions(torch.full((20,), 5))
    slow = FirstHitting(temperature=0.7, top_p=0.95)
    expected = slow.sample(diagram_ar, real, generator=make_generator(9)).tokens
    generator = make_generator(9)
    uniform_draws(tuple(real.shape), generator)
    fast = Autoregressive(temperature=0.7, top_p=0.95)
    output = fast.sample(diagram_ar, real, generator=generator, keep_trajectory=True)
    assert torch.equal(output.tokens, expected)
    assert output.trajectory.shape == (16, 20, 36)
    assert torch.equal(output.trajectory[-1], output.tokens)


def test_every_column_is_computed_once(diagram_ar):
    computed = []
    hook = diagram_ar.backbone.register_forward_pre_hook(
        lambda module, args, given: computed.append(tuple(given["x_t"].shape)), with_kwargs=True
    )
    real = RPLAN_VOCAB_CONFIG.real_positions(torch.full((4,), 4))
    clamp = torch.full(real.shape, -1)
    clamp[:, [0, 1, 2, 9]] = torch.tensor([3, 4, 5, 20])
    output = Autoregressive().sample(diagram_ar, real, generator=make_generator(0), clamp=clamp)
    hook.remove()
    # rooms 0..2 are given, so the first call reads the columns of all four rooms
    assert computed == [(4, 4), (4, 1), (4, 2), (4, 1), (4, 1), (4, 1)]
    assert (output.nfe == 6).all()


def test_samplers_that_do_not_fit_are_refused_before_anything_runs():
    def refused(sampler: Sampler, algorithm: Algorithm, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            sampler.check(algorithm)
        with pytest.raises(ValueError, match=message):
            sampler.sample(algorithm, FULL.expand(1, -1), generator=make_generator(0))

    fits = r"use sampling=autoregressive or sampling=first-hitting"
    refused(Ancestral(), ar(), rf"ar cannot be sampled by ancestral; {fits}")
    refused(Autoregressive(), bd3lm(), r"use sampling=first-hitting or sampling=ancestral")
    process = absorbing("cosine")
    without_cache = AR(ExactBlockBackbone(process), process)
    refused(Autoregressive(), without_cache, r"has none: use sampling=first-hitting")
    with pytest.raises(ValueError, match="leave steps unset"):
        Autoregressive().sample(ar(), FULL.expand(1, -1), generator=make_generator(0), steps=3)
