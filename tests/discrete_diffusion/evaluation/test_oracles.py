"""The denoisers of the oracle worlds are those of their enumerations, and samplers are measured."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.evaluation.oracles import (
    EXACT_DRAWS,
    HiddenMarkov,
    OracleWorld,
    UniformTrees,
    pair_divergence,
    sampler_distances,
)
from discrete_diffusion.sampling import Ancestral, FirstHitting
from discrete_diffusion.sampling.registry import SAMPLERS
from toy_world import noise_floor, total_variation

LENGTH, V = 4, 3
EVERY = torch.tensor(list(itertools.product(range(V), repeat=LENGTH)))


def rows(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=make_generator(*shape), dtype=torch.float64).softmax(-1)


def worlds(uniform: bool = False) -> list[HiddenMarkov]:
    one, two = (HiddenMarkov.chain(rows(*[V] * (k + 1)), length=LENGTH) for k in (1, 2))
    hidden = HiddenMarkov(rows(2), rows(2, 2), rows(2, V), length=LENGTH)
    for world in (one, two, hidden):
        world.uniform = uniform
    return [one, two, hidden]


TREES = UniformTrees(4)
EVERY_GRAPH = torch.tensor(list(itertools.product(range(2), repeat=6)))


def enumerated(world: OracleWorld, every: Tensor, seen: Tensor) -> Tensor:
    """log D Float[L, V] from p(x0) and the probability ``seen`` Float[L, V] of each token seen."""
    prob = world.log_prob(every).exp()
    places = torch.arange(world.length)
    factors = seen[places, every]  # (N, L)
    found = torch.zeros(world.length, world.vocab_size, dtype=torch.float64)
    for place in range(world.length):
        others = factors[:, places != place].prod(dim=1)
        found[place].index_add_(0, every[:, place], prob * others)
    return (found / found.sum(dim=1, keepdim=True)).log()


@pytest.mark.parametrize("kind", range(3))
def test_the_denoiser_is_that_of_the_enumeration(kind):
    world = worlds()[kind]
    assert float(world.log_prob(EVERY).exp().sum()) == pytest.approx(1)
    for shown in itertools.product((False, True), repeat=LENGTH):
        x0 = EVERY[17]
        x_t = torch.where(torch.tensor(shown), x0, V)
        seen = torch.where(torch.tensor(shown).unsqueeze(1), torch.eye(V)[x0], 1.0).double()
        found = world(x_t.unsqueeze(0))[0]
        assert (found[:, V] == -torch.inf).all()
        torch.testing.assert_close(found[:, :V], enumerated(world, EVERY, seen))


@pytest.mark.parametrize("kind", range(3))
def test_with_uniform_noise_every_token_is_evidence_of_all_others(kind):
    world = worlds(uniform=True)[kind]
    x_t, alphas = EVERY[[40, 7]], torch.tensor([0.3, 0.9]).double()
    for row, alpha, found in zip(x_t, alphas, world(x_t, -alphas.log()), strict=True):
        seen = alpha * torch.eye(V).double()[row] + (1 - alpha) / V
        torch.testing.assert_close(found[:, :V], enumerated(world, EVERY, seen))


@pytest.mark.parametrize("kind", range(3))
def test_samples_and_pairs_have_the_probabilities(kind):
    world, num = worlds()[kind], 20_000
    drawn = world.sample(num, make_generator(0))
    law = world.log_prob(EVERY).exp()
    code = drawn @ torch.tensor([V**3, V**2, V, 1])
    share = code.bincount(minlength=len(law)) / num
    assert total_variation(share.double(), law) < noise_floor(law, num)
    # pairs of all positions together
    for distance in (1, 2):
        pairs = torch.zeros(V * V, dtype=torch.float64)
        for place in range(LENGTH - distance):
            pairs.index_add_(0, EVERY[:, place] * V + EVERY[:, place + distance], law)
        found = world.pair_law(distance)
        torch.testing.assert_close(found.flatten(), pairs / (LENGTH - distance))
        assert pair_divergence(drawn, found, distance) < 5e-4
        assert world.distances(drawn)[f"pairs at distance {distance}"] < 5e-4
    if kind < 2:
        assert world.distances(drawn.flip(1))["pairs at distance 1"] > 5e-4


def test_a_text_gives_its_transition_counts():
    text = torch.tensor([0, 1, 1, 2, 0, 1, 2])
    world = HiddenMarkov.from_text(text, order=1, length=5, smoothing=0.25)
    counts = torch.tensor([[0.0, 2, 0], [0, 1, 2], [1, 0, 0]]).double() + 0.25
    torch.testing.assert_close(world.transition, counts / counts.sum(1, keepdim=True))
    two = HiddenMarkov.from_text(text, order=2, length=5, vocab_size=4, smoothing=1)
    assert float(two.transition[1, 4 + 1]) == pytest.approx(2 / 6)  # 0, 1 before 1: once of twice
    assert float(two.transition[1, 4 + 2]) == pytest.approx(2 / 6)
    assert float(two.transition[3, 4 * 3]) == pytest.approx(1 / 4)  # 0, 3 never comes
    for bad, said in (
        ({"order": 0}, "order=0"),
        ({"order": 7}, "order=7 with 7 tokens"),
        ({"order": 1, "vocab_size": 2}, "0 to 1"),
        ({"order": 1, "smoothing": 0}, "smoothing=0"),
    ):
        with pytest.raises(ValueError, match=said):
            HiddenMarkov.from_text(text, length=5, **bad)


def test_the_denoiser_of_trees_is_that_of_the_enumeration():
    law = TREES.log_prob(EVERY_GRAPH).exp()
    assert int((law > 0).sum()) == 16  # Cayley: 4^2
    assert float(law.sum()) == pytest.approx(1)
    for x0 in EVERY_GRAPH[law > 0][::5]:
        for shown in itertools.product((False, True), repeat=TREES.length):
            visible = torch.tensor(shown)
            x_t = torch.where(visible, x0, 2)
            seen = torch.where(visible.unsqueeze(1), torch.eye(2)[x0], 1.0).double()
            found = TREES(x_t.unsqueeze(0))[0]
            expected = enumerated(TREES, EVERY_GRAPH, seen)
            torch.testing.assert_close(found.exp()[~visible, :2], expected.exp()[~visible])
            torch.testing.assert_close(found.exp()[visible, :2], torch.eye(2)[x0[visible]].double())


@pytest.mark.parametrize("alpha", [0.001, 0.4, 0.99])
def test_with_uniform_noise_trees_are_weighted(alpha):
    world = UniformTrees(4, uniform=True)
    sigma = -torch.full((len(EVERY_GRAPH),), alpha).double().log()
    for x_t, found in zip(EVERY_GRAPH, world(EVERY_GRAPH, sigma), strict=True):
        seen = alpha * torch.eye(2).double()[x_t] + (1 - alpha) / 2
        expected = enumerated(world, EVERY_GRAPH, seen).exp()
        torch.testing.assert_close(found[:, :2].exp(), expected, rtol=1e-6, atol=1e-8)


def test_samples_of_trees_are_uniform_and_their_degrees_known():
    num = 20_000
    drawn = TREES.sample(num, make_generator(0))
    law = TREES.log_prob(EVERY_GRAPH).exp()
    share = (drawn @ 2 ** torch.arange(5, -1, -1)).bincount(minlength=64) / num
    assert total_variation(share.double(), law) < noise_floor(law, num)
    assert all(value < 1e-3 for value in TREES.distances(drawn).values())
    # a quarter of the samples: a triangle and a node alone
    drawn[::4] = torch.tensor([1, 1, 0, 1, 0, 0])
    found = TREES.distances(drawn)
    assert found["being a tree"] == pytest.approx(-math.log(0.75), abs=1e-4)
    assert found["degrees"] > 0.01
    assert UniformTrees(2).sample(3, make_generator(0)).tolist() == [[1]] * 3
    with pytest.raises(ValueError, match="num_nodes=1"):
        UniformTrees(1)


def test_states_of_no_tree_have_probabilities():
    x_t = torch.tensor([[1, 1, 2, 1, 2, 2], [0, 0, 0, 2, 2, 2], [1, 1, 1, 1, 1, 1]])
    log_d = TREES(x_t)
    assert not log_d.isnan().any()
    torch.testing.assert_close(log_d.exp().sum(dim=-1), torch.ones(3, 6).double())


class Backwards(FirstHitting):
    """A sampler of another package: it returns what it sampled in reverse."""

    name = "backwards"

    def run(self, samples):
        super().run(samples)
        samples.x = samples.x.flip(1)


class Illegal(Ancestral):
    name = "illegal"

    def sample(self, algorithm, real, **request) -> SampleOutput:
        output = super().sample(algorithm, real, **request)
        output.x0[0, 0] = 9
        return output


def needs_an_option(size: int) -> FirstHitting:
    return FirstHitting(tokens_per_call=size)


@pytest.mark.parametrize("uniform", [False, True])
def test_every_sampler_is_measured_or_refused_with_a_reason(uniform, monkeypatch):
    monkeypatch.setitem(SAMPLERS.builders, Backwards.name, Backwards)
    monkeypatch.setitem(SAMPLERS.builders, "optioned", needs_an_option)
    world = worlds(uniform)[0]
    rows = sampler_distances(world, num=400, seeds=(0, 1))
    by_name = {row.name: row for row in rows}
    assert [row.name for row in rows] == [EXACT_DRAWS, *SAMPLERS.names()]
    refused = {row.name: row.refused for row in rows if row.refused}
    assert {"few-call", "autoregressive", "optioned"} <= refused.keys()
    assert ("first-hitting" in refused) is uniform
    assert "size" in refused["optioned"]
    for row in rows:
        assert bool(row.refused) is not bool(row.distances)
        assert all(len(values) == 2 for values in row.distances.values())
    measured = by_name["ancestral" if uniform else "first-hitting"]
    assert measured.calls == (100 if uniform else LENGTH)
    assert measured.cpu_seconds > 0

    def distance(name: str) -> float:
        return sum(by_name[name].distances["pairs at distance 1"]) / 2

    if not uniform:  # exact samplers are at the floor, the stranger's is not
        floor, wrong = distance(EXACT_DRAWS), distance("backwards")
        for name in ("first-hitting", "dilated", "planned", "entropy"):
            assert distance(name) < 0.3 * wrong, name
        assert floor < 0.3 * wrong
        again = sampler_distances(world, [{"name": "dilated"}], num=400, seeds=(0, 1))
        assert again[1].distances == by_name["dilated"].distances


def test_a_sampler_that_fits_and_fails_is_no_refusal(monkeypatch):
    monkeypatch.setitem(SAMPLERS.builders, Illegal.name, Illegal)
    with pytest.raises(ValueError, match=r"test_oracles\.Illegal"):
        sampler_distances(worlds()[0], [{"name": "illegal"}], num=4, seeds=(0,))


def test_chosen_samplers_and_steps_are_measured_in_turn():
    world = UniformTrees(4)
    asked = [{"name": "first-hitting"}, {"name": "entropy-bounded", "entropy_budget": 0.0}]
    rows = sampler_distances(world, asked, steps=(None, 1), num=200, seeds=(0, 1))
    assert [(row.name, row.steps) for row in rows[1:]] == [
        *(("first-hitting", None), ("first-hitting", 1)),
        *(("entropy-bounded", None), ("entropy-bounded", 1)),
    ]
    assert "entropy_budget" in rows[-1].refused
    whole, one = rows[1], rows[2]
    assert (whole.calls, one.calls) == (6, 1)
    assert max(whole.distances["being a tree"]) < 0.01 < min(one.distances["being a tree"])
    with pytest.raises(ValueError, match="sampler"):
        sampler_distances(world, [{"name": "nobody"}])


def test_tables_that_are_no_probabilities_are_refused():
    with pytest.raises(ValueError, match="emission"):
        HiddenMarkov(rows(2), rows(2, 2), torch.ones(2, V), length=3)
    with pytest.raises(ValueError, match=r"\[S, S\]"):
        HiddenMarkov(rows(2), rows(3, 3), rows(2, V), length=3)


def test_impossible_texts_have_a_denoiser_and_samplers_that_make_them_are_measured():
    probs = torch.tensor([[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])
    world = HiddenMarkov.chain(probs, length=6)
    x0 = torch.tensor([[0, 0, 1, 2, 0, 1], [0, 2, 1, 1, 1, 1], [1, 1, 1, 0, 2, 1]])
    found = world.log_prob(x0)
    assert float(found[0]) == pytest.approx(math.log(1 / 3 / 2**5))
    assert found[1:].tolist() == [-math.inf] * 2
    for place in range(6):
        x_t = x0.clone()
        x_t[:, place] = V
        torch.testing.assert_close(world(x_t).exp().sum(-1), torch.ones(3, 6).double())
    asked = [{"name": "first-hitting"}, {"name": "ancestral"}]
    for row in sampler_distances(world, asked, steps=(2,), num=200, seeds=(0, 1))[1:]:
        assert not row.refused
        assert all(map(math.isfinite, row.distances["pairs at distance 1"]))


@pytest.mark.parametrize("length", [1, 2])
def test_short_sequences_have_the_distances_that_exist(length):
    world = HiddenMarkov.chain(rows(V, V), length=length)
    found = world.distances(world.sample(100, make_generator(0)))
    assert [*found] == ["pairs at distance 1"][: length - 1]
    assert all(map(math.isfinite, found.values()))
    with pytest.raises(ValueError, match=f"distance={length}"):
        world.pair_law(length)


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (3,), (2, 2, 3)])
def test_chains_of_axes_that_differ_are_refused(shape):
    with pytest.raises(ValueError, match=rf"probs: .*{', '.join(map(str, shape))}"):
        HiddenMarkov.chain(torch.full(shape, 1 / shape[-1]), length=3)


@pytest.mark.parametrize(
    ("probs", "law"),
    [
        ([[1 - 1e-5, 1e-5], [3e-5, 1 - 3e-5]], [0.75, 0.25]),  # slow
        ([[0, 0.5, 0.5], [1, 0, 0], [1, 0, 0]], [0.5, 0.25, 0.25]),  # of period 2
        ([[1, 0, 0], [0.5, 0, 0.5], [0, 0, 1]], [0.5, 0, 0.5]),  # of many laws
    ],
)
def test_chains_begin_in_their_stationary_law(probs, law):
    table = torch.tensor(probs, dtype=torch.float64)
    world = HiddenMarkov.chain(table, length=3)
    expected = torch.tensor(law, dtype=torch.float64)
    torch.testing.assert_close(world.start, expected, rtol=1e-9, atol=1e-12)
    two = HiddenMarkov.chain(rows(V, V, V), length=3)
    torch.testing.assert_close(two.start @ two.transition, two.start, rtol=0, atol=1e-14)
