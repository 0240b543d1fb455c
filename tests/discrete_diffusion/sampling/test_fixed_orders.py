"""Samplers whose calls reveal fixed sets: their sets, their laws, and the nats that they lose."""

from __future__ import annotations

import itertools
import json
import logging
import math

import pytest
import torch
from torch import Tensor

from discrete_diffusion.algorithms import MDLM, build_algorithm, call_order
from discrete_diffusion.algorithms.call_order import choose_call_order
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.contracts import Batch
from discrete_diffusion.evaluation.oracles import HiddenMarkov, UniformTrees, pair_divergence
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import Planned, build_sampler, fixed_orders
from discrete_diffusion.sampling.fixed_orders import dilated_calls
from discrete_diffusion.sampling.likelihood import path_log_prob
from discrete_diffusion.sampling.tokens import TokenSampler
from toy_samplers import bd3lm, draw_from, exact, record_calls
from toy_world import FULL, PADDED, ExactBackbone, ToyWorld, noise_floor, total_variation, turned

NUM = 20_000


def law_of_sets(world: ToyWorld, sets: list[list[int]]) -> Tensor:
    """p of every x0 of the world if each set is sampled independently given the earlier ones."""
    x0, prob = world.x0, world.prob
    law = torch.ones_like(prob)
    shown: list[int] = []
    for one in sets:
        for place in one:
            same = (x0[:, None, shown] == x0[None, :, shown]).all(dim=-1)
            joint = same & (x0[:, None, place] == x0[None, :, place])
            law = law * ((joint.to(prob) @ prob) / (same.to(prob) @ prob))
        shown += one
    return law


def test_dilated_calls_halve_the_spacing():
    assert dilated_calls(8, None) == (0, 3, 2, 3, 1, 3, 2, 3)
    assert dilated_calls(8, 2) == (0, 1, 0, 1, 0, 1, 0, 1)
    assert dilated_calls(8, 1) == (0,) * 8
    assert dilated_calls(5, 4) == (0, 3, 2, 3, 1)
    assert dilated_calls(1, 3) == (0,)
    for num, calls in itertools.product((5, 8, 13), (4, 6, 13)):  # the largest sets are split
        assert {*dilated_calls(num, calls)} == {*range(min(calls, num))}


@pytest.mark.parametrize(("steps", "sets"), [(None, [[0], [2], [1]]), (2, [[0, 2], [1]])])
def test_dilated_samples_follow_the_law_of_their_sets(steps, sets):
    world = ToyWorld.make(FULL)
    law = law_of_sets(world, sets)
    output = draw_from("mdlm", "dilated", NUM, steps=steps)
    assert total_variation(world.distribution(output.x0), law) < noise_floor(law, NUM)
    assert (output.nfe == len(sets)).all()
    apart = total_variation(law, world.prob)
    assert apart < 1e-9 if steps is None else apart > 0.05


@pytest.mark.parametrize("name", ["dilated", "planned"])
def test_blocks_are_filled_in_turn(name):
    """One token, then two; the two at once lose what they say of each other."""
    world, algorithm = ToyWorld.make(FULL), bd3lm(blocks="groups")
    output = draw_from(algorithm, name, NUM)
    assert total_variation(world.distribution(output.x0), world.prob) < noise_floor(world.prob, NUM)
    output = draw_from(algorithm, name, NUM, steps=1)
    assert (output.nfe == 2).all()
    law = law_of_sets(world, [[0], [1, 2]])
    assert total_variation(world.distribution(output.x0), law) < noise_floor(law, NUM)


def chain(order: int, length: int = 32) -> HiddenMarkov:
    logits = torch.randn([5] * (order + 1), generator=make_generator(order), dtype=torch.float64)
    return HiddenMarkov.chain((2.0 * logits).softmax(-1), length=length)


def sampled(world: HiddenMarkov, name: str, num: int = 2000, **options: int) -> Tensor:
    algorithm = MDLM(world, Absorbing(world.layout(), LogLinear()), time_conditioning=False)
    steps = options.pop("steps", None)
    real = torch.ones(num, world.length, dtype=torch.bool)
    sampler = build_sampler({"name": name, **options})
    output = sampler.sample(algorithm.eval(), real, generator=make_generator(3), steps=steps)
    return output.x0


def test_dilated_is_exact_on_a_chain_of_order_1_and_loses_on_order_2():
    def divergence(world: HiddenMarkov, samples: Tensor) -> float:
        size = world.vocab_size
        pairs = world.start.view(size, -1) if len(world.start) > size else None
        if pairs is None:
            pairs = world.start.unsqueeze(1) * world.transition
        return pair_divergence(samples, pairs)

    one, two = chain(1), chain(2)
    floor = divergence(one, one.sample(2000, make_generator(5)))
    levels = 1 + int(math.log2(one.length))
    assert divergence(one, sampled(one, "dilated")) < 3 * floor
    assert divergence(one, sampled(one, "first-hitting", steps=levels)) > 10 * floor
    assert divergence(one, sampled(one, "dilated", steps=2)) > 3 * floor
    assert divergence(two, sampled(two, "dilated")) > 3 * floor


@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
@pytest.mark.parametrize("sites", [None, torch.tensor([[0], [1], [0]])], ids=["", "sites"])
def test_planned_samples_follow_the_law_of_the_calls_chosen(real, sites, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    world, num, algorithm = ToyWorld.make(real), int(real.sum()), exact("mdlm")
    monkeypatch.setattr(algorithm.layout, "sites", sites)
    if sites is not None:  # as of many tokens
        monkeypatch.setattr(call_order, "MOST_CUTS", 1)
    sampler = build_sampler({"name": "planned", "calls": num - 1})
    rows = real.expand(NUM, -1)
    output = sampler.sample(algorithm, rows, generator=make_generator(1))
    (call,) = sampler._chosen.values()
    sets = [[p for p in range(3) if real[p] and call[p] == k] for k in range(num - 1)]
    law = law_of_sets(world, sets)
    assert total_variation(world.distribution(output.x0), law) < noise_floor(law, NUM)
    assert (output.nfe == num - 1).all()
    assert f"{num} tokens" in caplog.text
    # the likelihood of given samples is that of these calls
    log_p = path_log_prob(sampler, algorithm, Batch(world.x0, real.expand(len(world.x0), -1)))
    assert torch.allclose(log_p.exp(), law, atol=1e-6)
    # one token a call is exact, and needs no choice
    whole = build_sampler({"name": "planned", "calls": 7})
    output = whole.sample(algorithm, rows, generator=make_generator(1))
    assert total_variation(world.distribution(output.x0), world.prob) < noise_floor(world.prob, NUM)
    assert not whole._chosen


class Conditioned(ExactBackbone):
    """A denoiser that a condition turns."""

    def forward(self, x_t: Tensor, sigma: Tensor | None = None, by: Tensor | None = None) -> Tensor:
        logits = super().forward(x_t, sigma)
        return logits if by is None else turned(logits, by)


def law_of_network(algorithm: MDLM, sets: list[list[int]], **conditions: Tensor) -> Tensor:
    """p of every x0 by the network's predictions at the time of the masked share."""
    world = ToyWorld.make(FULL)
    num = len(world.x0)
    real, log_p = torch.ones(num, 3, dtype=torch.bool), torch.zeros(num, dtype=torch.float64)
    hidden = real.clone()
    given = {name: value.expand(num) for name, value in conditions.items()}
    for one in sets:
        x_t = world.x0.masked_fill(hidden, world.layout.mask_id)
        t = algorithm.process.time_of_masked(hidden, real)
        log_d0 = algorithm.denoise(x_t, t, real, given)
        log_p += log_d0.gather(-1, world.x0.unsqueeze(-1)).squeeze(-1)[:, one].sum(dim=1)
        hidden[:, one] = False
    return log_p.exp()


@pytest.mark.parametrize("name", ["dilated", "planned"])
def test_the_network_gets_the_time_of_the_masked_share_and_the_conditions(name):
    world = ToyWorld.make(FULL)
    process = Absorbing(world.layout, LogLinear())
    algorithm = MDLM(Conditioned(process, tilt=3.0), process).eval()
    laws = []
    for by in (torch.tensor(0.3), torch.tensor(3.0)):
        sampler, conditions = build_sampler({"name": name}), {"by": by.expand(NUM)}
        output = sampler.sample(
            *(algorithm, FULL.expand(NUM, -1)),
            generator=make_generator(1),
            steps=2,
            conditions=conditions,
        )
        call = [0, 1, 0]
        if isinstance(sampler, Planned):
            ((call,), (examples,)) = sampler._chosen.values(), sampler._fresh.values()
            assert (examples.conditions["by"] == by).all()
        sets = [[p for p in range(3) if call[p] == k] for k in range(2)]
        laws.append(law_of_network(algorithm, sets, by=by))
        distance = total_variation(world.distribution(output.x0), laws[-1])
        assert distance < noise_floor(laws[-1], NUM)
    assert total_variation(*laws) > 0.05


@pytest.mark.parametrize("are_samples", [False, True])
def test_the_nats_lost_on_a_chain_are_those_of_other_samples(monkeypatch, are_samples):
    num, world = 2000, chain(1, 12)
    monkeypatch.setattr(call_order, "num_tried", lambda length: num)
    algorithm = MDLM(world, Absorbing(world.layout(), LogLinear()), time_conditioning=False).eval()
    drawn = (world.sample(num, make_generator(seed)) for seed in (0, 1))
    examples, others = (Batch(x0, torch.ones_like(x0, dtype=torch.bool)) for x0 in drawn)
    found = choose_call_order(algorithm, examples, 2, make_generator(0), are_samples=are_samples)
    # log p less that of the planned samples
    nats = world.log_prob(others.x0)
    for k in range(2):
        log_d0 = world(others.x0.masked_fill(found.call >= k, world.vocab_size))
        at = log_d0.gather(-1, others.x0.unsqueeze(-1)).squeeze(-1)
        nats -= at[:, found.call == k].sum(dim=1)
    error = float(nats.std()) * (2 / num) ** 0.5
    assert abs(found.lost - float(nats.mean())) < 4 * error < 0.2


def test_the_nats_lost_are_the_divergence_of_the_samples(monkeypatch):
    monkeypatch.setattr(call_order, "num_tried", lambda length: NUM)
    world = ToyWorld.make(FULL)
    drawn = torch.multinomial(world.prob, NUM, replacement=True, generator=make_generator(0))
    examples = Batch(world.x0[drawn], torch.ones_like(world.x0[drawn], dtype=torch.bool))
    found = choose_call_order(exact("mdlm"), examples, 2, make_generator(0))
    sets = [(found.call == k).nonzero().flatten().tolist() for k in range(2)]
    law = law_of_sets(world, sets)
    lost = float(torch.special.xlogy(world.prob, world.prob / law).sum())
    assert found.lost == pytest.approx(lost, abs=0.02)
    # no other way to cut loses less
    for other in ([[0, 1], [2]], [[0, 2], [1]], [[1, 2], [0]], [[0], [1, 2]], [[2], [0, 1]]):
        rival = law_of_sets(world, other)
        assert lost < float(torch.special.xlogy(world.prob, world.prob / rival).sum()) + 0.02
    # the fewest calls that lose no more than asked
    for most, calls in ((10.0, 1), (lost + 0.05, 2), (0.0, 3)):
        asked = choose_call_order(exact("mdlm"), examples, None, make_generator(0), lost=most)
        assert len(asked.sizes) == calls


def test_calls_of_matchings_whose_sizes_fall_make_more_trees():
    world, calls = UniformTrees(17), 33
    x0 = world.sample(128, make_generator(0))
    examples, algorithm = Batch(x0, torch.ones_like(x0, dtype=torch.bool)), world.algorithm()
    planned, real, trees = Planned(), examples.real.repeat(2, 1), []

    def share_of_trees(sampler: TokenSampler) -> float:
        drawn = sampler.sample(algorithm, real, steps=calls, generator=make_generator(2))
        return float(world.is_tree(drawn.x0).double().mean())

    for sites in (world.pairs.T, None):
        algorithm.layout.sites = sites
        found = choose_call_order(algorithm, examples, calls, make_generator(1), are_samples=True)
        assert found.call.bincount().tolist() == [*found.sizes]
        assert sum(found.sizes[:8]) > sum(found.sizes[-20:])
        planned.order = lambda *given, found=found: found.call
        trees.append(share_of_trees(planned))
    trees.append(share_of_trees(build_sampler({"name": "first-hitting"})))
    assert trees[0] > trees[1] + 0.02 > trees[2] + 0.05


def test_pairs_that_follow_each_other_share_no_node():
    order = torch.randperm(66, generator=make_generator(0))
    pairs = UniformTrees(12).pairs.T

    def num_shared(order: Tensor) -> int:
        runs = pairs[order.view(-1, 3)].flatten(1)
        return runs.numel() - sum(len(run.unique()) for run in runs)

    spread = call_order.spread(order, pairs)
    assert spread.sort().values.tolist() == [*range(66)]
    assert num_shared(spread) == 0 < 10 < num_shared(order)
    # with types of nodes, which are not put off, and come little sooner
    small, large = (VocabConfig(n, ("a",), ("edge", "none")).layout() for n in (3, 24))
    assert small.sites.tolist() == [[0, 0], [1, 1], [2, 2], [0, 1], [0, 2], [1, 2]]
    mixed = call_order.spread(torch.randperm(300, generator=make_generator(0)), large.sites)
    assert 0.3 < float((mixed < 24).nonzero().double().mean()) / 300 < 0.5


def test_calls_of_mixed_sizes_and_clamps_ask_for_what_is_free():
    real = torch.stack([FULL, PADDED])
    clamp = torch.tensor([[-1, 2, -1], [-1, -1, -1]])
    algorithm = exact("mdlm")
    clamp[0, 1] = int(algorithm.layout.support[1].nonzero()[0])
    calls = record_calls(algorithm)
    for name in ("planned", "dilated"):
        calls.clear()
        output = build_sampler({"name": name}).sample(
            algorithm, real, generator=make_generator(0), clamp=clamp
        )
        assert int(output.x0[0, 1]) == int(clamp[0, 1])
        assert output.nfe.tolist() == [2, int(PADDED.sum())]


def test_samples_of_all_sizes_share_their_calls(monkeypatch):
    monkeypatch.setattr(fixed_orders, "num_tried", lambda length: 8)
    config = compose("train", ["algo=mdlm", "algo.backbone=dit", "model=dit_tiny"])
    algorithm, sampler = build_algorithm(config).eval(), Planned(calls=3)
    real = RPLAN_VOCAB_CONFIG.real_positions(torch.tensor([4, 5, 5]))
    sampler.typical = lambda num: real[torch.arange(num) % 3]
    output = sampler.sample(algorithm, real, generator=make_generator(0), keep_trajectory=True)
    (call,) = sampler._chosen.values()
    for k, x in enumerate(output.trajectory):
        hidden = (torch.tensor(call) >= k) & real
        assert torch.equal(x == algorithm.layout.mask_id, hidden)
    # a size that is larger than all of them has calls of its own
    larger = RPLAN_VOCAB_CONFIG.real_positions(torch.tensor([6]))
    output = sampler.sample(algorithm, larger, generator=make_generator(0))
    assert len(sampler._chosen) == 2
    assert output.nfe.tolist() == [3]


def test_chosen_calls_are_kept_for_the_same_weights(tmp_path, caplog):
    world = chain(1, 8)
    algorithm = MDLM(world, Absorbing(world.layout(), LogLinear()), time_conditioning=False).eval()
    real = torch.ones(4, 8, dtype=torch.bool)

    def calls(transition: Tensor | None = None) -> list[int]:
        if transition is not None:
            world.transition.copy_(transition)
        sampler = Planned(calls=3)
        sampler.files = (shipped, store)
        caplog.clear()
        with caplog.at_level(logging.INFO):
            sampler.sample(algorithm, real, generator=make_generator(0))
        return [*sampler._chosen.values()][-1]

    shipped, store = tmp_path / "shipped.json", tmp_path / "best.ckpt.call_orders.json"
    first = calls()
    assert "8 tokens" in caplog.text
    assert calls() == first
    assert "8 tokens" not in caplog.text
    calls(chain(1, 8).transition.flip(1))
    assert "8 tokens" in caplog.text  # other weights
    store.rename(shipped)
    calls()
    assert "8 tokens" not in caplog.text
    assert not store.exists()
    shipped.rename(store)
    (key,) = json.loads(store.read_text())
    for broken in ("{", "[]", *(json.dumps({key: x}) for x in ("a", None, [-1] * 8, [9] * 8, [0]))):
        store.write_text(broken)
        found = calls()
        assert json.loads(store.read_text()) == {key: found}
        assert f"{store}" in caplog.text or broken.endswith("[0]}")
    # orders of the same weights that another run has written meanwhile stay
    other = key.replace(" 3", " 4")
    store.write_text(json.dumps({other: [0] * 8, "of other weights": [0] * 8}))
    calls()
    assert {*json.loads(store.read_text())} == {key, other}


def test_the_loss_is_that_of_one_position_per_call_and_of_all_blocks(monkeypatch):
    monkeypatch.setattr(call_order, "num_tried", lambda length: 32)
    probs = torch.full((2, 2), 0.02).double().fill_diagonal_(0.98)
    world = HiddenMarkov.chain(probs, length=80)
    process = Absorbing(world.layout(), LogLinear())
    algorithm = MDLM(world, process, time_conditioning=False).eval()
    x0 = world.sample(32, make_generator(0))
    examples = Batch(x0, torch.ones_like(x0, dtype=torch.bool))
    found = choose_call_order(
        algorithm, examples, None, make_generator(0), lost=1.0, are_samples=True
    )
    assert found.slow_calls == 80
    entropy = -float(world.log_prob(world.sample(2000, make_generator(1))).mean())
    assert found.nats < entropy + 1.0 + 0.3


def test_given_ids_of_an_earlier_run_do_not_change_samples(tmp_path):
    """Each set of conditions has an order of its own; later requests of a run share the first."""
    config = compose("train", ["algo=mdlm", "algo.backbone=dit", "model=dit_tiny"])
    algorithm = build_algorithm(config).eval()
    real = RPLAN_VOCAB_CONFIG.real_positions(torch.tensor([4, 4]))
    algorithm.layout.num_given = 1  # the first id as if it were given
    real[:, 0] = False

    def keys(*firsts: int) -> list[str]:
        sampler = Planned(calls=2)
        sampler.files = (tmp_path / "orders.json",)
        for first in firsts:
            clamp = torch.full(real.shape, -1)
            clamp[:, 0] = first
            sampler.sample(algorithm, real, generator=make_generator(0), clamp=clamp)
        return [*sampler._under.values()]

    assert keys(1) != keys(2)
    assert keys(1) == keys(1, 2)


def test_another_model_has_calls_of_its_own():
    world = chain(1, 8)
    real, sampler = torch.ones(4, 8, dtype=torch.bool), Planned(calls=3)
    for same_object in (False, True):
        for _ in range(2):
            if not same_object:
                process = Absorbing(world.layout(), LogLinear())
                algorithm = MDLM(world, process, time_conditioning=False).eval()
            sampler.sample(algorithm, real, generator=make_generator(0))
            world.transition.copy_(world.transition.flip(1))
        assert len(sampler._chosen) == 2
        sampler = Planned(calls=3)


def test_two_numbers_of_calls_are_refused():
    with pytest.raises(ValueError, match=r"sampling\.calls=3.*sampling\.lost=0\.5"):
        Planned(calls=3, lost=0.5)
