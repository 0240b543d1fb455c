from __future__ import annotations

import math
from itertools import permutations

import networkx as nx
import numpy as np
import pytest
from graph_examples import PATH3, STAR4, TRIANGLE, TYPED, graph, of_networkx, relabelled

from discrete_diffusion.data.canonical import canonical_orders
from discrete_diffusion.data.graph_tokens import TypedGraph, encode_graphs
from discrete_diffusion.domains.graphs.graph_set import (
    breadth_first_order,
    canonical_key,
    label,
    reordered,
)
from discrete_diffusion.domains.graphs.records import GraphTypes

COLOURED = TypedGraph((0, 1, 0), ((0, 1, 0), (1, 2, 1)))
GRAPHS = {
    "path": PATH3,
    "triangle": TRIANGLE,
    "star": STAR4,
    "square and a dot": graph(5, (0, 1), (1, 2), (2, 3), (0, 3)),
    "no edge": graph(4),
    "one node": graph(1),
    "types of edges": COLOURED,
    "types of nodes": TypedGraph((0, 1, 0, 1), ((0, 1, 0), (1, 2, 0), (2, 3, 0), (0, 3, 0))),
    "one type of edge, the second": TypedGraph((0, 0, 0), ((0, 1, 1), (1, 2, 1))),
}


def all_relabellings(found):
    return {relabelled(found, order) for order in permutations(range(len(found.nodes)))}


@pytest.mark.parametrize("found", GRAPHS.values(), ids=GRAPHS)
def test_orders_are_counted_as_brute_force_counts_them(found):
    num = math.exp(label(found).log_num_orders)
    assert num == pytest.approx(len(all_relabellings(found)))


@pytest.mark.parametrize("found", GRAPHS.values(), ids=GRAPHS)
def test_relabelled_graphs_have_one_key_one_canonical_and_one_breadth_first_form(found):
    keys, canonical, breadth_first = set(), set(), set()
    for each in all_relabellings(found):
        order = label(each).canonical
        assert sorted(order) == list(range(len(found.nodes)))
        keys.add(canonical_key(each))
        canonical.add(reordered(each, order))
        breadth_first.add(reordered(each, breadth_first_order(each, order)))
    assert len(keys) == len(canonical) == len(breadth_first) == 1


def test_keys_tell_graphs_apart_that_refinement_and_degrees_do_not():
    hexagon = of_networkx(nx.cycle_graph(6))
    triangles = of_networkx(nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)))
    assert canonical_key(hexagon) != canonical_key(triangles)
    assert canonical_key(PATH3) != canonical_key(TypedGraph((0, 0, 0), ((0, 1, 1), (1, 2, 1))))
    assert canonical_key(COLOURED) != canonical_key(TypedGraph((0, 0, 1), COLOURED.edges))


def test_orders_agree_with_the_independent_count():
    rng = np.random.default_rng(0)
    found = [of_networkx(nx.gnp_random_graph(9, 0.3, seed=k)) for k in range(30)]
    found += [of_networkx(nx.random_labeled_tree(9, seed=k)) for k in range(30)]
    found = [relabelled(each, rng.permutation(9)) for each in found]
    encoded = encode_graphs(found, vocab := GraphTypes().vocabulary(9))
    expected = canonical_orders(encoded.x0, encoded.num_nodes, vocab).log_num_orders
    assert [label(each).log_num_orders for each in found] == pytest.approx(expected.tolist())
    typed = [
        TypedGraph(each.nodes, tuple((i, j, (i * j) % 2) for i, j, _ in each.edges))
        for each in found
    ]
    encoded = encode_graphs(typed, vocab := TYPED.vocabulary(9))
    expected = canonical_orders(encoded.x0, encoded.num_nodes, vocab).log_num_orders
    assert [label(each).log_num_orders for each in typed] == pytest.approx(expected.tolist())


def test_breadth_first_starts_at_most_neighbours_and_goes_outwards_part_by_part():
    found = graph(8, (5, 1), (5, 2), (5, 3), (3, 6), (0, 4), (4, 7))
    found = TypedGraph(found.nodes, tuple((min(i, j), max(i, j), 0) for i, j, _ in found.edges))
    order = breadth_first_order(found, range(8))
    assert order == (5, 3, 1, 2, 6, 4, 0, 7)
