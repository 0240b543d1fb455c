"""``likelihood`` and ``orders`` of ``evaluate``: names, errors, pairing, unordered graphs."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch

from discrete_diffusion.contracts import Batch
from discrete_diffusion.data.graph_tokens import EncodedGraphs, GraphDataset, relabel
from discrete_diffusion.evaluation.bound import DrawTail
from discrete_diffusion.evaluation.model_evaluation import measure_model
from discrete_diffusion.evaluation.model_scores import (
    check_paths,
    measure_likelihood,
    measure_orders,
    model_notes,
    model_sections,
    score_model,
)
from discrete_diffusion.evaluation.requests import EvaluateRequest
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.runtime.processes import Shard
from discrete_diffusion.sampling.first_hitting import FirstHitting
from discrete_diffusion.sampling.likelihood import order_log_probs
from discrete_diffusion.sampling.model import Model
from graph_worlds import Scattered, every_graph, law_of_any_order, model_of

VOCAB = VocabConfig(n_max=4, node_types=("A", "B"), edge_types=("edge", "none"))
BACKBONE = Scattered(VOCAB)
"""It knows nothing of symmetries: p of a graph depends on the order of its nodes."""


def graphs() -> EncodedGraphs:
    """Some graphs of two, three and four nodes."""
    parts = [every_graph(VOCAB, n)[k::step] for n, k, step in ((2, 0, 2), (3, 0, 9), (4, 77, 400))]
    rows = torch.cat(parts)
    num_nodes = (rows[:, :4] != VOCAB.pad_id).sum(dim=1)
    return EncodedGraphs(rows, rows != VOCAB.pad_id, num_nodes)


def dataset(node_order: str) -> GraphDataset:
    found, none = graphs(), graphs()[:0]
    return GraphDataset({"train": none, "val": none, "test": found}, VOCAB, node_order=node_order)


def model(**options: object) -> Model:
    algorithm = model_of(BACKBONE, VOCAB)
    algorithm.time_conditioning = False
    return Model(algorithm, FirstHitting(), **options)


def log_p_of_graphs() -> torch.Tensor:
    """log p(G) of each of ``graphs``: the sum of p over all its distinct relabellings, each by all
    orders of its tokens."""
    algorithm = model().algorithm
    return torch.stack(
        [
            law_of_any_order(algorithm, rows.unique(dim=0), real).sum().log()
            for rows, real in relabellings()
        ]
    )


def relabellings() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Of each graph, all n! of them, Int[n!, L], and its real positions."""
    found, parts = graphs(), []
    for x0, real, n in zip(found.x0, found.real, found.num_nodes.tolist(), strict=True):
        orders = torch.tensor([[*p, *range(n, 4)] for p in itertools.permutations(range(n))])
        sizes = torch.full((len(orders),), n)
        parts.append((relabel(x0.expand(len(orders), -1), sizes, orders, VOCAB), real))
    return parts


@pytest.mark.slow
def test_relabellings_enter_the_mean_and_it_falls_to_the_sum_over_all_of_them():
    exact, data = -float(log_p_of_graphs().mean()), dataset("random")
    found = measure_orders(model(), data, "test", 128, seed=0)
    assert found.quantity == "unordered"
    values = {num: bound.headline[1] for num, bound in found.bounds.items()}
    assert list(values) == [1, 2, 4, 8, 16, 32, 64, 128]
    assert all(b < a for a, b in itertools.pairwise(values.values()))
    plain = -float(one_order().mean() + data.splits["test"].log_num_orders.mean())
    assert values[1] == pytest.approx(plain, abs=0.05)
    assert plain > exact + 0.2
    assert values[128] == pytest.approx(exact, abs=0.05)


@pytest.mark.slow
def test_of_graphs_in_one_order_it_falls_to_the_likelihood_of_that_order():
    found = measure_orders(model(), dataset("given"), "test", 128, seed=0)
    parts, algorithm = graphs(), model().algorithm
    of_one = [
        -float(law_of_any_order(algorithm, x0[None], real).log())
        for x0, real in zip(parts.x0, parts.real, strict=True)
    ]
    exact = sum(of_one) / len(of_one)
    assert found.bounds[128].headline[1] == pytest.approx(exact, abs=0.05)
    assert exact > -float(log_p_of_graphs().mean()) + 0.1  # one of all its orders


def one_order() -> torch.Tensor:
    """The mean over relabellings and orders of tokens of log p(x | order) of each graph:

    sum over sets S of visible tokens of P(S comes by) mean over hidden l of log D_l(x_l | S)
    """
    algorithm, total = model().algorithm, []
    for rows, real in relabellings():
        positions, value = real.nonzero().flatten().tolist(), torch.zeros(len(rows)).double()
        for size in range(len(positions)):
            for seen in itertools.combinations(positions, size):
                hidden = [k for k in positions if k not in seen]
                x_t = rows.clone()
                x_t[:, hidden] = VOCAB.mask_id
                half = torch.full((len(rows),), 0.5, dtype=torch.float64)
                log_d0 = algorithm.denoise(x_t, half, real.expand(len(rows), -1)).double()
                of_hidden = log_d0.gather(-1, rows.unsqueeze(-1)).squeeze(-1)[:, hidden]
                value += of_hidden.mean(dim=1) / math.comb(len(positions), size)
        total.append(value.mean())
    return torch.stack(total)


def test_gains_are_paired_and_models_meet_the_same_orders():
    """Scores of two halves of the orders are one series; another batch size changes no bit."""
    data = dataset("random")
    found = measure_orders(model(), data, "test", 8, seed=0)
    assert found == measure_orders(model(batch_size=1), data, "test", 8, seed=0)
    first = measure_orders(model(), data, "test", 1, seed=0)
    assert first.bounds[1].per_sample != found.bounds[1].per_sample  # the mean over all eight
    assert measure_orders(model(), data, "test", 1, seed=1) != first
    for num in (2, 4, 8):
        gain, error = found.below[num]
        values = [found.bounds[n].headline[1] for n in (1, num)]
        assert gain == pytest.approx(values[0] - values[1], abs=1e-9)
        assert error < found.bounds[num].headline[2]
    assert found.below[1] == (0.0, 0.0)


@pytest.mark.parametrize("node_order", ["random", "given"])
def test_a_likelihood_is_of_the_order_that_nodes_have_and_the_unordered_number_is_a_bound(
    node_order,
):
    data = dataset(node_order)
    found = measure_likelihood(model(), data, "test", "entropy", seed=3)
    named = found.as_dict()
    quantity = data.bound
    examples = data.splits["test"]
    if node_order == "given":
        batch = Batch(examples.x0, examples.real)
        nll = -float(order_log_probs(model().algorithm, batch, "entropy").mean())
        assert named["nll_ordered_fixed_entropy"] == pytest.approx(nll, rel=1e-12)
        assert named["nelbo_unordered_entropy"] == named["nll_ordered_fixed_entropy"]
    else:
        less = named["nll_ordered_random_entropy"] - named["nelbo_unordered_entropy"]
        assert less == pytest.approx(float(examples.log_num_orders.mean()), rel=1e-9)
    assert "sampling.order=entropy" in named["likelihood_sampler"]
    listed = measure_likelihood(model(), data, "test", [*range(9, -1, -1)], seed=3).as_dict()
    assert f"nll_{quantity}_given_order" in listed
    assert "sampling.order=[9,8,7,6,5,4,3,2,1,0]" in listed["likelihood_sampler"]


def test_tables_and_metrics_say_which_number_is_which():
    data = dataset("random")
    options = {"likelihood_order": "left-to-right", "num_orders": 3, "time_bins": 1}
    request = EvaluateRequest(noise_samples=1, options=options)
    scores = measure_model(request, model(), data, "test")
    named = scores.as_dict()
    assert named["nelbo_by_orders"]["orders"] == [1, 2, 3]
    assert named["nelbo_by_orders"]["quantity"] == "unordered"
    assert named["nelbo_unordered_3_orders"] == named["nelbo_by_orders"]["nelbo"][-1]
    sections = {section.title: section for section in model_sections(scores)}
    rows = [row.name for row in sections["the model on held-out data"].rows]
    assert rows.index("nelbo_unordered") == 0  # one order stays the bound that is quoted
    assert {"nll_ordered_random_left_to_right", "nelbo_unordered_left_to_right"} < {*rows}
    by_orders = sections["the bound by number of orders"]
    assert by_orders.heads[1] == "nelbo_unordered"
    assert [row.name for row in by_orders.rows] == ["1", "2", "3"]
    assert by_orders.rows[0].real == ""


def test_requests_are_refused_before_anything_is_measured():
    algorithm = model().algorithm
    check_paths(EvaluateRequest(), algorithm)
    with pytest.raises(ValueError, match="likelihood_order=confidence"):
        check_paths(EvaluateRequest(options={"likelihood_order": "confidence"}), algorithm)
    algorithm.evaluation_draw = "exact"
    with pytest.raises(ValueError, match="num_orders=K"):
        check_paths(EvaluateRequest(options={"num_orders": 2}), algorithm)


class Sent(Exception):
    """A process has sent its part to the others."""


def test_processes_share_the_work_and_get_one_result(monkeypatch):
    monkeypatch.setattr("discrete_diffusion.evaluation.model_scores._SHARE", 3)
    data, parts = dataset("random"), []

    def send(part):
        parts.append(part)
        raise Sent

    alone = measure_orders(model(), data, "test", 1, seed=0)
    with pytest.raises(Sent):
        measure_orders(model(shard=Shard(0, 2, send)), data, "test", 1, seed=0)
    last = Shard(1, 2, lambda part: [*parts, part])
    assert measure_orders(model(shard=last), data, "test", 1, seed=0) == alone


def test_a_bound_that_a_few_draws_carry_is_told_beside_its_error():
    data = dataset("random")
    found = score_model(model(), data, "test", noise_samples=60, time_bins=2, seed=0)
    assert found.tail is not None
    heavy = replace(found, tail=DrawTail(0.8, 12.0, 0.4, len(data.splits["test"]), 4))
    for scores in (found, heavy):
        rows = {row.name: row.value for row in model_sections(scores)[0].rows}
        doubtful = scores.tail.is_doubtful
        shown = f"{scores.tail.effective:.1f}"
        assert rows.get("nelbo_effective_draws") == (shown if doubtful else None)
        assert (scores.tail.warning() in model_notes(scores)) == doubtful
        metrics = scores.as_dict()
        assert metrics["nelbo_pareto_k"] == scores.tail.shape
        assert ("nelbo_draws_needed" in metrics) == doubtful
    assert heavy.tail.is_doubtful
    assert not found.tail.is_doubtful
