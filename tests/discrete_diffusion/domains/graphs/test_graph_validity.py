from __future__ import annotations

from itertools import combinations, product

import networkx as nx
import numpy as np
import pytest
from graph_examples import PATH3, STAR4, TRIANGLE, graph, of_networkx, relabelled

from discrete_diffusion.domains.graphs.graph_set import GraphSet, adjacency_of
from discrete_diffusion.domains.graphs.metrics import (
    find_blocks,
    graph_metrics,
    integrated_likelihood,
    is_block_model,
    is_planar,
    is_tree,
    novelty_shares,
)


@pytest.mark.parametrize(
    ("found", "planar", "tree"),
    [
        (PATH3, True, True),
        (TRIANGLE, True, False),
        (graph(1), True, True),
        (graph(2), False, False),  # in two pieces
        (graph(4, (0, 1), (0, 2), (1, 2)), False, False),  # n - 1 edges, but not a tree
        (of_networkx(nx.complete_graph(4)), True, False),
        (of_networkx(nx.complete_graph(5)), False, False),
        (of_networkx(nx.complete_bipartite_graph(3, 3)), False, False),
        (of_networkx(nx.petersen_graph()), False, False),
        (of_networkx(nx.grid_2d_graph(4, 4)), True, False),
    ],
)
def test_planar_graphs_and_trees(found, planar, tree):
    assert (is_planar(found), is_tree(found)) == (planar, tree)


def test_shares_count_the_first_of_equal_graphs_and_know_training():
    moved = relabelled(STAR4, (2, 0, 1, 3))
    samples = GraphSet([TRIANGLE, STAR4, moved, PATH3, PATH3, graph(2)])
    training = GraphSet([relabelled(PATH3, (1, 0, 2))])
    assert novelty_shares(samples, training, "tree") == {
        "valid": 4 / 6,  # both stars, both paths
        "unique": 4 / 6,
        "novel": 4 / 6,
        "valid_unique_novel": 1 / 6,  # the first star
    }
    assert novelty_shares(samples, training, None) == {
        "unique": 4 / 6,
        "novel": 4 / 6,
        "unique_novel": 3 / 6,
    }
    assert novelty_shares(samples, None, "community") == {"unique": 4 / 6}


def test_metrics_of_a_set_against_itself():
    graphs = GraphSet([TRIANGLE, STAR4, graph(2)])
    found = graph_metrics(graphs, graphs, training=graphs, kind="planar")
    assert found["novel"] == found["valid_unique_novel"] == 0
    assert found["connected"] == found["valid"] == 2 / 3
    assert (found["nodes_per_graph"], found["edges_per_graph"]) == (3, 2)
    assert [v for k, v in found.items() if k.startswith("mmd_")] == pytest.approx(
        [0] * 6, abs=1e-12
    )


def planted(sizes, seed, within=0.3, between=0.005):
    share = np.full((len(sizes), len(sizes)), between)
    np.fill_diagonal(share, within)
    return nx.stochastic_block_model(sizes, share, seed=seed)


def test_planted_blocks_are_found():
    sizes = [22, 30, 27]
    adjacency = adjacency_of(of_networkx(planted(sizes, seed=3)))
    blocks = find_blocks(adjacency)
    truth = np.repeat(range(3), sizes)
    assert len(set(zip(blocks.tolist(), truth.tolist(), strict=True))) == 3
    assert integrated_likelihood(adjacency, blocks) >= integrated_likelihood(adjacency, truth)


def test_the_likelihood_of_blocks_is_a_sum_over_graphs():
    """Over all graphs of four nodes and all labelled partitions into at most two blocks it is 1."""
    pairs = list(combinations(range(4), 2))
    total = 0.0
    for blocks in product(range(2), repeat=4):
        for chosen in product((0, 1), repeat=len(pairs)):
            adjacency = np.zeros((4, 4))
            for (i, j), linked in zip(pairs, chosen, strict=True):
                adjacency[i, j] = adjacency[j, i] = linked
            # with both blocks counted, an empty one too
            found = integrated_likelihood(adjacency, np.array(blocks), num_blocks=2)
            total += np.exp(found)
    assert total == pytest.approx(1)
    one = integrated_likelihood(np.zeros((4, 4)), np.zeros(4, dtype=int))
    assert np.exp(one) == pytest.approx(1 / 7)  # B(1, 7), and one way to have one block


@pytest.mark.parametrize(
    ("found", "valid"),
    [
        (planted([25, 30, 35], seed=1), True),
        (planted([25, 30], seed=2), True),
        (planted([25, 12, 30], seed=1), False),  # a block too small
        (planted([60, 30], seed=1), False),  # too large
        (planted([30, 30], seed=1, within=0.6), False),  # too dense
        (nx.gnm_random_graph(90, 400, seed=0), False),  # no blocks
        (nx.gnp_random_graph(30, 0.3, seed=0), False),  # one block
        (nx.empty_graph(80), False),
        (nx.complete_graph(50), False),
        (nx.path_graph(3), False),
    ],
)
def test_block_models(found, valid):
    assert is_block_model(of_networkx(found)) is valid


@pytest.mark.slow
def test_most_graphs_of_the_benchmark_pass(real_data):
    from discrete_diffusion.domains.graphs.readers import read_graphs

    held_out = read_graphs(real_data / "graphs" / "sbm.json.gz").splits["test"]
    assert sum(map(is_block_model, held_out)) == 36  # of 40
