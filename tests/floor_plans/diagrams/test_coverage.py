"""Modes, diversity and novelty, by hand and up to relabelling."""

from itertools import combinations, product

import pytest
from diagram_examples import SOUND, diagram, diagram_sets, random_diagrams, shuffled
from hypothesis import given, settings

from floor_plans import BubbleDiagram
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import (
    coverage_by_others,
    coverage_metrics,
    data_coverage,
)

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


WEIGHED = [LIVING_KITCHEN, KITCHEN_LIVING, LIVING_KITCHEN, OPPOSITE, TWO_BATHS, TWO_BATHS]
"""Three different diagrams: of shares 1/2, 1/6 and 1/3."""


def weight_of(samples):
    return data_coverage(samples, WEIGHED, len(samples))["coverage"]


def test_coverage_of_data_weighs_what_they_repeat():
    assert weight_of([OPPOSITE]) == pytest.approx(1 / 6)
    assert weight_of([KITCHEN_LIVING] * 5) == pytest.approx(1 / 2)
    assert weight_of([TWO_BATHS.relabelled([2, 1, 0]), OPPOSITE]) == pytest.approx(1 / 2)
    assert weight_of([SOUND]) == 0
    assert weight_of(WEIGHED) == pytest.approx(1)
    assert data_coverage(None, WEIGHED, 0) == {
        "coverage": 0.0,
        "coverage_ceiling": 0.0,
        "coverage_ratio": 0.0,
    }


@pytest.mark.parametrize("num", [1, 2, 3])
def test_the_ceiling_is_the_mean_coverage_of_all_draws_from_the_data(num):
    draws = [list(drawn) for drawn in product(WEIGHED, repeat=num)]
    found = data_coverage(draws[0], WEIGHED, num)
    assert found["coverage_ceiling"] == pytest.approx(sum(map(weight_of, draws)) / len(draws))
    assert found["coverage_ratio"] == pytest.approx(weight_of(draws[0]) / found["coverage_ceiling"])


@pytest.mark.parametrize("num", [1, 2, 3, 5])
def test_coverage_by_others_is_the_mean_of_all_choices(num):
    others = [KITCHEN_LIVING, LIVING_KITCHEN, OPPOSITE, SOUND, BubbleDiagram((5,), ())]
    choices = [list(chosen) for chosen in combinations(others, num)]
    expected = sum(map(weight_of, choices)) / len(choices)
    assert coverage_by_others(others, WEIGHED, num) == pytest.approx(expected)


def test_more_others_than_there_are_cannot_cover():
    with pytest.raises(ValueError, match="7 of 6"):
        coverage_by_others(WEIGHED, WEIGHED, 7)
