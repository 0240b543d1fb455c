"""Distances of rooms, relations and degrees: values by hand, scipy, and what holds for any set."""

import math

import numpy as np
import pytest
import scipy.stats
from diagram_examples import REL, SOUND, diagram, diagram_sets, graph, random_diagrams
from hypothesis import given
from scipy.spatial.distance import jensenshannon

from floor_plans import BubbleDiagram
from floor_plans.diagrams.metrics.diagrams import (
    conditional_pair_distance,
    conditional_relation_distance,
    degree_distance,
    jensen_shannon,
    node_distance,
    relation_distance,
    room_count_w1,
    total_variation,
)

LOG_2 = math.log(2)
LEFT, RIGHT, ABOVE = REL["left-of"], REL["right-of"], REL["above"]


def pair(first: int, second: int, *relation: int) -> BubbleDiagram:
    """Two rooms by type code, related or not."""
    return BubbleDiagram((first, second), tuple((0, 1, r) for r in relation))


def ending(end):
    """Picks the one distance whose name ends so."""

    def pick(found: dict[str, float]) -> float:
        (value,) = (value for name, value in found.items() if name.endswith(end))
        return value

    return pick


tv, js, plain_tv, plain_js = map(ending, ("_tv", "_js", "_tv_unweighted", "_js_unweighted"))


def test_node_distance_by_hand():
    # p = (1/2, 1/2, 0), q = (1/4, 0, 3/4) over living, master, kitchen
    samples = [BubbleDiagram((0, 1), ())]
    reference = [BubbleDiagram((0, 2), ()), BubbleDiagram((2, 2), ())]
    found = node_distance(samples, reference)
    assert tv(found) == pytest.approx(0.75)
    # m = (3/8, 1/4, 3/8)
    p_from_m = 0.5 * math.log(4 / 3) + 0.5 * math.log(2)
    q_from_m = 0.25 * math.log(2 / 3) + 0.75 * math.log(2)
    assert js(found) == pytest.approx((p_from_m + q_from_m) / 2)
    apart = node_distance(samples, [BubbleDiagram((5,), ())])
    assert (tv(apart), js(apart)) == (1.0, pytest.approx(LOG_2))


def test_histogram_distances_agree_with_scipy():
    rng = np.random.default_rng(0)
    p, q = rng.integers(0, 5, (2, 40, 11)).astype(float)
    p[:, 0] += 1
    q[:, 0] += 1
    expected = [jensenshannon(a, b) ** 2 for a, b in zip(p, q, strict=True)]
    assert jensen_shannon(p, q) == pytest.approx(np.array(expected), abs=1e-14)
    shares = [h / h.sum(axis=1, keepdims=True) for h in (p, q)]
    assert total_variation(p, q) == pytest.approx(np.abs(shares[0] - shares[1]).sum(1) / 2)


def test_empty_histograms_agree_with_each_other_only():
    empty, full = np.zeros((1, 3)), np.array([[0.0, 2.0, 1.0]])
    assert total_variation(empty, empty) == jensen_shannon(empty, empty) == 0.0
    assert total_variation(empty, full) == total_variation(full, empty) == 1.0
    assert jensen_shannon(empty, full) == jensen_shannon(full, empty) == LOG_2


def test_relations_are_read_from_the_lower_type():
    # the same statement written from either end
    one_way = diagram("LivingRoom Kitchen", (0, 1, "left-of"))
    other_way = diagram("Kitchen LivingRoom", (0, 1, "right-of"))
    opposite = diagram("Kitchen LivingRoom", (0, 1, "left-of"))
    for measure in (relation_distance, conditional_relation_distance, conditional_pair_distance):
        assert tv(measure([one_way], [other_way])) == 0.0
        assert tv(measure([one_way], [opposite])) == 1.0
        assert js(measure([one_way], [opposite])) == pytest.approx(LOG_2)


def test_relation_distance_without_relations():
    bare = BubbleDiagram((0, 1), ())
    for measure in (relation_distance, conditional_relation_distance):
        assert tv(measure([bare], [bare])) == js(measure([bare], [bare])) == 0.0
        assert tv(measure([SOUND], [bare])) == 1.0
        assert js(measure([SOUND], [bare])) == pytest.approx(LOG_2)
    assert tv(relation_distance([bare], [SOUND])) == 1.0


def test_conditional_relation_distance_by_hand():
    # living-kitchen: 6 left, 2 above; living-bath: 12 left; master-bath: 4 above, too few
    reference = 6 * [pair(0, 2, LEFT)] + 2 * [pair(0, 2, ABOVE)] + 12 * [pair(0, 3, LEFT)]
    reference += 4 * [pair(1, 3, ABOVE)]
    samples = [pair(0, 2, LEFT), pair(0, 2, ABOVE), pair(2, 0, RIGHT), pair(2, 0, LEFT)]
    samples += 3 * [pair(1, 3, RIGHT)]
    # living-kitchen: left 1/2, above 1/4, right 1/4 against left 3/4, above 1/4: 1/4
    # living-bath: absent, hence uniform over ten against all left: 9/10
    found = conditional_relation_distance(samples, reference)
    assert tv(found) == pytest.approx((8 * 0.25 + 12 * 0.9) / 20)
    assert plain_tv(found) == pytest.approx((0.25 + 0.9) / 2)
    uniform = jensenshannon([0.1] * 10, [1] + 9 * [0]) ** 2
    kitchen = jensenshannon([2, 1, 1], [3, 1, 0]) ** 2
    assert js(found) == pytest.approx((8 * kitchen + 12 * uniform) / 20)
    assert plain_js(found) == pytest.approx((kitchen + uniform) / 2)


def test_the_minimum_gives_way_where_no_group_reaches_it():
    # living-kitchen agrees, living-bath does not: the plain mean says which of them count
    samples = [pair(0, 2, LEFT), pair(0, 3, LEFT)]
    few = [pair(0, 2, LEFT), pair(0, 3, ABOVE)]
    assert plain_tv(conditional_relation_distance(samples, few)) == 1 / 2
    four, five = ([*few, *(num * [pair(0, 2, LEFT)])] for num in (3, 4))
    assert plain_tv(conditional_relation_distance(samples, four)) == 1 / 2
    assert plain_tv(conditional_relation_distance(samples, five)) == 0.0
    # living rooms and kitchens have degree 1 in both, bathrooms 1 against 0
    few = [pair(0, 2, LEFT), pair(3, 4)]
    samples = [pair(0, 2, LEFT), pair(3, 4, LEFT)]
    assert plain_tv(degree_distance(samples, few)) == 1 / 2
    enough = [*(20 * [pair(0, 2, LEFT)]), *(19 * [pair(3, 5)])]
    assert plain_tv(degree_distance(samples, enough)) == 0.0
    assert plain_tv(degree_distance(samples, [*enough, pair(3, 6)])) == pytest.approx(1 / 3)


def test_degree_distance_by_hand():
    # Reference: living rooms of degree 2, kitchens and bathrooms of degree 1, twenty each
    reference = 20 * [BubbleDiagram((0, 2, 3), ((0, 1, LEFT), (0, 2, LEFT)))]
    # living rooms of degree 1 (half), 0 (half); kitchens of degree 1 and 0; no bathroom
    samples = [pair(0, 2, LEFT), pair(0, 2)]
    found = degree_distance(samples, reference)
    assert tv(found) == pytest.approx((1.0 + 0.5 + 1.0) / 3)
    # weights follow the reference's rooms
    heavier = [*reference, *(60 * [pair(3, 3, LEFT)])]
    found = degree_distance(samples, heavier)
    assert tv(found) == pytest.approx((20 * 1.0 + 20 * 0.5 + 140 * 1.0) / 180)
    assert plain_tv(found) == pytest.approx((1.0 + 0.5 + 1.0) / 3)


def test_degrees_of_diagrams_of_different_sizes_are_comparable():
    star = graph(6, *((0, k) for k in range(1, 6)))
    assert tv(degree_distance([graph(1)], [star])) == tv(degree_distance([star], [graph(1)])) == 1.0


def test_room_counts_agree_with_scipy():
    samples, reference = random_diagrams(50, seed=1), random_diagrams(30, seed=2)
    counts = [[d.num_rooms for d in s] for s in (samples, reference)]
    expected = scipy.stats.wasserstein_distance(*counts)
    assert room_count_w1(samples, reference) == pytest.approx(expected)
    one = BubbleDiagram((0,), ())
    assert room_count_w1([one], [SOUND]) == 2.0
    assert room_count_w1([one, SOUND], [SOUND, one]) == 0.0


def typed_relations(diagrams):
    """(lower type, higher type) -> counts of relations 0..9, no-edge; a slow independent count."""
    counts = {}
    for d in diagrams:
        listed = {(i, j): r for i, j, r in d.relations}
        for i in range(d.num_rooms):
            for j in range(i + 1, d.num_rooms):
                a, b, r = d.rooms[i], d.rooms[j], listed.get((i, j), 10)
                back = r if r == 10 else 9 - r
                low, high = (r, back) if a <= b else (back, r)
                bins = counts.setdefault((min(a, b), max(a, b)), np.zeros(11))
                bins[low] += 0.5
                bins[high if a == b else low] += 0.5
    return counts


@pytest.mark.slow
@given(diagram_sets(), diagram_sets())
def test_conditional_distances_agree_with_a_slow_count(samples, reference):
    ours, theirs = typed_relations(samples), typed_relations(reference)
    for measure, width, fill in (
        (conditional_relation_distance, 10, 0.1),
        (conditional_pair_distance, 11, 1 / 11),
    ):
        kept = {types: bins[:width] for types, bins in theirs.items() if bins[:width].sum() >= 5}
        kept = kept or {t: bins[:width] for t, bins in theirs.items() if bins[:width].any()}
        if not kept:
            continue
        distances, weights = [], []
        for types, bins in kept.items():
            q = ours.get(types, np.zeros(11))[:width]
            q = q / q.sum() if q.any() else np.full(width, fill)
            distances.append(np.abs(q - bins / bins.sum()).sum() / 2)
            weights.append(bins.sum())
        found = measure(samples, reference)
        assert tv(found) == pytest.approx(np.average(distances, weights=weights))
        assert plain_tv(found) == pytest.approx(np.mean(distances))
