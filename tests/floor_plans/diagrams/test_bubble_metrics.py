"""All metrics by name: stable names, what a perfect set scores, and no order of rooms anywhere."""

import json
import math

import numpy as np
import pytest
from diagram_examples import SOUND, diagram_sets, graph, random_diagram, random_diagrams, shuffled
from hypothesis import given, settings

from floor_plans import BubbleDiagram
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import (
    DISTANCES,
    METRIC_MEANINGS,
    bubble_metrics,
    structure_metrics,
)

NAMES = [
    *("valid", "connected", "at_most_one_living_room", "at_most_one_entrance"),
    *("exactly_one_living_room", "transitive", "horizontally_transitive", "vertically_transitive"),
    *("inside_valid", "edges_per_diagram", "edge_presence", "node_tv", "node_js", "relation_tv"),
    *("relation_js", "conditional_relation_tv", "conditional_relation_tv_unweighted"),
    *("conditional_relation_js", "conditional_relation_js_unweighted", "conditional_pair_tv"),
    *("conditional_pair_tv_unweighted", "conditional_pair_js", "conditional_pair_js_unweighted"),
    *("degree_tv", "degree_tv_unweighted", "room_count_w1", "mmd_degree", "mmd_clustering"),
    *("mmd_spectrum", "mode_coverage", "mode_coverage_weighted", "distinct_multisets", "diversity"),
    *("novelty", "edges_per_diagram_reference", "edge_presence_reference"),
]


def test_metric_names_are_stable_and_each_has_a_meaning():
    scores = bubble_metrics([SOUND], [SOUND], training=[SOUND])
    assert list(scores) == NAMES == list(METRIC_MEANINGS)
    assert list(bubble_metrics([SOUND], [SOUND])) == [name for name in NAMES if name != "novelty"]
    assert NAMES[: len(structure_metrics([SOUND]))] == list(structure_metrics([SOUND]))
    assert list(DISTANCES) == NAMES[NAMES.index("node_tv") : NAMES.index("mode_coverage")]
    assert all(meaning and "\n" not in meaning for meaning in METRIC_MEANINGS.values())


def test_a_sound_diagram_passes_everything():
    scores = bubble_metrics([SOUND], [SOUND], training=[SOUND])
    expected = dict.fromkeys(NAMES, 1.0) | dict.fromkeys(DISTANCES, 0.0) | {"novelty": 0.0}
    expected |= dict.fromkeys(("edges_per_diagram", "edges_per_diagram_reference"), 2.0)
    expected |= dict.fromkeys(("edge_presence", "edge_presence_reference"), 2 / 3)
    assert scores == expected


@settings(max_examples=30)
@given(diagram_sets())
def test_a_set_is_at_distance_0_from_itself(diagrams):
    scores = bubble_metrics(diagrams, list(reversed(diagrams)))
    assert {name: scores[name] for name in DISTANCES} == pytest.approx(
        dict.fromkeys(DISTANCES, 0.0), abs=1e-12
    )
    assert scores["mode_coverage"] == scores["mode_coverage_weighted"] == 1.0


def test_metrics_of_a_batch_do_not_depend_on_the_order_of_rooms():
    rng = np.random.default_rng(7)
    samples = [random_diagram(rng) for _ in range(300)]
    reference = DiagramSet([random_diagram(rng, density=0.6) for _ in range(300)])
    training = DiagramSet([*samples[:30], *random_diagrams(100, seed=8)])
    expected = bubble_metrics(samples, reference, training=training)
    for seed in range(5):
        turned = DiagramSet(shuffled(samples, seed))
        found = bubble_metrics(turned, reference, training=training)
        assert found == pytest.approx(expected, abs=1e-12)
        back = bubble_metrics(turned, samples, training=samples)
        assert back["novelty"] == back["relation_tv"] == back["conditional_pair_js"] == 0.0
        assert back["diversity"] == expected["diversity"]
    for name in ("valid", "transitive", "inside_valid", "mode_coverage", "diversity", "novelty"):
        assert 0 < expected[name] < 1, name
    for name in DISTANCES:
        assert expected[name] > 0, name


@pytest.mark.slow
@settings(max_examples=30)
@given(diagram_sets(), diagram_sets())
def test_every_metric_is_a_number_in_its_range(samples, reference):
    scores = bubble_metrics(samples, reference, training=reference)
    assert json.loads(json.dumps(scores, allow_nan=False)) == scores
    for name, value in scores.items():
        assert isinstance(value, float), name
        top = 1.0
        if name.startswith(("edges", "room_count", "distinct")):
            top = math.inf
        elif "_js" in name:
            top = math.log(2)
        elif name.startswith("mmd"):
            top = 2.0
        assert 0 <= value <= top + 1e-12, name


@pytest.mark.parametrize("samples", [[graph(1)], [graph(3)], [graph(1), graph(8, (0, 7))]])
@pytest.mark.parametrize("reference", [[graph(1)], [graph(2)], [SOUND, graph(5)]])
def test_smallest_sets_are_measured(samples, reference):
    scores = bubble_metrics(samples, reference, training=reference)
    assert all(math.isfinite(value) for value in scores.values())


def test_large_diagrams_are_measured():
    ring = graph(20, *((k, k + 1) for k in range(19)), (0, 19))
    turned = ring.relabelled(np.random.default_rng(0).permutation(20).tolist())
    scores = bubble_metrics([turned, SOUND], [ring], training=[ring])
    assert scores["novelty"] == 0.5
    assert scores["room_count_w1"] == 8.5


@pytest.mark.parametrize(
    ("samples", "reference", "training"),
    [([], [SOUND], None), ([SOUND], [], None), ([SOUND], [SOUND], [])],
)
def test_an_empty_set_is_refused(samples, reference, training):
    with pytest.raises(ValueError, match="no diagrams to measure"):
        bubble_metrics(samples, reference, training=training)


def test_more_connections_move_what_they_should():
    """Samples with every pair related: presence, degrees and graphs change, rooms do not."""
    sparse = [BubbleDiagram((0, 1, 2, 3), ((0, 1, 2), (0, 2, 2), (0, 3, 2))) for _ in range(30)]
    pairs = [(i, j, 2) for i in range(4) for j in range(i + 1, 4)]
    full = [BubbleDiagram((0, 1, 2, 3), tuple(pairs)) for _ in range(30)]
    scores = bubble_metrics(full, sparse)
    assert scores["edge_presence"] == 1.0
    assert scores["edge_presence_reference"] == 0.5
    unmoved = ("node_tv", "relation_tv", "conditional_relation_tv", "room_count_w1")
    assert [scores[name] for name in unmoved] == [0.0] * 4
    assert scores["conditional_pair_tv"] == pytest.approx(0.5)
    assert scores["degree_tv"] == pytest.approx(0.75)  # the living room keeps its three
    assert min(scores[name] for name in ("mmd_degree", "mmd_clustering", "mmd_spectrum")) > 0.1


def test_a_set_is_a_sequence():
    diagrams = random_diagrams(10, seed=0)
    measured = DiagramSet(diagrams)
    assert len(measured) == 10
    assert list(measured) == diagrams
    assert measured[3] == diagrams[3]
    assert measured[-1] == diagrams[-1]
    assert list(measured[2:8:2]) == diagrams[2:8:2]
    assert DiagramSet.of(measured) is measured
    assert list(DiagramSet.of(diagrams)) == diagrams


def test_selected_arrays_are_those_of_the_selected_diagrams():
    diagrams = random_diagrams(30, seed=1)  # the largest among them
    rows = np.array([7, 0, 29, 7, 12, max(range(30), key=lambda k: diagrams[k].num_rooms)])
    chosen = DiagramSet(diagrams).prepare().select(rows)
    packed = DiagramSet([diagrams[row] for row in rows]).prepare()
    assert vars(chosen).keys() == vars(packed).keys()
    for name, expected in vars(packed).items():
        assert np.array_equal(getattr(chosen, name), expected), name


def test_a_selection_of_a_prepared_set_measures_like_a_fresh_one():
    diagrams = random_diagrams(80, seed=2, num_types=3)
    prepared = DiagramSet(diagrams).prepare()
    rng = np.random.default_rng(0)
    for _ in range(5):
        ours, theirs = np.split(rng.permutation(80)[:60], [25])
        fresh = [[diagrams[k] for k in rows] for rows in (ours, theirs)]
        expected = bubble_metrics(*fresh, training=fresh[1])
        selected = [prepared.select(rows) for rows in (ours, theirs)]
        found = bubble_metrics(*selected, training=selected[1])
        assert found == pytest.approx(expected, abs=1e-12)


def test_a_reference_is_measured_once():
    reference, sound = DiagramSet(random_diagrams(20, seed=3)), DiagramSet([SOUND])
    bubble_metrics(sound, [SOUND])  # all of the sample's own
    first = bubble_metrics(sound, reference, training=reference)
    for measured in (sound, reference):  # nothing is left to measure
        for name in ("tokens", "rooms", "relations", "related"):
            delattr(measured, name)
    assert bubble_metrics(sound, reference, training=reference) == first
