"""The planarity test against that of networkx."""

from __future__ import annotations

import random
from itertools import combinations

import networkx as nx
import pytest

from discrete_diffusion.sampling.graph_structures import is_planar


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
            assert is_planar(num, list(graph.edges)) == answers[-1], graph.edges
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
    assert is_planar(len(graph), list(graph.edges)) == planar
