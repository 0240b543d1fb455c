"""Trees, forests, connected and planar graphs by narrowing: on graphs that are enumerated."""

from __future__ import annotations

import random
from itertools import combinations

import networkx as nx
import pytest
import torch

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data.graph_tokens import TypedGraph, decode_graphs
from discrete_diffusion.domains.graphs.graph_set import as_networkx
from discrete_diffusion.domains.graphs.metrics import is_connected, is_tree
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.sampling import Ancestral, Model, sample_in_batches
from discrete_diffusion.sampling.graph_structures import Connected, Forest, Planar, Tree
from discrete_diffusion.sampling.graph_structures import is_planar as has_no_crossing
from graph_worlds import (
    Scattered,
    check_law,
    drawn,
    every_graph,
    law_of_any_order,
    model_of,
    tabulated,
    those,
)

PLAIN = VocabConfig(n_max=4, node_types=("node",), edge_types=("edge", "none"))
TYPED = VocabConfig(n_max=3, node_types=("a", "b"), edge_types=("thin", "thick", "none"))


def is_forest(graph: TypedGraph) -> bool:
    return nx.is_forest(as_networkx(graph))


def is_planar(graph: TypedGraph) -> bool:
    return nx.check_planarity(as_networkx(graph))[0]


STRUCTURES = {
    Tree: is_tree,
    Forest: is_forest,
    Connected: is_connected,
}
ALL = pytest.mark.parametrize(("narrowing", "has"), STRUCTURES.items())


def real(vocab: VocabConfig, num_nodes: int) -> torch.Tensor:
    return vocab.real_positions(torch.tensor([num_nodes]))[0]


@pytest.mark.parametrize("num_nodes", [4, 3])
@ALL
def test_weighted_samples_follow_the_model_given_the_structure(narrowing, has, num_nodes):
    """The exact D of a random distribution; with three nodes a fourth is PAD."""
    rows = every_graph(PLAIN, num_nodes)
    model, prob = tabulated(rows, PLAIN)
    output = drawn(model, real(PLAIN, num_nodes), narrowing(PLAIN))
    check_law(output, rows, prob, those(rows, PLAIN, has))


@ALL
def test_types_of_nodes_and_edges_are_free(narrowing, has):
    rows = every_graph(TYPED, 3)
    model, prob = tabulated(rows, TYPED)
    output = drawn(model, real(TYPED, 3), narrowing(TYPED))
    check_law(output, rows, prob, those(rows, TYPED, has))


@ALL
def test_of_a_network_that_is_no_joint_distribution(narrowing, has):
    """Its law is the mean over all orders; nodes are given."""
    given = torch.tensor([0] * 4 + [-1] * 6)
    rows, model = every_graph(PLAIN, 4), model_of(Scattered(PLAIN), PLAIN)
    prob = law_of_any_order(model, rows, given < 0)
    assert float(prob.sum()) == pytest.approx(1)
    output = drawn(model, real(PLAIN, 4), narrowing(PLAIN), clamp=given)
    check_law(output, rows, prob, those(rows, PLAIN, has))


@ALL
def test_completions_follow_the_model_given_both(narrowing, has):
    given = torch.tensor([0] * 4 + [0] * 6)
    given[4:] = -1
    given[4], given[9] = PLAIN.edge_offset, PLAIN.edge_offset + 1  # 0 - 1, not 2 - 3
    rows, model = every_graph(PLAIN, 4, given), model_of(Scattered(PLAIN), PLAIN)
    prob = law_of_any_order(model, rows, given < 0)
    output = drawn(model, real(PLAIN, 4), narrowing(PLAIN), clamp=given)
    check_law(output, rows, prob, those(rows, PLAIN, has))


@pytest.mark.slow
@pytest.mark.parametrize(
    "graph", [nx.complete_graph(5), nx.complete_bipartite_graph(3, 3)], ids=["K5", "K33"]
)
def test_planar(graph):
    """Of graphs near the two that are not: all of their edges are given but four, and one pair."""
    num = len(graph)
    vocab = VocabConfig(n_max=num, node_types=("node",), edge_types=("edge", "none"))
    given = torch.full((vocab.length,), vocab.edge_offset + 1)
    given[:num] = 0
    edges = [tuple(sorted(edge)) for edge in graph.edges]
    for k, edge in enumerate(edges):
        given[vocab.edge_position(*edge)] = vocab.edge_offset if k >= 4 else -1
    if num == 6:
        given[vocab.edge_position(0, 1)] = -1
    rows = every_graph(vocab, num, given)
    model = model_of(Scattered(vocab, edges=1.5), vocab)
    prob = law_of_any_order(model, rows, given < 0)
    allowed = those(rows, vocab, is_planar)
    assert 0.1 < float(prob[allowed].sum()) < 0.95
    output = drawn(model, real(vocab, num), Planar(vocab), clamp=given)
    check_law(output, rows, prob, allowed)


@ALL
def test_all_tokens_of_one_call_heed_each_other(narrowing, has):
    """The model is then a product, and the weights are those of it."""
    given = torch.tensor([0] * 4 + [-1] * 6)
    rows, model = every_graph(PLAIN, 4), model_of(Scattered(PLAIN), PLAIN)
    start = torch.where(given < 0, PLAIN.mask_id, given).unsqueeze(0)
    log_d0 = model.denoise(start, torch.ones(1).double(), torch.ones_like(start).bool())[0]
    prob = log_d0.gather(1, rows.T)[4:].sum(dim=0).exp()
    output = drawn(model, real(PLAIN, 4), narrowing(PLAIN), clamp=given, steps=1)
    check_law(output, rows, prob.double(), those(rows, PLAIN, has))


@pytest.mark.parametrize(
    ("sampler", "options"),
    [("margin", {}), ("entropy", {}), ("entropy-bounded", {"entropy_budget": 0.0})],
)
def test_samplers_whose_order_reads_distributions(sampler, options):
    rows = every_graph(PLAIN, 4)
    model, prob = tabulated(rows, PLAIN)
    output = drawn(model, real(PLAIN, 4), Tree(PLAIN), sampler=sampler, **options)
    check_law(output, rows, prob, those(rows, PLAIN, is_tree))


@pytest.mark.parametrize("sampler", ["ancestral", "remdm", "renoise", "entropy-bounded"])
@ALL
def test_every_sample_has_the_structure(narrowing, has, sampler):
    model = model_of(Scattered(PLAIN), PLAIN)
    steps = {} if sampler == "entropy-bounded" else {"steps": 3}
    output = drawn(model, real(PLAIN, 4), narrowing(PLAIN), 300, sampler=sampler, **steps)
    assert those(output.x0, PLAIN, has).all()
    assert output.log_weights.isfinite().all()


def test_forced_draws_are_those_that_are_changed():
    """Three pairs of one call: changed is the last edge, where all three would be."""
    vocab = VocabConfig(n_max=3, node_types=("node",), edge_types=("edge", "none"))
    given = torch.tensor([0, 0, 0, -1, -1, -1])
    model = model_of(Scattered(vocab, edges=1.0), vocab)
    start = torch.where(given < 0, vocab.mask_id, given).unsqueeze(0)
    log_d0 = model.denoise(start, torch.ones(1).double(), torch.ones_like(start).bool())[0]
    expected = float(log_d0[3:, vocab.edge_offset].sum().exp())
    output = drawn(model, real(vocab, 3), Forest(vocab), clamp=given, steps=1)
    forced = output.num_forced.double()
    assert set(forced.tolist()) == {0, 1}
    assert float(forced.mean()) == pytest.approx(
        expected, abs=4.5 * float(forced.std()) / len(forced) ** 0.5
    )
    assert drawn(model, real(vocab, 3), None, 5).num_forced is None


def test_batches_of_several_sizes_keep_their_numbers():
    """Of one and two nodes, too: a tree of two is an edge."""
    vocab, sizes = PLAIN, torch.arange(200) % 4 + 1
    output = sample_in_batches(
        Model(
            model_of(Scattered(vocab), vocab),
            Ancestral(steps=4),
            batch_size=32,
            narrowing=lambda: Tree(vocab),
        ),
        vocab.real_positions(sizes),
        generator=make_generator(1),
    )
    graphs = decode_graphs(output.x0, vocab)
    assert [len(graph.nodes) for graph in graphs] == sizes.tolist()
    assert all(map(is_tree, graphs))
    assert output.num_forced.shape == output.log_weights.shape == (200,)
    assert (output.log_weights[sizes == 1] == 0).all()
    assert (output.num_forced[sizes == 1] == 0).all()


@pytest.mark.slow
def test_larger_graphs_have_the_structure_too():
    """Of 12 nodes, where circles are long and edges cross."""
    vocab = VocabConfig(n_max=12, node_types=("node",), edge_types=("edge", "none"))
    model = model_of(Scattered(vocab, edges=0.5), vocab)
    for narrowing, has in {**STRUCTURES, Planar: is_planar}.items():
        output = drawn(model, real(vocab, 12), narrowing(vocab), 6, sampler="ancestral", steps=5)
        assert those(output.x0, vocab, has).all()
        assert (output.num_forced > 0).any() or narrowing is Connected


@pytest.mark.parametrize(
    ("narrowing", "edges", "non_edges", "named"),
    [
        (Forest, [(0, 1), (1, 2), (0, 2)], [], r"\[0, 1\].*\[1, 2\].*circle"),
        (Tree, [(0, 1), (1, 2), (0, 2)], [], "circle"),
        (Tree, [], [(0, 3), (1, 3), (2, 3)], "node 3"),
        (Connected, [], [(0, 1), (0, 2), (0, 3)], "join node 1 to node 0"),
    ],
)
def test_what_is_given_may_contradict_it(narrowing, edges, non_edges, named):
    clamp = torch.tensor([0] * 4 + [-1] * 6)
    for pairs, kind in ((edges, 0), (non_edges, 1)):
        for pair in pairs:
            clamp[PLAIN.edge_position(*pair)] = PLAIN.edge_offset + kind
    with pytest.raises(ValueError, match=f"sample 0: .*{named}"):
        drawn(model_of(Scattered(PLAIN), PLAIN), real(PLAIN, 4), narrowing(PLAIN), 2, clamp=clamp)


def test_edges_that_cross_are_refused():
    vocab = VocabConfig(n_max=5, node_types=("node",), edge_types=("edge", "none"))
    tokens = torch.tensor([[0] * 5 + [vocab.edge_offset] * 10, [0] * 5 + [vocab.mask_id] * 10])
    assert [*Planar(vocab).contradictions(tokens)] == [0]


# -- the planarity test ----------------------------------------------------------------------------


def planar_and_one_more(num_nodes: int, rng: random.Random) -> nx.Graph:
    """Pairs in random order, kept if planar, some of them, and a pair that may not be."""
    graph, pairs = nx.empty_graph(num_nodes), list(combinations(range(num_nodes), 2))
    rng.shuffle(pairs)
    for pair in pairs[: int(len(pairs) * rng.uniform(0.5, 1))]:
        graph.add_edge(*pair)
        if not nx.check_planarity(graph)[0]:
            graph.remove_edge(*pair)
    graph.add_edge(*rng.sample(range(num_nodes), 2))
    return graph


@pytest.mark.slow
def test_it_agrees_with_networkx():
    answers = []
    for seed in range(300):
        rng = random.Random(seed)
        num = rng.randint(4, 16)
        any_edges = nx.gnm_random_graph(num, rng.randint(num, 3 * num), seed=seed)
        for graph in (any_edges, planar_and_one_more(num, rng)):
            answers.append(nx.check_planarity(graph)[0])
            assert has_no_crossing(num, list(graph.edges)) == answers[-1], graph.edges
    assert 0.2 < sum(answers) / len(answers) < 0.8


@pytest.mark.parametrize(
    ("graph", "planar"),
    [
        (nx.empty_graph(1), True),
        (nx.complete_graph(4), True),
        (nx.complete_graph(5), False),
        (nx.complete_bipartite_graph(3, 3), False),
        (nx.petersen_graph(), False),
        (nx.dodecahedral_graph(), True),
        (nx.disjoint_union(nx.complete_graph(4), nx.complete_bipartite_graph(3, 3)), False),
        (nx.path_graph(400), True),
    ],
)
def test_known_graphs(graph, planar):
    assert has_no_crossing(len(graph), list(graph.edges)) == planar
