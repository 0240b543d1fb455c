from __future__ import annotations

import math

import networkx
import numpy as np
import pytest

from discrete_diffusion.data.canonical import label_canonically


def pair_matrix(graph):
    return 1 - networkx.to_numpy_array(graph, dtype=np.int64)


@pytest.mark.parametrize(
    ("graph", "num_automorphisms"),
    [
        (networkx.empty_graph(1), 1),
        (networkx.cycle_graph(14), 28),
        (networkx.petersen_graph(), 120),
        (networkx.hypercube_graph(4), 384),
        (networkx.grid_2d_graph(6, 6), 8),
        (networkx.grid_2d_graph(3, 5), 4),
        (networkx.balanced_tree(2, 3), 2**7),
        (networkx.disjoint_union_all([networkx.path_graph(2)] * 7), 2**7 * math.factorial(7)),
        (networkx.complete_bipartite_graph(6, 6), 2 * math.factorial(6) ** 2),
        (networkx.frucht_graph(), 1),
        (networkx.disjoint_union(networkx.cycle_graph(3), networkx.cycle_graph(4)), 6 * 8),
        # regular graphs that refinement cannot split: two triangles beside a hexagon's worth
        (networkx.disjoint_union_all([networkx.cycle_graph(k) for k in (3, 3, 6)]), 72 * 12),
    ],
)
def test_groups_of_known_size_and_one_form_per_graph(graph, num_automorphisms):
    pairs = pair_matrix(networkx.convert_node_labels_to_integers(graph))
    n = len(pairs)
    forms = set()
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(n)
        moved = pairs[np.ix_(order, order)]
        found = label_canonically(np.zeros(n, dtype=np.int64), moved)
        assert found.num_automorphisms == num_automorphisms
        assert sorted(found.order) == list(range(n))
        forms.add(moved[np.ix_(found.order, found.order)].tobytes())
    assert len(forms) == 1


def test_colours_are_kept_and_come_in_order():
    pairs = pair_matrix(networkx.cycle_graph(6))
    colours = np.array([1, 0, 1, 0, 1, 0])
    found = label_canonically(colours, pairs)
    assert found.num_automorphisms == 6  # rotations by two and the reflections through nodes
    assert colours[found.order].tolist() == [0, 0, 0, 1, 1, 1]


def test_the_two_regular_graphs_on_six_nodes_have_different_forms():
    two_triangles = networkx.disjoint_union(networkx.cycle_graph(3), networkx.cycle_graph(3))
    forms = []
    for graph in (networkx.cycle_graph(6), two_triangles):
        pairs = pair_matrix(graph)
        order = label_canonically(np.zeros(6, dtype=np.int64), pairs).order
        forms.append(pairs[np.ix_(order, order)].tolist())
    assert forms[0] != forms[1]
