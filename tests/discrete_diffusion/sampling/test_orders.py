"""Samplers that choose what to reveal, against the enumeration of every draw they can make."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.evaluation.oracles import HiddenMarkov, UniformTrees
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.noise_schedules import LogLinear
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


def test_fewer_surprises_to_expect_cost_more_calls_and_less_distance():
    world, algorithm = ToyWorld.make(), exact("mdlm")
    apart, calls = [], []
    for surprises in (0.0, 0.5, 0.9, 3.0):
        law = order_law(algorithm, world, "random", surprises=surprises)
        apart.append(total_variation(law, world.prob))
        output = draw_from(algorithm, "first-surprise", 2000, surprises=surprises)
        calls.append(float(output.nfe.double().mean()))
    assert apart == pytest.approx([0.0, 0.020, 0.062, 0.198], abs=1e-3)
    assert calls == sorted(calls, reverse=True)
    assert calls[0] == 3
    # a call of all positions that does not stop loses twice as much
    assert 2 * apart[-1] == pytest.approx(DISTANCES["random", 3], abs=2e-3)


TREES = UniformTrees(12)


def share_of_trees(surprises: float, **options: float) -> tuple[float, float]:
    """Share of trees among samples of an exact network, and their network calls."""
    sampler = build_sampler({"name": "first-surprise", "surprises": surprises, **options})
    real = torch.ones(400, TREES.length, dtype=torch.bool)
    output = sampler.sample(TREES.algorithm(), real, generator=make_generator(0))
    return float(TREES.is_tree(output.x0).double().mean()), float(output.nfe.double().mean())


def test_uniform_trees_are_trees_if_a_call_expects_less_than_one_surprise():
    """Then its expected tokens neither leave two parts apart nor close a circle."""
    share, calls = share_of_trees(0.95)
    assert share == 1
    assert calls < TREES.length / 3
    assert share_of_trees(3.0)[0] < 0.9


@pytest.mark.parametrize("options", [{"top_p": 0.9}, {"temperature": 0.5}])
def test_what_a_call_expects_is_read_at_temperature_1(options):
    """At a lower one no edge is to be expected, and all pairs would be sampled in one call."""
    assert share_of_trees(0.5, **options)[0] == 1


def test_weights_of_a_support_are_those_of_one_token_a_call():
    algorithm, world = exact("mdlm"), ToyWorld.make()
    support = world.layout.support.clone()
    support[1, 2:] = False
    output = draw_from(algorithm, "first-surprise", NUM, surprises=0.0, support=support)
    allowed = world.prob * (world.x0[:, 1] < 2)
    error = float(output.log_weights.exp().std()) / NUM**0.5
    assert abs(float(output.log_weights.exp().mean() - allowed.sum())) < 4 * error
    check(world.distribution(output.x0, output.log_weights.exp()), allowed / allowed.sum())


def test_a_surprise_may_contradict_expected_tokens_of_its_call():
    """Two equal bits, P(1) = 0.2: the second is sampled without the first if both fit a call."""
    start, same = torch.tensor([0.8, 0.2]).double(), torch.eye(2).double()
    world = HiddenMarkov(start, same, same, length=2)
    algorithm = MDLM(world, Absorbing(world.layout(), LogLinear()), time_conditioning=False).eval()
    real = torch.ones(NUM, 2, dtype=torch.bool)

    def differ(surprises: float) -> float:
        sampler = build_sampler({"name": "first-surprise", "surprises": surprises})
        x0 = sampler.sample(algorithm, real, generator=make_generator(0)).x0
        return float((x0[:, 0] != x0[:, 1]).double().mean())

    assert differ(0.39) == 0
    assert differ(0.41) == pytest.approx(0.8 * 0.2, abs=0.01)


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
        if options and sampler != "first-surprise":
            assert (output.nfe == 2).all()
    if sampler != "first-surprise":  # whose calls may end earlier
        assert draw_from("mdlm", sampler, 300, **wide).nfe.tolist() == [1] * 300


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
