"""Soft guidance of the toy world has the law that its formula says, and it breaks constraints."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from discrete_diffusion.categorical import make_generator
from floor_plans.briefs.particles import SoftGuidance
from toy_constraints import CONSTRAINTS, Toy, conditional
from toy_samplers import exact
from toy_world import FULL, noise_floor, total_variation

NUM = 8_000


def drawn(name, guess="exact", **options):
    sampler = SoftGuidance(constraint=Toy(name, guess, FULL), **options)
    return sampler.sample(exact("mdlm"), FULL.expand(NUM, -1), generator=make_generator(3))


def written_out(name: str, gamma: float, doubt: float) -> torch.Tensor:
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
                    tilted[v] = float(here.sum()) * max(h, doubt) ** gamma
                share *= tilted[int(x[position])] / sum(tilted.values())
                fits &= world.x0[:, position] == x[position]
            law[k] += share / 6
    return law


@pytest.mark.parametrize("name", ["equal", "one three"])
@pytest.mark.parametrize(("gamma", "doubt"), [(1.0, 0.01), (2.0, 0.2), (0.5, 0.05)])
def test_it_has_the_law_of_its_formula(name, gamma, doubt):
    world, _, p = conditional(name)
    law = written_out(name, gamma, doubt)
    assert float(law.sum()) == pytest.approx(1)
    output = drawn(name, gamma=gamma, doubt=doubt)
    found = world.distribution(output.x0)
    assert total_variation(found, law) < noise_floor(law, NUM)
    assert (output.log_weights == 0).all()
    met = CONSTRAINTS[name](output.x0).double().mean()
    assert p < met < 1  # it helps, and it breaks the constraint


def test_no_power_is_the_model_itself():
    world, _, _ = conditional("rare")
    found = world.distribution(drawn("rare", gamma=0.0, doubt=0.0).x0)
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
        ({"gamma": -1.0}, "gamma=-1.0"),
        ({"gamma": "much"}, "gamma=much"),
        ({"gamma": True}, "gamma=True"),
        ({"gamma": float("nan")}, "gamma=nan"),
        ({"doubt": 1.5}, "doubt=1.5"),
        ({"tokens_per_call": 2}, "tokens_per_call=2"),
    ],
)
def test_wrong_options_are_refused(options, named):
    with pytest.raises(ValueError, match=named):
        SoftGuidance(constraint=Toy("equal", "exact", FULL), **options)
