"""Modes, diversity and novelty, by hand and up to relabelling."""

import networkx
import numpy as np
import pytest
from diagram_examples import SOUND, diagram, diagram_sets, graph, random_diagrams, shuffled
from hypothesis import given, settings

from floor_plans import BubbleDiagram
from floor_plans.diagrams.metrics.diagram_set import DiagramSet, KernelPoints, squared_mmd
from floor_plans.diagrams.metrics.diagrams import coverage_metrics, graph_mmd

LIVING_KITCHEN = diagram("LivingRoom Kitchen", (0, 1, "left-of"))
KITCHEN_LIVING = diagram("Kitchen LivingRoom", (0, 1, "right-of"))  # the same diagram
OPPOSITE = diagram("Kitchen LivingRoom", (0, 1, "left-of"))
TWO_BATHS = diagram("LivingRoom Bathroom Bathroom", (0, 1, "left-of"), (0, 2, "above"))


def diversity(samples):
    return coverage_metrics(samples, samples)["diversity"]


def novelty(samples, training):
    return coverage_metrics(samples, samples, training=training)["novelty"]


def test_modes_are_multisets_of_rooms():
    reference = [LIVING_KITCHEN, OPPOSITE, KITCHEN_LIVING, TWO_BATHS, SOUND]
    bare = BubbleDiagram((2, 0), ())  # relations play no part
    found = coverage_metrics([bare, bare, BubbleDiagram((5,), ())], reference)
    assert found["mode_coverage"] == pytest.approx(1 / 3)
    assert found["mode_coverage_weighted"] == pytest.approx(3 / 5)
    assert found["distinct_multisets"] == 2
    assert "novelty" not in found
    everything = coverage_metrics(reference, reference)
    assert everything["mode_coverage"] == everything["mode_coverage_weighted"] == 1.0
    assert everything["distinct_multisets"] == 3
    living = [BubbleDiagram((0,), ()), BubbleDiagram((0, 0), ())]
    assert coverage_metrics(living, living)["distinct_multisets"] == 2


def test_diversity_counts_relabellings_as_one():
    assert diversity([LIVING_KITCHEN, KITCHEN_LIVING]) == 0.5
    assert diversity([LIVING_KITCHEN, KITCHEN_LIVING, OPPOSITE, TWO_BATHS]) == 0.75
    swapped = TWO_BATHS.relabelled([2, 1, 0])
    assert diversity([TWO_BATHS, swapped]) == 0.5


def test_novelty_is_up_to_relabelling():
    assert novelty([KITCHEN_LIVING, OPPOSITE, TWO_BATHS], [LIVING_KITCHEN]) == pytest.approx(2 / 3)
    assert novelty([KITCHEN_LIVING], [OPPOSITE]) == 1.0
    assert novelty([KITCHEN_LIVING], [LIVING_KITCHEN, TWO_BATHS]) == 0.0


def test_keys_compare_sets_of_different_sizes():
    """A small diagram has the same key beside large ones as alone."""
    large = random_diagrams(20, seed=5)
    assert novelty([LIVING_KITCHEN], [*large, KITCHEN_LIVING]) == 0.0
    assert novelty([*large, LIVING_KITCHEN], [KITCHEN_LIVING]) == pytest.approx(20 / 21)


def test_boxes_are_no_part_of_a_diagram():
    placed = BubbleDiagram((0, 2), LIVING_KITCHEN.relations, boxes=((0, 0, 1, 1), (2, 0, 3, 1)))
    assert diversity([placed, LIVING_KITCHEN]) == 0.5


@pytest.mark.slow
@settings(max_examples=30)
@given(diagram_sets())
def test_keys_agree_with_the_diagrams_own(diagrams):
    """Against ``BubbleDiagram.canonical_key``, over a set and its relabelling."""
    both = [*diagrams, *shuffled(diagrams, seed=1)]
    slow = [d.canonical_key() for d in both]
    fast = DiagramSet(both).canonical_keys.tolist()
    assert len(set(slow)) == len(set(fast)) == len(set(zip(slow, fast, strict=True)))
    assert novelty(diagrams, shuffled(diagrams, seed=2)) == 0.0


def as_networkx(diagram):
    joined = networkx.Graph()
    joined.add_nodes_from(range(diagram.num_rooms))
    joined.add_edges_from((i, j) for i, j, _ in diagram.relations)
    return joined


@pytest.mark.slow
@given(diagram_sets())
def test_descriptors_agree_with_networkx(diagrams):
    measured = DiagramSet(diagrams)
    for k, each in enumerate(diagrams):
        joined, n = as_networkx(each), each.num_rooms
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
