"""A prepared set gives the same numbers as a list, and hands on what it knows."""

import numpy as np
import pytest
from diagram_examples import SOUND, random_diagrams

from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import bubble_metrics


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


def test_nothing_to_measure_is_an_error():
    with pytest.raises(ValueError, match="no diagrams to measure"):
        DiagramSet([])
    with pytest.raises(ValueError, match="no diagrams to measure"):
        DiagramSet([SOUND]).select(np.array([], dtype=np.int64))
