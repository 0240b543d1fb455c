"""Statistics, validity and symmetries of graphs against definitions and values that are known."""

from __future__ import annotations

import math
from functools import partial
from itertools import combinations, permutations, product

import networkx as nx
import numpy as np
import pytest
from graph_examples import PATH3, STAR4, TRIANGLE, graph, of_networkx, relabelled

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs import metrics as distances
from discrete_diffusion.domains.graphs.graph_set import (
    GraphSet,
    Statistic,
    adjacency_of,
    as_networkx,
    breadth_first_order,
    canonical_key,
    clustering_coefficients,
    filter_bank,
    node_labelling,
    normalised_laplacian,
    orbit_counts,
    reordered_graph,
    statistics_of,
)
from discrete_diffusion.domains.graphs.metrics import (
    MMDS,
    find_blocks,
    integrated_likelihood,
    is_block_model,
    is_planar,
    is_tree,
    kernel_values,
    mmd_ratios,
    novelty_shares,
    own_metrics,
    squared_mmds,
)
from discrete_diffusion.evaluation.sample_scores import real_vs_real

RANDOM = [of_networkx(nx.gnp_random_graph(5 + k % 4, 0.45, seed=k)) for k in range(12)]
OTHERS = [of_networkx(nx.random_labeled_tree(4 + k % 5, seed=k)) for k in range(9)]


@pytest.mark.parametrize("found", [*RANDOM[:4], graph(3), graph(1)])
def test_clustering_and_laplacian_are_networkx_s(found):
    linked = as_networkx(found)
    expected = list(nx.clustering(linked).values())
    assert clustering_coefficients(adjacency_of(found)) == pytest.approx(expected, abs=1e-15)
    laplacian = nx.normalized_laplacian_matrix(linked).todense()
    np.testing.assert_allclose(normalised_laplacian(adjacency_of(found)), laplacian, atol=1e-15)


GRAPHLETS = (
    # edges of a connected graph of 2 to 4 nodes, orbit of each of its nodes as ORCA numbers them
    (((0, 1),), (0, 0)),
    (((0, 1), (1, 2)), (1, 2, 1)),
    (((0, 1), (1, 2), (0, 2)), (3, 3, 3)),
    (((0, 1), (1, 2), (2, 3)), (4, 5, 5, 4)),
    (((0, 1), (0, 2), (0, 3)), (7, 6, 6, 6)),
    (((0, 1), (1, 2), (2, 3), (0, 3)), (8, 8, 8, 8)),
    (((0, 1), (1, 2), (0, 2), (2, 3)), (10, 10, 11, 9)),
    (((0, 1), (1, 2), (2, 3), (0, 3), (0, 2)), (13, 12, 13, 12)),
    (((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)), (14, 14, 14, 14)),
)


def brute_force_orbits(found):
    linked = as_networkx(found)
    counts = np.zeros((len(found.nodes), 15))
    for size in (2, 3, 4):
        for nodes in combinations(range(len(found.nodes)), size):
            part = linked.subgraph(nodes)
            for edges, orbits in GRAPHLETS:
                matcher = nx.isomorphism.GraphMatcher(part, nx.Graph(edges))
                if len(orbits) == size and matcher.is_isomorphic():
                    for node, other in matcher.mapping.items():
                        counts[node, orbits[other]] += 1
    return counts


@pytest.mark.parametrize("found", [*RANDOM[:4], graph(3)])
def test_orbits_are_those_that_brute_force_counts(found):
    np.testing.assert_array_equal(orbit_counts(found), brute_force_orbits(found))


def test_statistics_of_a_triangle_and_of_a_path():
    found = statistics_of(TRIANGLE)
    share = 1 / (1 + 1e-6 / 3)
    assert found["degree"] == pytest.approx([0, 0, share])
    assert found["clustering"] == pytest.approx([0] * 99 + [share])
    assert found["orbit"].tolist() == [2, 0, 0, 1] + [0] * 11
    spectrum = np.zeros(200)
    spectrum[[0, 150]] = share / 3, 2 * share / 3  # 0, 3/2, 3/2
    assert found["spectral"] == pytest.approx(spectrum)
    path = statistics_of(PATH3)
    assert path["spectral"][[0, 100, 199]] == pytest.approx(share / 3)  # 0, 1, 2
    assert {name: len(row) for name, row in found.items()} == {
        "degree": 3,
        "clustering": 100,
        "orbit": 15,
        "spectral": 200,
        "wavelet": 1200,
    }


def test_filters_are_those_of_pygsp():
    """Values of ``pygsp.filters.Abspline`` (PyGSP 0.6.1) with 12 filters and lmax 2."""
    at = filter_bank(np.array([0.0, 0.05, 0.3, 1.7, 2.0]))
    assert at.shape == (12, 5)
    expected = {
        0: [1.384900179460, 0.8550246141587, 0, 0, 0],
        1: [0, 1, 0.1111111111111, 0.003460207612457, 0.0025],
        2: [0, 0.4781762498950, 0.2323643450203, 0.007236259879524, 0.005228197762956],
        5: [0, 0.05228197762956, 1.380311295049, 0.06618356399931, 0.04781762498950],
        9: [0, 0.002733405184858, 0.09840258665489, 1.211410571578, 0.9146101038547],
        10: [0, 0.001307049440739, 0.04705377986661, 1.312847816470, 1.383958559748],
        11: [0, 0.000625, 0.0225, 0.7225, 1.0],
    }
    for row, values in expected.items():
        assert at[row] == pytest.approx(values, abs=1e-11)


def test_wavelets_are_the_rows_of_filtered_laplacians():
    found = RANDOM[3]
    eigenvalues, vectors = np.linalg.eigh(normalised_laplacian(adjacency_of(found)))
    bound = filter_bank(np.arange(0, 2, 0.01)).max()
    expected = []
    for response in filter_bank(eigenvalues):
        operator = vectors @ np.diag(response) @ vectors.T
        expected.append(np.histogram((operator**2).sum(axis=1), bins=100, range=(0, bound))[0])
    counts = np.concatenate(expected)
    assert statistics_of(found)["wavelet"] == pytest.approx(counts / (counts.sum() + 1e-6))


def test_kernels_are_what_they_are_called():
    x, y = np.array([[0.5, 0.5, 0.0]]), np.array([[0.0, 0.25, 0.0, 0.75]])
    tv, emd, far = 0.75, 0.5 + 0.75 + 0.75, np.sqrt(0.25 + 0.0625 + 0.5625)
    for kernel, width, distance in (("tv", 1.0, tv), ("emd", 0.1, 0.1 * emd), ("emd", None, far)):
        (value,) = kernel_values(x, y, Statistic("", "", 0.5, width), kernel)[0]
        assert value == pytest.approx(np.exp(-(distance**2) / (2 * 0.25)))


def test_a_distance_is_the_mean_over_all_pairs():
    found = squared_mmds(GraphSet(RANDOM), GraphSet(OTHERS), "tv")

    def shares(each, width):
        counts = np.bincount([d for _, d in as_networkx(each).degree()], minlength=width)
        return counts / (counts.sum() + 1e-6)

    def mean(first, second):
        values = [
            np.exp(-((np.abs(shares(a, 9) - shares(b, 9)).sum() / 2) ** 2) / 2)
            for a in first
            for b in second
        ]
        return np.mean(values)

    expected = mean(RANDOM, RANDOM) + mean(OTHERS, OTHERS) - 2 * mean(RANDOM, OTHERS)
    assert found["mmd_degree"] == pytest.approx(expected)
    assert found["mmd_average"] == pytest.approx(
        (found["mmd_degree"] + found["mmd_clustering"] + found["mmd_orbit"]) / 3
    )
    for kernel in ("tv", "emd"):
        same = squared_mmds(GraphSet(RANDOM), GraphSet(RANDOM[::-1]), kernel)
        assert list(same.values()) == pytest.approx([0] * 6, abs=1e-12)


def test_ratios_leave_out_what_training_has_exactly():
    training = dict(zip(MMDS, (0.00014, 0.00004, 0.5, 0.2, 0.1), strict=True))
    found = dict(zip(MMDS, (0.00028, 7.0, 1.0, 0.1, 0.1), strict=True))
    assert mmd_ratios(training, training)["ratio"] == 1
    both = mmd_ratios(found, training)
    assert both["ratio"] == pytest.approx((2 + 2 + 0.5 + 1) / 4)
    assert both["ratio_rounded"] == pytest.approx((2.8 + 2 + 0.5 + 1) / 4)
    assert mmd_ratios(found, dict.fromkeys(MMDS, 0.0)) == {}


def test_floors_are_distances_of_disjoint_sets():
    real = GraphSet([*RANDOM, *OTHERS])
    sizes, distances = {"num_samples": 5, "num_reference": 8}, partial(squared_mmds, kernel="tv")
    floors = real_vs_real(real, distances, **sizes, draws=3, seed=1)
    again = real_vs_real(real, distances, **sizes, draws=3, seed=1)
    assert (floors.mean, floors.sd) == (again.mean, again.sd)
    order = np.random.default_rng([1, 0]).permutation(len(real))
    one = real_vs_real(real, distances, **sizes, draws=1, seed=1)
    ours, theirs = (
        GraphSet(real.graphs[k] for k in order[:5]),
        GraphSet(real.graphs[k] for k in order[5:13]),
    )
    assert one.mean == pytest.approx(distances(ours, theirs))
    assert set(one.sd.values()) == {0.0}
    few = real_vs_real(real, distances, num_samples=40, num_reference=15, draws=1, seed=0)
    assert (few.num_samples, few.num_reference) == (10, 11)


@pytest.mark.slow
def test_training_distances_of_the_benchmark(real_data):
    """What every ratio is divided by, to four decimals."""
    from discrete_diffusion.domains.graphs.readers import read_graphs

    expected = {
        "planar": [0.0002, 0.0310, 0.0005, 0.0038, 0.0012],
        "tree": [0.0001, 0.0, 0.0, 0.0074, 0.0030],
    }
    for name, values in expected.items():
        splits = read_graphs(real_data / "graphs" / f"{name}.json.gz").splits
        found = squared_mmds(GraphSet(splits["train"]), GraphSet(splits["test"]), "tv")
        assert [round(found[mmd], 4) for mmd in MMDS] == values


@pytest.mark.parametrize("kernel", ["tv", "emd"])
def test_distances_in_parts_are_those_of_the_whole(kernel, monkeypatch):
    trees = [of_networkx(nx.random_labeled_tree(4 + k % 5, seed=k)) for k in range(23)]
    one, other = GraphSet(trees[:11]), GraphSet(trees[11:])
    whole = squared_mmds(one, other, kernel)
    monkeypatch.setattr(distances, "_MAX_PAIRS", 40)
    assert squared_mmds(one, other, kernel) == pytest.approx(whole, rel=1e-12, abs=1e-15)


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
    found = own_metrics(graphs, training=graphs, kind="planar")
    assert found["novel"] == found["valid_unique_novel"] == 0
    assert found["connected"] == found["valid"] == 2 / 3
    assert (found["nodes_per_graph"], found["edges_per_graph"]) == (3, 2)


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
    num = math.exp(node_labelling(found).log_num_orders)
    assert num == pytest.approx(len(all_relabellings(found)))


@pytest.mark.parametrize("found", GRAPHS.values(), ids=GRAPHS)
def test_relabelled_graphs_have_one_key_one_canonical_and_one_breadth_first_form(found):
    keys, canonical, breadth_first = set(), set(), set()
    for each in all_relabellings(found):
        order = node_labelling(each).canonical
        assert sorted(order) == list(range(len(found.nodes)))
        keys.add(canonical_key(each))
        canonical.add(reordered_graph(each, order))
        breadth_first.add(reordered_graph(each, breadth_first_order(each, order)))
    assert len(keys) == len(canonical) == len(breadth_first) == 1


def test_keys_tell_graphs_apart_that_refinement_and_degrees_do_not():
    hexagon = of_networkx(nx.cycle_graph(6))
    triangles = of_networkx(nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)))
    assert canonical_key(hexagon) != canonical_key(triangles)
    assert canonical_key(PATH3) != canonical_key(TypedGraph((0, 0, 0), ((0, 1, 1), (1, 2, 1))))
    assert canonical_key(COLOURED) != canonical_key(TypedGraph((0, 0, 1), COLOURED.edges))


def test_breadth_first_starts_at_most_neighbours_and_goes_outwards_part_by_part():
    found = graph(8, (5, 1), (5, 2), (5, 3), (3, 6), (0, 4), (4, 7))
    found = TypedGraph(found.nodes, tuple((min(i, j), max(i, j), 0) for i, j, _ in found.edges))
    order = breadth_first_order(found, range(8))
    assert order == (5, 3, 1, 2, 6, 4, 0, 7)
