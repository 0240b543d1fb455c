"""Reported bounds: what is averaged, what is subtracted, what the baselines are; by size."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.data import Examples, SplitBatches, TokenDataset
from discrete_diffusion.data.graph_tokens import GraphDataset
from discrete_diffusion.evaluation.bound import (
    BoundMeter,
    MeasurementSettings,
    SampleBounds,
    blind_bounds,
    estimate_bound,
    sample_bounds,
)
from discrete_diffusion.evaluation.model_scores import score_model
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG as VOCAB
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling.model import Model
from fake_processes import in_processes
from toy_graphs import graph_dataset, random_graphs


class Counting(MDLM):
    """Counts how often its loss is asked for; ``draws_nothing``: as if it were exact."""

    calls, draws_nothing = 0, False

    @property
    def evaluation_draw(self) -> str:
        return "exact" if self.draws_nothing else "uniform_count"

    def loss(self, batch, generator, draw=None):
        assert not self.training
        self.calls += 1
        return super().loss(batch, generator, "uniform_count")


class ZeroBackbone(nn.Module):
    def forward(self, x_t, sigma=None):
        return torch.zeros(*x_t.shape, VOCAB.vocab_size)


def untrained(**options) -> MDLM:
    return MDLM(ZeroBackbone(), Absorbing(VOCAB.layout(), LogLinear()), **options).eval()


def dataset(node_order: str) -> GraphDataset:
    return graph_dataset(random_graphs(400, seed=1), node_order, fractions=(0.5, 0.5, 0))


SETTINGS = MeasurementSettings((0,))


@pytest.mark.parametrize("node_order", ["random", "canonical"])
def test_the_untrained_bound_and_its_unordered_form(node_order):
    data = dataset(node_order)
    stream = SplitBatches(data, "val", batch_size=64, seed=0)
    bound = estimate_bound(untrained(), stream, quantity=data.bound, draws=8, settings=SETTINGS)
    rooms = data.splits["val"].real[:, :8].sum(1).double()
    expected = (rooms * math.log(13) + rooms * (rooms - 1) / 2 * math.log(11)).mean().item()
    assert bound.per_sample == pytest.approx(expected, abs=0.2)
    assert bound.num_samples == len(rooms)
    tokens = (rooms + rooms * (rooms - 1) / 2).mean().item()
    assert bound.per_token == pytest.approx(bound.per_sample / tokens, rel=1e-6)
    spread = rooms * math.log(13) + rooms * (rooms - 1) / 2 * math.log(11)
    assert bound.standard_error == pytest.approx(spread.std().item() / len(rooms) ** 0.5, rel=0.1)
    named = bound.as_dict()
    orders = data.splits["val"].log_num_orders.mean().item()
    if node_order == "random":
        assert named["nelbo_unordered"] == pytest.approx(bound.per_sample - orders, rel=1e-6)
        assert "nelbo_ordered_random" in named
    else:
        assert named["nelbo_unordered"] == bound.per_sample == named["nelbo_ordered_fixed"]


def test_baselines_do_not_depend_on_the_node_order():
    """Both are exchangeable."""
    for node_order in ("random", "canonical"):
        data = dataset(node_order)
        bounds = blind_bounds(data, "val")
        rooms = data.splits["val"].real[:, :8].sum(1).double()
        uniform = rooms * math.log(13) + rooms * (rooms - 1) / 2 * math.log(11)
        orders = data.splits["val"].log_num_orders.mean()
        assert bounds["nelbo_uniform"] == pytest.approx((uniform.mean() - orders).item(), rel=1e-9)
        assert bounds["nelbo_blind"] < bounds["nelbo_uniform"]
        if node_order == "canonical":  # of one order, as the bound of a model is
            own = bounds["nelbo_uniform_ordered_fixed"]
            assert own == pytest.approx(uniform.mean().item(), rel=1e-9)
            of_one = bounds["nelbo_blind_ordered_fixed"] - bounds["nelbo_blind"]
            assert of_one == pytest.approx(orders.item(), rel=1e-9)


def test_each_bound_has_its_own_standard_error():
    """Nelbo and log(n!/|Aut|) rise together, so the unordered bound varies less."""
    generator = torch.Generator().manual_seed(0)
    orders = 4 * torch.rand(50, generator=generator, dtype=torch.float64)
    nelbo = 20 + 3 * orders + torch.rand(50, generator=generator, dtype=torch.float64)
    real = torch.full((50,), 7)
    meter, parts = BoundMeter(), [BoundMeter(), BoundMeter()]
    meter.add(nelbo, real, orders)
    for part, rows in zip(parts, (slice(0, 20), slice(20, 50)), strict=True):
        part.add(nelbo[rows], real[rows], orders[rows])
    reduced = BoundMeter()
    reduced.sums = parts[0].sums + parts[1].sums  # as processes are
    for estimate in (meter.estimate("ordered_random"), reduced.estimate("ordered_random")):
        for values, mean, error in (
            (nelbo, estimate.per_sample, estimate.standard_error),
            (nelbo - orders, estimate.unordered, estimate.unordered_standard_error),
        ):
            assert mean == pytest.approx(float(values.mean()))
            assert error == pytest.approx(float(values.std()) / 50**0.5)
        assert estimate.unordered_standard_error < 0.7 * estimate.standard_error
    meter = BoundMeter()
    meter.add(nelbo, real, torch.zeros_like(orders))
    fixed = meter.estimate("ordered_fixed").as_dict()
    assert fixed["nelbo_unordered_standard_error"] == fixed["nelbo_standard_error"]
    assert "nelbo_unordered_standard_error" not in meter.estimate("plain").as_dict()


def test_streams_keep_the_noise_apart():
    data, algorithm = dataset("random"), untrained()

    def bound(*entropy: int) -> float:
        stream = SplitBatches(data, "val", batch_size=256, seed=0)
        settings = MeasurementSettings(entropy)
        found = estimate_bound(algorithm, stream, quantity="plain", draws=1, settings=settings)
        return found.per_sample

    found = [bound(0), bound(0, 1), bound(0, 2)]
    assert len({*found, bound(1), bound(2)}) == 5  # adding to the seed would repeat some
    assert bound(0, 1) == found[1]


@pytest.mark.parametrize(("draws_nothing", "calls"), [(False, 5), (True, 1)])
def test_a_bound_without_draws_is_measured_once(draws_nothing, calls):
    data = dataset("canonical")
    algorithm = Counting(ZeroBackbone(), Absorbing(VOCAB.layout(), LogLinear()))
    algorithm.draws_nothing = draws_nothing
    batch = data.splits["val"][:4].batch()
    algorithm.train()
    estimate_bound(algorithm, [batch], quantity="plain", draws=5, settings=SETTINGS)
    assert algorithm.training
    assert algorithm.calls == calls


def test_every_draw_of_every_batch_has_noise_of_its_own():
    data, algorithm = dataset("canonical"), untrained(time_sampling="uniform")
    algorithm.evaluation_draw = "uniform"
    twice = [data.splits["val"][:50].batch()] * 2

    def found(draws: int, batches=twice) -> torch.Tensor:
        return sample_bounds(algorithm, batches, draws=draws, settings=SETTINGS).nelbo

    once = found(1)
    assert not torch.equal(once[:50], once[50:])
    second = 2 * found(2) - once  # the mean of two draws, less the first
    assert ((second - once).abs() > 1e-3).double().mean() > 0.9
    assert torch.equal(found(1, twice[:1]), once[:50])
    with pytest.raises(ValueError, match="no samples"):
        found(1, [])


def test_a_standard_error_far_below_the_bound_keeps_its_digits():
    """A long text: thousands of nats, and a spread that float32 squares would drown in."""
    nelbo = 5000 + 0.1 * torch.randn(400, generator=torch.Generator().manual_seed(0))
    assert nelbo.dtype == torch.float32
    meter = BoundMeter()
    meter.add(nelbo, torch.full((400,), 1000), None)
    expected = float(nelbo.double().std()) / 400**0.5
    assert meter.estimate("plain").standard_error == pytest.approx(expected, rel=1e-3)


class OtherSplits(TokenDataset):
    """Training samples are all 0, held-out ones all 1; two positions, three ids."""

    def __init__(self) -> None:
        self.layout = TokenLayout.flat(2, 4, mask_id=3)
        real = torch.ones(3, 2, dtype=torch.bool)
        train, held_out = torch.zeros(3, 2, dtype=torch.long), torch.ones(3, 2, dtype=torch.long)
        self.splits = {
            "train": Examples(train, real),
            "val": Examples(held_out, real),
            "test": Examples(held_out, real),
        }


def test_blind_marginals_are_those_of_the_training_split():
    """6 + 1 zeros, and of the other ids the one that is added: 1 of 9, twice."""
    bounds = blind_bounds(OtherSplits(), "val")
    assert bounds["nelbo_blind"] == pytest.approx(2 * math.log(9))
    assert blind_bounds(OtherSplits(), "train")["nelbo_blind"] == pytest.approx(2 * math.log(9 / 7))
    assert bounds["nelbo_uniform"] == pytest.approx(2 * math.log(3))


@pytest.mark.slow
def test_a_network_that_knows_nothing_costs_every_size_its_number_of_choices():
    data = dataset("canonical")
    batches = SplitBatches(data, "val", batch_size=16, seed=0)  # mixed batches among them
    bounds = sample_bounds(untrained(), batches, draws=100, settings=SETTINGS)
    found = bounds.estimate_by_size(batches.sizes, data.bound, unit=data.size_unit)
    expected = torch.bincount(data.sizes(data.splits["val"]))
    assert {k: e.num_samples for k, e in found.estimates.items()} == {
        k: int(n) for k, n in enumerate(expected) if n
    }
    for rooms, estimate in found.estimates.items():
        choices = rooms * math.log(13) + math.comb(rooms, 2) * math.log(11)
        assert estimate.per_sample == pytest.approx(choices, rel=4e-3)  # of the forced-mask draw


def test_sizes_add_up_to_the_whole():
    model = Model(untrained(), None, batch_size=64)
    scores = score_model(model, dataset("canonical"), "val", noise_samples=1, time_bins=1, seed=1)
    found = scores.as_dict()["nelbo_by_size"]
    assert (found["unit"], found["quantity"]) == ("nodes", "unordered")
    total = sum(n * x for n, x in zip(found["num_samples"], found["nelbo"], strict=True))
    assert total / scores.bound.num_samples == pytest.approx(scores.bound.unordered)


def test_bounds_by_size_by_hand():
    """Per token of the quantity that is quoted; a single sample has no standard error."""
    nelbo, orders = torch.tensor([8.0, 6.0, 9.0]), torch.tensor([1.0, 1.0, 2.0])
    bounds, sizes = SampleBounds(nelbo, torch.tensor([3, 3, 6]), orders), torch.tensor([2, 2, 3])
    found = bounds.estimate_by_size(sizes, "ordered_random", unit="rooms").as_dict()
    assert (found["quantity"], found["size"], found["num_samples"]) == ("unordered", [2, 3], [2, 1])
    assert found["nelbo"] == [6.0, 7.0]
    assert found["standard_error"] == [1.0, None]
    assert found["nelbo_per_token"] == pytest.approx([2.0, 7 / 6])


class RandomLogits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(VOCAB.vocab_size, VOCAB.vocab_size))
        self.calls = 0

    def forward(self, x_t, sigma=None):
        self.calls += 1
        return self.table[x_t] + self.table[x_t].mean(dim=1, keepdim=True)


def random_model() -> MDLM:
    torch.manual_seed(0)
    return MDLM(RandomLogits(), Absorbing(VOCAB.layout(), LogLinear())).eval()


@pytest.mark.slow
@pytest.mark.parametrize("num", [2, 5])
def test_scores_do_not_depend_on_the_number_of_processes(num):
    data = graph_dataset(random_graphs(160, seed=1), "random", fractions=(0.5, 0.5, 0))

    def scores(algorithm: MDLM, **options) -> dict:
        measured = Model(algorithm, None, batch_size=16, **options)
        found = score_model(measured, data, "val", noise_samples=2, time_bins=3, seed=3)
        return found.as_dict()

    alone, shared = random_model(), [random_model() for _ in range(num)]
    expected = scores(alone)
    for found in in_processes(num, lambda shard: scores(shared[shard.rank], shard=shard)):
        assert repr(found) == repr(expected)
    assert sum(each.backbone.calls for each in shared) == alone.backbone.calls
    assert all(each.backbone.calls for each in shared)
