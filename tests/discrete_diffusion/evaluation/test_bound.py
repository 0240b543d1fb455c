"""Reported bounds: what is averaged, what is subtracted, what the baselines are."""

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
    blind_bounds,
    estimate_bound,
    sample_bounds,
)
from discrete_diffusion.evaluation.sample_scores import plus_minus
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG as VOCAB
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import LogLinear
from toy_graphs import graph_dataset, random_graphs


class Counting(MDLM):
    """Counts how often its loss is asked for; ``draws_nothing``: as if it were exact."""

    calls, draws_nothing = 0, False

    @property
    def evaluation_draw(self) -> str:
        return "exact" if self.draws_nothing else "forced_mask"

    def loss(self, batch, generator, draw=None):
        self.calls += 1
        return super().loss(batch, generator, "forced_mask")


class ZeroBackbone(nn.Module):
    def forward(self, x_t, sigma=None):
        return torch.zeros(*x_t.shape, VOCAB.vocab_size)


def dataset(node_order: str) -> GraphDataset:
    return graph_dataset(random_graphs(400, seed=1), node_order, fractions=(0.5, 0.5, 0))


@pytest.mark.parametrize("node_order", ["random", "canonical"])
def test_the_untrained_bound_and_its_unordered_form(node_order):
    data = dataset(node_order)
    algorithm = MDLM(ZeroBackbone(), Absorbing(VOCAB.layout(), LogLinear()))
    stream = SplitBatches(data, "val", batch_size=64, seed=0)
    bound = estimate_bound(
        algorithm, stream, quantity=data.bound, draws=8, settings=MeasurementSettings((0,))
    )
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
    """Both are exchangeable: blind marginals by hand, from counts of types and relations."""
    for node_order in ("random", "canonical"):
        data = dataset(node_order)
        bounds = blind_bounds(data, "val")
        rooms = data.splits["val"].real[:, :8].sum(1).double()
        uniform = rooms * math.log(13) + rooms * (rooms - 1) / 2 * math.log(11)
        orders = data.splits["val"].log_num_orders.mean()
        assert bounds["nelbo_uniform"] == pytest.approx((uniform.mean() - orders).item(), rel=1e-9)
        train, val = data.splits["train"], data.splits["val"]
        nodes = torch.bincount(train.x0[:, :8][train.real[:, :8]], minlength=13)[:13] + 1.0
        edges = torch.bincount(train.x0[:, 8:][train.real[:, 8:]] - 15, minlength=11).double()
        edges = torch.cat([(edges[:10] + edges[:10].flip(0)) / 2, edges[10:]]) + 1  # both ways
        nodes, edges = (nodes / nodes.sum()).log(), (edges / edges.sum()).log()
        cost = -(
            nodes[val.x0[:, :8][val.real[:, :8]]].sum()
            + edges[val.x0[:, 8:][val.real[:, 8:]] - 15].sum()
        ) / len(val)
        assert bounds["nelbo_blind"] == pytest.approx((cost - orders).item(), abs=0.15)
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


def test_one_sample_has_no_standard_error():
    meter = BoundMeter()
    meter.add(torch.tensor([2.0]), torch.tensor([3]), None)
    found = meter.estimate("plain")
    assert found.per_sample == 2
    assert math.isnan(found.standard_error)
    assert plus_minus(found.per_sample, found.standard_error) == "2.000"


def test_streams_keep_the_noise_apart():
    data = dataset("random")
    algorithm = MDLM(ZeroBackbone(), Absorbing(VOCAB.layout(), LogLinear()))

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
    estimate_bound(
        algorithm, [batch], quantity="plain", draws=5, settings=MeasurementSettings((0,))
    )
    assert algorithm.calls == calls


def test_every_draw_of_every_batch_has_noise_of_its_own():
    data = dataset("canonical")
    algorithm = MDLM(ZeroBackbone(), Absorbing(VOCAB.layout(), LogLinear()), draw="uniform")
    algorithm.evaluation_draw = "uniform"
    twice = [data.splits["val"][:50].batch()] * 2

    def found(draws: int, batches=twice) -> torch.Tensor:
        return sample_bounds(
            algorithm, batches, draws=draws, settings=MeasurementSettings((0,))
        ).nelbo

    once = found(1)
    assert not torch.equal(once[:50], once[50:])
    second = 2 * found(2) - once  # the mean of two draws, less the first
    assert ((second - once).abs() > 1e-3).double().mean() > 0.9
    assert torch.equal(found(1, twice[:1]), once[:50])


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

    def real_positions(self, sizes):
        return torch.arange(2) < sizes.unsqueeze(1)

    def summary(self):
        return "two kinds of data"


def test_blind_marginals_are_those_of_the_training_split():
    """6 + 1 zeros, and of the other ids the one that is added: 1 of 9, twice."""
    bounds = blind_bounds(OtherSplits(), "val")
    assert bounds["nelbo_blind"] == pytest.approx(2 * math.log(9))
    assert blind_bounds(OtherSplits(), "train")["nelbo_blind"] == pytest.approx(2 * math.log(9 / 7))
    assert bounds["nelbo_uniform"] == pytest.approx(2 * math.log(3))
