"""The bound by size: of every sample once, at its own size, and together that of the split."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.data import SplitBatches
from discrete_diffusion.data.graph_tokens import GraphDataset
from discrete_diffusion.evaluation.bound import MeasurementSettings, SampleBounds, sample_bounds
from discrete_diffusion.evaluation.model_scores import score_model
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG as VOCAB
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling.model import Model
from toy_graphs import graph_dataset, random_graphs


class Untrained(nn.Module):
    def forward(self, x_t, sigma):
        return torch.zeros(*x_t.shape, VOCAB.vocab_size)


@pytest.fixture(scope="module")
def data() -> GraphDataset:
    return graph_dataset(random_graphs(300, seed=2), "canonical", fractions=(0.5, 0.5, 0))


@pytest.mark.slow
def test_a_network_that_knows_nothing_costs_every_size_its_number_of_choices(data):
    algorithm = MDLM(Untrained(), Absorbing(VOCAB.layout(), LogLinear())).eval()
    batches = SplitBatches(data, "val", batch_size=16, seed=0)  # mixed batches among them
    bounds = sample_bounds(algorithm, batches, draws=100, settings=MeasurementSettings((0,)))
    found = bounds.estimate_by_size(batches.sizes, data.bound, unit=data.size_unit)
    expected = torch.bincount(data.sizes(data.splits["val"]))
    assert {k: e.num_samples for k, e in found.estimates.items()} == {
        k: int(n) for k, n in enumerate(expected) if n
    }
    for rooms, estimate in found.estimates.items():
        choices = rooms * math.log(13) + math.comb(rooms, 2) * math.log(11)
        assert estimate.per_sample == pytest.approx(choices, rel=4e-3)  # of the forced-mask draw


def test_sizes_add_up_to_the_whole(data):
    algorithm = MDLM(Untrained(), Absorbing(VOCAB.layout(), LogLinear())).eval()
    model = Model(algorithm, None, batch_size=64)
    scores = score_model(model, data, "val", noise_samples=1, time_bins=1, seed=1)
    found = scores.as_dict()["nelbo_by_size"]
    assert (found["unit"], found["quantity"]) == ("nodes", "unordered")
    total = sum(n * x for n, x in zip(found["num_samples"], found["nelbo"], strict=True))
    assert total / scores.bound.num_samples == pytest.approx(scores.bound.unordered)


def test_per_token_is_of_the_quantity_that_is_quoted():
    """Less the orders that a sample may come in, where the bound does not know the order."""
    nelbo, orders = torch.tensor([8.0, 6.0, 9.0]), torch.tensor([1.0, 1.0, 2.0])
    bounds = SampleBounds(nelbo, torch.tensor([3, 3, 6]), orders)
    found = bounds.estimate_by_size(
        torch.tensor([2, 2, 3]), "ordered_random", unit="rooms"
    ).as_dict()
    assert found["quantity"] == "unordered"
    assert found["nelbo"] == [6.0, 7.0]
    assert found["nelbo_per_token"] == pytest.approx([2.0, 7 / 6])


def test_a_single_sample_of_a_size_has_no_standard_error():
    bounds = SampleBounds(torch.tensor([3.0, 1.0, 5.0]), torch.tensor([3, 1, 3]), None)
    found = bounds.estimate_by_size(torch.tensor([3, 1, 3]), "plain", unit="tokens").as_dict()
    assert found["size"] == [1, 3]
    assert found["nelbo"] == [1.0, 4.0]
    assert found["standard_error"] == [None, 1.0]
    assert found["nelbo_per_token"] == [1.0, pytest.approx(4 / 3)]
