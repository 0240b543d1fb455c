"""Graph descriptors against networkx, and their MMD against sums over all pairs."""

import networkx
import numpy as np
import pytest
from diagram_examples import diagram_sets, graph, random_diagrams, shuffled
from hypothesis import given

from floor_plans.diagrams.metrics.diagram_set import DiagramSet, KernelPoints, squared_mmd
from floor_plans.diagrams.metrics.diagrams import graph_mmd


def as_networkx(diagram):
    joined = networkx.Graph()
    joined.add_nodes_from(range(diagram.num_rooms))
    joined.add_edges_from((i, j) for i, j, _ in diagram.relations)
    return joined


@pytest.mark.slow
@given(diagram_sets())
def test_descriptors_agree_with_networkx(diagrams):
    measured = DiagramSet(diagrams)
    for k, diagram in enumerate(diagrams):
        joined, n = as_networkx(diagram), diagram.num_rooms
        degrees = [d for _, d in joined.degree()]
        shares = np.bincount(degrees, minlength=measured.degree_shares.shape[1]) / n
        assert measured.degree_shares[k] == pytest.approx(shares)
        spectrum = np.zeros(measured.spectrum.shape[1])
        spectrum[:n] = np.sort(networkx.normalized_laplacian_spectrum(joined))
        assert measured.spectrum[k] == pytest.approx(spectrum, abs=1e-12)
        coefficients = np.array(list(networkx.clustering(joined).values()))
        bins = np.minimum(np.floor(10 * coefficients + 1e-9).astype(int), 9)
        clustering = np.bincount(bins, minlength=10) / n
        assert measured.clustering_shares[k] == pytest.approx(clustering)


def test_descriptors_by_hand():
    # a triangle with a tail, an isolated room, one room alone
    measured = DiagramSet([graph(4, (0, 1), (1, 2), (0, 2), (2, 3)), graph(3, (0, 1)), graph(1)])
    assert measured.degree_shares.tolist()[0] == [0, 1 / 4, 2 / 4, 1 / 4]
    assert measured.degree_shares.tolist()[1] == pytest.approx([1 / 3, 2 / 3, 0, 0])
    assert measured.degree_shares.tolist()[2] == [1, 0, 0, 0]
    # coefficients 1, 1, 1/3, 0
    assert measured.clustering_shares.tolist()[0] == [1 / 4, 0, 0, 1 / 4, 0, 0, 0, 0, 0, 2 / 4]
    assert measured.clustering_shares.tolist()[2] == [1] + 9 * [0]
    assert measured.spectrum[1] == pytest.approx([0, 0, 2, 0], abs=1e-12)
    assert measured.spectrum[2].tolist() == [0, 0, 0, 0]


def test_three_tenths_fall_into_the_fourth_bin():
    # room 0 has five neighbours, three of the ten pairs among them are related
    wheel = graph(6, *((0, k) for k in range(1, 6)), (1, 2), (2, 3), (3, 4))
    assert DiagramSet([wheel]).clustering_shares[0, 3] == 1 / 6


def brute_force(x, y, bandwidth):
    """MMD^2 from its definition, two loops."""

    def kernel(a, b):
        return np.exp(-np.square(a - b).sum() / (2 * bandwidth**2))

    def within(z):
        if len(z) == 1:
            return 1.0
        others = [kernel(a, b) for i, a in enumerate(z) for j, b in enumerate(z) if i != j]
        return np.mean(others)

    between = np.mean([kernel(a, b) for a in x for b in y])
    return max(0.0, within(x) + within(y) - 2 * between)


@pytest.mark.parametrize(("num_x", "num_y"), [(1, 1), (1, 7), (12, 9)])
def test_mmd_agrees_with_sums_over_pairs(num_x, num_y):
    rng = np.random.default_rng(num_x)
    x, y = rng.normal(size=(num_x, 4)), rng.normal(1.0, 1.0, size=(num_y, 4))
    x[-1] = x[0]  # repeats are merged and must keep their weight
    for bandwidth in (0.27, 1.2):
        found = squared_mmd(KernelPoints.of(x, bandwidth), KernelPoints.of(y, bandwidth))
        assert found == pytest.approx(brute_force(x, y, bandwidth), abs=1e-12)


def test_large_sets_are_summed_in_blocks(monkeypatch):
    x, y = DiagramSet(random_diagrams(60, seed=1)), DiagramSet(random_diagrams(40, seed=2))
    whole = graph_mmd(x, y)
    monkeypatch.setattr("floor_plans.diagrams.metrics.diagram_set._CHUNK", 100)
    again = graph_mmd(DiagramSet(list(x)), DiagramSet(list(y)))
    assert again["mmd_spectrum"] == pytest.approx(whole["mmd_spectrum"], abs=1e-12)
    assert again["mmd_degree"] == pytest.approx(whole["mmd_degree"], abs=1e-12)


def test_graph_mmd_sees_structure_and_nothing_else():
    cycles = 10 * [graph(4, (0, 1), (1, 2), (2, 3), (0, 3))]
    stars = 10 * [graph(4, (0, 1), (0, 2), (0, 3))]
    paws = 10 * [graph(4, (0, 1), (1, 2), (0, 2), (2, 3))]
    assert graph_mmd(cycles, shuffled(cycles, seed=0))["mmd_degree"] == 0.0
    # no triangle in either: clustering cannot tell them apart, degrees can
    # shares (0, 0, 1, 0) against (0, 3/4, 0, 1/4): squared distance 1 + 9/16 + 1/16
    found = graph_mmd(cycles, stars)
    assert found["mmd_clustering"] == 0.0
    assert found["mmd_degree"] == pytest.approx(2 - 2 * np.exp(-1.625 / (2 * 0.27**2)))
    # spectra (0, 1, 1, 2) of both: cospectral
    assert found["mmd_spectrum"] == pytest.approx(0.0, abs=1e-12)
    assert graph_mmd(cycles, paws)["mmd_clustering"] > 0.5
    assert graph_mmd(cycles, paws)["mmd_spectrum"] > 0.0
