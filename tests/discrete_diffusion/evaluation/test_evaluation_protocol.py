"""What makes two models comparable: the rows, their order, the unit of the bound."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.contracts import LossOutput
from discrete_diffusion.data.files import TextSource
from discrete_diffusion.data.graph_tokens import GraphDataset
from discrete_diffusion.domains.text.dataset import TextDataset
from discrete_diffusion.domains.text.vocabulary import TextVocabulary
from discrete_diffusion.evaluation.evaluation_protocol import (
    EvaluationProtocol,
    held_out_bounds,
    score_real_data,
    score_samples,
)
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG as VOCAB
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import Ancestral, FirstHitting
from discrete_diffusion.sampling.model import Model
from toy_graphs import graph_dataset, random_graphs


class Zeros(nn.Module):
    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.vocab_size = vocab_size

    def forward(self, x_t, sigma=None):
        return torch.zeros(*x_t.shape, self.vocab_size)


class KnownBound(MDLM):
    """Every draw of the bound is what ``known`` says of a sample."""

    def __init__(self, layout) -> None:
        super().__init__(Zeros(layout.vocab_size), Absorbing(layout, LogLinear()))

    def loss(self, batch, generator, draw=None):
        nelbo = known(batch.x0, batch.real)
        return LossOutput(nelbo.mean(), nelbo, batch.real.sum(dim=1))


def known(x0, real):
    """A number per sample that depends on all of its tokens and where they stand."""
    return ((x0 * torch.arange(1, x0.shape[1] + 1)) * real).sum(dim=1).double() / 100


def graphs(node_order: str = "canonical", fractions=(0.5, 0.2, 0.3)) -> GraphDataset:
    return graph_dataset(random_graphs(150, seed=1), node_order, fractions=fractions)


class SizesAndTypes:
    """Means of sizes and of types of nodes."""

    def measure(self, samples):
        nodes = samples[:, : VOCAB.n_max]
        real = nodes != VOCAB.pad_id
        mean_type = float(nodes[real].double().mean())
        return {"mean_size": float(real.sum(dim=1).double().mean()), "mean_type": mean_type}


def test_bounds_are_those_of_the_rows_whatever_the_batches():
    data = graphs()
    found = [
        held_out_bounds(KnownBound(data.layout), data, EvaluationProtocol(20, 1, batch_size=size))
        for size in (3, 64)
    ]
    rows = data.splits["test"][found[0].rows]
    assert len(found[0].rows.unique()) == 20
    for bounds in found:
        assert torch.equal(bounds.rows, found[0].rows)
        assert torch.equal(bounds.values, known(rows.x0, rows.real))
        assert bounds.quantity == "nats per unordered graph"
    # without a test split validation is held out
    data = graphs(fractions=(0.5, 0.5, 0))
    bounds = held_out_bounds(KnownBound(data.layout), data, EvaluationProtocol(9, 1))
    rows = data.splits["val"][bounds.rows]
    assert torch.equal(bounds.values, known(rows.x0, rows.real))


def test_random_orders_are_the_same_for_all_models_and_are_subtracted():
    data = graphs("random")
    first, second = (
        held_out_bounds(KnownBound(data.layout), data, EvaluationProtocol(1000, 1))
        for _ in range(2)
    )
    assert torch.equal(first.values, second.values)
    assert first.ordering == "ordered_random"
    examples = data.splits["test"]
    assert len(first.values) == len(examples)
    # an untrained model knows nothing of orders: log K per position, less log n!
    algorithm = MDLM(Zeros(VOCAB.vocab_size), Absorbing(data.layout, LogLinear()))
    bounds = held_out_bounds(algorithm, data, EvaluationProtocol(1000, 64))
    expected = (examples.real * data.layout.num_legal.double().log()).sum(1)
    expected = expected - examples.log_num_orders
    assert float(bounds.values.mean()) == pytest.approx(float(expected.mean()), abs=0.1)


@pytest.mark.parametrize("kind", ["characters", "bytes"])
def test_text_is_in_bits_per_character(kind):
    text = "Größe über alles " * 8
    vocabulary = TextVocabulary.from_text(text) if kind == "characters" else TextVocabulary(None)
    layout = TokenLayout.flat(
        10, vocabulary.vocab_size, mask_id=vocabulary.mask_id, pad_id=vocabulary.pad_id
    )
    ids = vocabulary.encode(TextSource("here", text))
    data = TextDataset(
        dict.fromkeys(("train", "val", "test"), ids), vocabulary, layout=layout, source="here"
    )
    bounds = held_out_bounds(KnownBound(layout), data, EvaluationProtocol(1000, 2))
    nats = known(data.splits["test"].x0, data.splits["test"].real).sum()
    assert bounds.quantity == "bits per character"
    assert float(bounds.values.mean()) == pytest.approx(float(nats) / math.log(2) / len(text))


def test_samples_have_the_same_sizes_and_a_price():
    data = graphs()
    algorithm = MDLM(Zeros(VOCAB.vocab_size), Absorbing(data.layout, LogLinear()))
    protocol = EvaluationProtocol(num_samples=12)
    one, other = (
        score_samples(Model(algorithm, sampler), data, protocol, SizesAndTypes())
        for sampler in (FirstHitting(), Ancestral(steps=2))
    )
    assert one["network_calls"] > 6 > 2 >= other["network_calls"]
    assert one["mean_size"] == other["mean_size"]
    assert one["seconds_per_1000_samples"] > 0
    none = EvaluationProtocol(num_samples=0)
    assert score_samples(Model(algorithm, FirstHitting()), data, none, None) == {}


def test_a_bound_far_above_knowing_nothing_is_no_result():
    data = graphs()
    found = held_out_bounds(KnownBound(data.layout), data, EvaluationProtocol(20, 1))
    held_out = data.splits["test"]
    real = held_out.real[found.rows]
    costs = (real * data.layout.num_legal.double().log()).sum(dim=1)
    assert found.uniform == pytest.approx(float(costs.mean()))
    replace(found, values=torch.full((20,), 19 * found.uniform))
    for value in (21 * found.uniform, math.inf, math.nan):
        with pytest.raises(ValueError, match="training has diverged"):
            replace(found, values=torch.full((20,), value))


def test_real_data_scores_what_training_samples_do():
    data = graphs()
    report = SizesAndTypes()
    scores = score_real_data(data, 30, report)
    assert scores == score_real_data(data, 30, report)
    assert score_real_data(data, 0, report) == {}
    whole = report.measure(data.splits["train"].x0)
    assert score_real_data(data, 1000, report) == pytest.approx(whole)
    assert 0 < abs(scores["mean_type"] - whole["mean_type"]) < 1
