"""The five statistics against definitions that are written out, or values that are known."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from graph_examples import PATH3, TRIANGLE, graph, of_networkx

from discrete_diffusion.domains.graphs import metrics as distances
from discrete_diffusion.domains.graphs.graph_set import (
    GraphSet,
    Statistic,
    adjacency_of,
    as_networkx,
    clustering_coefficients,
    filter_bank,
    normalised_laplacian,
    orbit_counts,
    statistics_of,
)
from discrete_diffusion.domains.graphs.metrics import MMDS, kernel_values, ratios, squared_mmds
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
    assert ratios(training, training)["ratio"] == 1
    both = ratios(found, training)
    assert both["ratio"] == pytest.approx((2 + 2 + 0.5 + 1) / 4)
    assert both["ratio_rounded"] == pytest.approx((2.8 + 2 + 0.5 + 1) / 4)
    assert ratios(found, dict.fromkeys(MMDS, 0.0)) == {}


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
