"""Samplers that choose what to reveal, against the enumeration of every draw they can make."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.evaluation.oracles import UniformTrees
from discrete_diffusion.sampling import build_sampler
from discrete_diffusion.sampling.unmasking import SCORES
from laws import order_law
from toy_samplers import bd3lm, draw_from, exact
from toy_world import FULL, LENGTH, MASK, PADDED, ToyWorld, noise_floor, total_variation, toy_layout

NUM = 20_000
CASES = [
    ("first-hitting", "random", {"tokens_per_call": 2}, 2),
    ("first-hitting", "random", {"tokens_per_call": 3}, 3),
    ("confidence", "confidence", {}, 1),
    ("confidence", "confidence", {"tokens_per_call": 2}, 2),
    ("margin", "margin", {"tokens_per_call": 2}, 2),
    ("entropy", "entropy", {"tokens_per_call": 2}, 2),
    ("entropy", "entropy", {"tokens_per_call": 7}, 3),
]
DISTANCES = {  # to the data, of the laws above
    ("random", 2): 0.166,
    ("random", 3): 0.396,  # nothing but the three marginals
    ("confidence", 1): 0.351,
    ("confidence", 2): 0.209,
    ("margin", 2): 0.167,
    ("entropy", 2): 0.201,
    ("entropy", 3): 0.396,
}


def check(share: torch.Tensor, law: torch.Tensor) -> None:
    assert total_variation(share, law) < noise_floor(law, NUM)


@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
@pytest.mark.parametrize(("sampler", "score", "options", "number"), CASES)
def test_several_tokens_per_call_follow_the_law(sampler, score, options, number, real):
    world, algorithm = ToyWorld.make(real), exact("mdlm")
    law = order_law(algorithm, world, score, number)
    if real is FULL:
        expected = DISTANCES[score, number]
        assert total_variation(law, world.prob) == pytest.approx(expected, abs=1e-3)
    output = draw_from(algorithm, sampler, NUM, real=real, **options)
    check(world.distribution(output.x0), law)
    assert (output.nfe == -(-int(real.sum()) // number)).all()


@pytest.mark.parametrize("order", list(SCORES))
@pytest.mark.parametrize("budget", [0.3, 0.9, 5.0])
def test_entropy_bounded_follows_the_law(budget, order):
    """Up to everything in one call for a budget that all entropies fit in."""
    world, algorithm = ToyWorld.make(), exact("mdlm")
    law = order_law(algorithm, world, order, budget=budget)
    output = draw_from(algorithm, "entropy-bounded", NUM, entropy_budget=budget, order=order)
    check(world.distribution(output.x0), law)
    if budget == 5.0:
        assert (output.nfe == 1).all()


def test_a_larger_budget_costs_fewer_calls_and_more_distance():
    world, algorithm = ToyWorld.make(), exact("mdlm")
    calls, apart = [], []
    for budget in (0.0, 0.5, 0.9, 1.5, 5.0):
        law = order_law(algorithm, world, "random", budget=budget)
        apart.append(total_variation(law, world.prob))
        output = draw_from(
            algorithm, "entropy-bounded", 2000, entropy_budget=budget, order="random"
        )
        calls.append(output.nfe.double().mean().item())
    assert calls == sorted(calls, reverse=True)
    assert calls[0] == 3
    assert calls[-1] == 1
    assert apart == sorted(apart)
    assert apart[0] < 1e-12


@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
@pytest.mark.parametrize("surprises", [0.5, 0.9, 1.5, 3.0])
def test_first_surprise_follows_the_law(surprises, real):
    world, algorithm = ToyWorld.make(real), exact("mdlm")
    law = order_law(algorithm, world, "random", surprises=surprises)
    output = draw_from(algorithm, "first-surprise", NUM, real=real, surprises=surprises)
    check(world.distribution(output.x0), law)


def test_calls_that_end_at_a_surprise_lose_less():
    """Even if any number is expected: half of what one call for all positions loses."""
    world, algorithm = ToyWorld.make(), exact("mdlm")
    laws = [order_law(algorithm, world, "random", surprises=number) for number in (0, 0.5, 0.9, 3)]
    apart = [total_variation(law, world.prob) for law in laws]
    assert apart[0] < 1e-12
    assert apart == pytest.approx([0.0, 0.020, 0.062, 0.198], abs=1e-3)
    assert apart[-1] < 0.6 * DISTANCES["random", 3]


def test_trees_are_trees_if_a_call_expects_less_than_one_surprise():
    """A call cannot sample all pairs that may join two parts, nor two edges that close a circle."""
    world = UniformTrees(12)
    real = torch.ones(400, world.length, dtype=torch.bool)

    def drawn(surprises: float) -> tuple[float, float]:
        sampler = build_sampler({"name": "first-surprise", "surprises": surprises})
        output = sampler.sample(world.algorithm(), real, generator=make_generator(0))
        return float(world.is_tree(output.x0).double().mean()), float(output.nfe.double().mean())

    assert drawn(0.95)[0] == 1
    assert drawn(0.95)[1] < world.length / 3
    assert drawn(3.0)[0] < 0.9


def test_scores_are_what_they_say():
    log_d0 = torch.tensor([[0.7, 0.2, 0.1], [0.4, 0.35, 0.25]]).double().log()
    tokens = torch.tensor([1, 0])

    def score(name: str) -> list[float]:
        return SCORES[name](log_d0, tokens, make_generator(0)).tolist()

    assert score("confidence") == pytest.approx(torch.tensor([0.2, 0.4]).double().log().tolist())
    assert score("margin") == pytest.approx([0.5, 0.05])
    entropy = torch.special.entr(log_d0.exp()).sum(dim=-1)
    assert score("entropy") == pytest.approx((-entropy).tolist())
    assert score("random") == score("random")
    assert len(set(score("random"))) == 2


# -- groups in turn --------------------------------------------------------------------------------

WIDE = {"entropy-bounded": {"entropy_budget": 9.0}, "first-surprise": {"surprises": 9.0}}
CHOOSING = ("confidence", "margin", "entropy", *WIDE)


@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
@pytest.mark.parametrize("sampler", CHOOSING)
def test_a_group_is_full_before_the_next_begins(sampler, real):
    """Whatever the score, and even where one call could reveal everything."""
    wide = WIDE.get(sampler, {"tokens_per_call": 3})
    calls = {2, 3} if sampler == "first-surprise" else {2}
    group = toy_layout().group
    for options in ({}, wide):
        output = draw_from(
            "mdlm",
            sampler,
            300,
            real=real,
            keep_trajectory=True,
            group_by_group=True,
            **options,
        )
        visible = (output.trajectory != MASK) & real
        edges_begun = visible[:, :, group == 1].any(dim=2)
        assert edges_begun.any()
        assert visible[:, :, group == 0][edges_begun].all()
        if options:
            assert {*output.nfe.tolist()} <= calls
    assert draw_from("mdlm", sampler, 300, **wide).nfe.min() == 1


def test_without_turns_the_score_alone_decides():
    """On this world the margin does not always put the first group first."""
    output = draw_from("mdlm", "margin", 300, keep_trajectory=True)
    first = output.trajectory[1] != MASK
    assert first[:, 1:].any()


def test_steps_are_per_group():
    """As for blocks: as many calls at most for each."""
    for steps in (1, 2):
        output = draw_from("mdlm", "margin", 20, steps=steps, group_by_group=True)
        assert output.nfe.tolist() == [steps + 1] * 20  # one room, two relations
    by_block = draw_from(bd3lm(), "first-hitting", 20, steps=1)
    assert by_block.nfe.tolist() == [2] * 20


def test_given_groups_cost_no_turn():
    clamp = torch.tensor([1, -1, -1])
    output = draw_from("mdlm", "entropy", 20, clamp=clamp, group_by_group=True)
    assert output.nfe.tolist() == [LENGTH - 1] * 20
    clamp = torch.tensor([-1, 2, 3])
    output = draw_from("mdlm", "entropy", 20, clamp=clamp, group_by_group=True)
    assert output.nfe.tolist() == [1] * 20
