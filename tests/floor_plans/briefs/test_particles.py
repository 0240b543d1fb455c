"""Particles of the toy world are proper for every look-ahead, and closer with more of them."""

from __future__ import annotations

import math
from itertools import permutations
from types import SimpleNamespace

import pytest
import torch

from discrete_diffusion.categorical import effective_number, log_mean, make_generator
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.sampling import FirstHitting, build_sampler
from floor_plans.briefs.particles import Move, Particles, SoftGuidance, systematic_rows
from toy_constraints import CONSTRAINTS, Toy, conditional
from toy_samplers import exact
from toy_world import FULL, PADDED, noise_floor, total_variation


def run(name, guess, num, seed, *, padded=False, **options):
    real = PADDED if padded else FULL
    sampler = Particles(constraint=Toy(name, guess, real), **options)
    return sampler.sample(exact("mdlm"), real.expand(num, -1), generator=make_generator(seed))


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", ["equal", "one three"])
def test_the_true_look_ahead_needs_no_weights(name, padded):
    world, law, p = conditional(name, padded)
    output = run(name, "exact", 6_000, 0, padded=padded)
    assert output.log_weights.exp() == pytest.approx(p, rel=1e-5)
    assert total_variation(world.distribution(output.x0), law) < noise_floor(law, 6_000)


@pytest.mark.parametrize("resample", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("guess", ["factorised", "possible"])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_any_look_ahead_tends_to_the_conditional(name, guess, resample):
    world, law, p = conditional(name)
    output = run(name, guess, 8_000, 1, resample=resample)
    weights = output.log_weights.exp()
    assert CONSTRAINTS[name](output.x0[weights > 0]).all()
    assert log_mean(output.log_weights) == pytest.approx(math.log(p), abs=0.08)
    found = world.distribution(output.x0[weights > 0], weights[weights > 0])
    assert total_variation(found, law) < noise_floor(
        law, int(0.4 * effective_number(weights.log()))
    )


@pytest.mark.slow
@pytest.mark.parametrize("resample", [0.0, 1.0])
@pytest.mark.parametrize("guess", ["factorised", "possible"])
def test_few_particles_estimate_the_probability_without_bias(guess, resample):
    name, runs = "one three", 100
    world, _, p = conditional(name)
    outputs = [run(name, guess, 6, seed, resample=resample) for seed in range(runs)]
    found = torch.tensor([log_mean(output.log_weights) for output in outputs]).double().exp()
    error = float(found.std()) / runs**0.5
    assert abs(float(found.mean()) - p) < 4 * error
    # and so is that of every sequence that is not too rare to count
    weights = torch.cat([output.log_weights for output in outputs]).exp()
    tokens = torch.cat([output.x0 for output in outputs])
    for x, prob in zip(world.x0, world.prob, strict=True):
        if CONSTRAINTS[name](x) and prob > 0.03:
            share = (weights * (tokens == x).all(dim=1)).reshape(runs, 6).mean(dim=1)
            assert abs(float(share.mean() - prob)) < 4.5 * float(share.std()) / runs**0.5 + 1e-4


@pytest.mark.slow
def test_the_error_falls_with_the_number_of_particles():
    """A sample of one particle is one of the proposal, which is tilted; of 16 particles, drawn by
    its weight, it is hardly."""
    name, runs = "one three", 250
    world, law, _ = conditional(name)
    alone = run(name, "possible", 6_000, 0, resample=0.0)
    assert total_variation(world.distribution(alone.x0), law) > 3 * noise_floor(law, 6_000)
    rows = []
    for seed in range(runs):
        output = run(name, "possible", 16, seed, resample=1.0)
        rows.append(output.x0[systematic_rows(output.log_weights, 1, make_generator(seed, 7))])
    assert total_variation(world.distribution(torch.cat(rows)), law) < noise_floor(law, runs)


def test_a_constraint_that_nothing_meets_leaves_no_weight():
    class Never(Toy):
        def met(self, x):
            return torch.zeros(x.shape[:-1], dtype=torch.bool)

    sampler = Particles(constraint=Never("equal", "possible", FULL))
    output = sampler.sample(exact("mdlm"), FULL.expand(8, -1), generator=make_generator(0))
    assert (output.log_weights == -torch.inf).all()
    assert effective_number(output.log_weights) == 0


def test_given_tokens_are_kept_and_weigh_nothing():
    world, _, _ = conditional("equal")
    clamp = torch.tensor([1, -1, -1]).expand(6_000, -1)
    sampler = Particles(constraint=Toy("equal", "factorised", FULL))
    output = sampler.sample(
        exact("mdlm"), FULL.expand(6_000, -1), generator=make_generator(0), clamp=clamp
    )
    fits = world.prob * (world.x0[:, 0] == 1)
    law = fits * (world.x0[:, 1] == 1)
    assert log_mean(output.log_weights) == pytest.approx(
        float((law.sum() / fits.sum()).log()), abs=0.08
    )
    found = world.distribution(output.x0, output.log_weights.exp())
    assert total_variation(found, law / law.sum()) < noise_floor(law / law.sum(), 3_000)


def test_whole_samples_are_only_judged():
    clamp = torch.tensor([[1, 1, 2], [1, 0, 2]])
    sampler = Particles(constraint=Toy("equal", "factorised", FULL))
    output = sampler.sample(
        exact("mdlm"), FULL.expand(2, -1), generator=make_generator(0), clamp=clamp
    )
    assert output.log_weights.tolist() == [0.0, -torch.inf]
    assert output.nfe.tolist() == [0, 0]


@pytest.mark.parametrize("padded", [False, True])
def test_a_move_leaves_the_conditional_unchanged(padded):
    name, num, real = "one three", 20_000, PADDED if padded else FULL
    world, law, _ = conditional(name, padded)
    rows = torch.multinomial(law, num, replacement=True, generator=make_generator(0))
    x, sampler = world.x0[rows], build_sampler({"name": "first-hitting"})
    constraint, generator = Toy(name, "possible", real), make_generator(1)
    move = Move(sampler, exact("mdlm"), constraint, share=0.6)
    for _ in range(3):
        output, accepted = move(x, real.expand(num, -1), generator=generator)
        assert 0.2 < accepted.double().mean() < 1
        assert CONSTRAINTS[name](output.x0).all()
        x = output.x0
    assert (x != world.x0[rows]).any(dim=1).double().mean() > 0.1
    assert total_variation(world.distribution(x), law) < noise_floor(law, num)


class _Constant:
    """All samples weigh the same."""

    def log_weights(self, x):
        return torch.zeros(len(x), dtype=torch.float64)


def test_given_positions_stay_given():
    """Those before the text of a ``num_given`` layout are not real, and known to the network."""
    seen = []

    class Seen(FirstHitting):
        def sample(self, algorithm, real, *, clamp, **_):
            seen.append(clamp)
            return SampleOutput(clamp.clamp(min=0), real.sum(dim=1), torch.zeros(len(real)))

    layout = TokenLayout.flat(3, 3, mask_id=2, num_given=1)
    algorithm = SimpleNamespace(layout=layout)
    move = Move(Seen(), algorithm, _Constant(), share=1.0)
    real = torch.tensor([[False, True, True]]).expand(4, -1)
    x = torch.ones(4, 3, dtype=torch.long)
    move(x, real, generator=make_generator(0))
    assert seen[0].tolist() == [[1, -1, -1]] * 4


def test_systematic_resampling_rounds_expected_numbers():
    log_weights = torch.tensor([0.5, 0.3, 0.2, 0.0]).double().log()
    kept = systematic_rows(log_weights, 10, make_generator(0))
    assert torch.bincount(kept, minlength=4).tolist() == [5, 3, 2, 0]


@pytest.mark.parametrize(
    ("options", "named"), [({"resample": 1.5}, "resample"), ({"tokens_per_call": 2}, "1")]
)
def test_wrong_options_are_refused(options, named):
    with pytest.raises(ValueError, match=named):
        Particles(constraint=Toy("equal", "exact", FULL), **options)


NUM = 8_000


def drawn(name, guess="exact", **options):
    sampler = SoftGuidance(constraint=Toy(name, guess, FULL), **options)
    return sampler.sample(exact("mdlm"), FULL.expand(NUM, -1), generator=make_generator(3))


def written_out(name: str, lookahead_power: float, doubt: float) -> torch.Tensor:
    """Float64[K]: mean over orders of the product over tokens, each by summing over the world."""
    world, _, _ = conditional(name)
    met = CONSTRAINTS[name](world.x0).double()
    law = torch.zeros_like(world.prob)
    for order in permutations(range(3)):
        for k, x in enumerate(world.x0):
            share, fits = 1.0, torch.ones(len(world.prob), dtype=torch.bool)
            for position in order:
                tilted = {}
                for v in world.x0[:, position].unique().tolist():
                    here = world.prob * fits * (world.x0[:, position] == v)
                    h = float((here * met).sum() / here.sum())
                    tilted[v] = float(here.sum()) * max(h, doubt) ** lookahead_power
                share *= tilted[int(x[position])] / sum(tilted.values())
                fits &= world.x0[:, position] == x[position]
            law[k] += share / 6
    return law


@pytest.mark.parametrize("name", ["equal", "one three"])
@pytest.mark.parametrize(("lookahead_power", "doubt"), [(1.0, 0.01), (2.0, 0.2), (0.5, 0.05)])
def test_it_has_the_law_of_its_formula(name, lookahead_power, doubt):
    world, _, p = conditional(name)
    law = written_out(name, lookahead_power, doubt)
    assert float(law.sum()) == pytest.approx(1)
    output = drawn(name, lookahead_power=lookahead_power, doubt=doubt)
    found = world.distribution(output.x0)
    assert total_variation(found, law) < noise_floor(law, NUM)
    assert (output.log_weights == 0).all()
    met = CONSTRAINTS[name](output.x0).double().mean()
    assert p < met < 1  # it helps, and it breaks the constraint


def test_no_power_is_the_model_itself():
    world, _, _ = conditional("rare")
    found = world.distribution(drawn("rare", lookahead_power=0.0, doubt=0.0).x0)
    assert total_variation(found, world.prob) < noise_floor(world.prob, NUM)


def test_without_doubt_and_with_the_true_look_ahead_it_is_the_conditional():
    world, law, _ = conditional("one three")
    output = drawn("one three", doubt=0.0)
    assert CONSTRAINTS["one three"](output.x0).all()
    assert total_variation(world.distribution(output.x0), law) < noise_floor(law, NUM)


def test_without_doubt_and_with_another_look_ahead_its_law_is_wrong():
    """What the weights of particles put right."""
    world, law, _ = conditional("one three")
    output = drawn("one three", "possible", doubt=0.0)
    assert CONSTRAINTS["one three"](output.x0).all()
    assert total_variation(world.distribution(output.x0), law) > 3 * noise_floor(law, NUM)


def test_where_nothing_can_meet_it_the_model_alone_draws():
    clamp = torch.tensor([1, 0, -1]).expand(NUM, -1)
    sampler = SoftGuidance(constraint=Toy("equal", "exact", FULL), doubt=0.0)
    output = sampler.sample(
        exact("mdlm"), FULL.expand(NUM, -1), generator=make_generator(0), clamp=clamp
    )
    world, _, _ = conditional("equal")
    law = world.prob * ((world.x0[:, :2] == torch.tensor([1, 0])).all(dim=1))
    assert total_variation(world.distribution(output.x0), law / law.sum()) < noise_floor(
        law / law.sum(), NUM
    )


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"lookahead_power": -1.0}, "lookahead_power=-1.0"),
        ({"lookahead_power": "much"}, "lookahead_power=much"),
        ({"lookahead_power": True}, "lookahead_power=True"),
        ({"lookahead_power": float("nan")}, "lookahead_power=nan"),
        ({"doubt": 1.5}, "doubt=1.5"),
        ({"tokens_per_call": 2}, "tokens_per_call=2"),
    ],
)
def test_wrong_options_of_guidance_are_refused(options, named):
    with pytest.raises(ValueError, match=named):
        SoftGuidance(constraint=Toy("equal", "exact", FULL), **options)
