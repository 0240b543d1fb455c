"""Real against real data: two halves of one distribution, at the sizes that were asked for."""

import numpy as np
import pytest
from diagram_examples import SOUND, random_diagrams

from discrete_diffusion.evaluation import RealVsReal, real_vs_real
from floor_plans import BubbleDiagram, generate_plans, read_diagrams
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import DISTANCES, bubble_metrics
from floor_plans.diagrams.metrics.structure import structure_metrics


def floors_of(real, **options) -> RealVsReal:
    return real_vs_real(DiagramSet.of(real).prepare(), bubble_metrics, **options)


@pytest.mark.parametrize(
    ("available", "asked", "used"),
    [
        (100, (30, 40), (30, 40)),
        (100, (50, 50), (50, 50)),
        (100, (200, 40), (60, 40)),  # the samples shrink
        (100, (200, 50), (50, 50)),
        (100, (200, 80), (50, 50)),  # two halves
        (100, (30, 95), (30, 70)),  # the samples need no more than asked
        (101, (200, 200), (50, 51)),
        (2, (5, 5), (1, 1)),
    ],
)
def test_sizes_that_fit(available, asked, used):
    real = random_diagrams(available, seed=0)
    floors = floors_of(real, num_samples=asked[0], num_reference=asked[1], draws=1)
    assert (floors.num_samples, floors.num_reference) == used


def test_floors_shrink_with_size():
    plans = DiagramSet(generate_plans(1500, seed=1))
    small, large = (
        floors_of(plans, num_samples=size, num_reference=size, draws=5) for size in (75, 750)
    )
    for name in DISTANCES:
        if not name.startswith("mmd"):  # unbiased: 0 on average at any size, but for the clipping
            assert 0 < large.mean[name] < small.mean[name], name
    assert small.mean["mode_coverage_weighted"] < large.mean["mode_coverage_weighted"]
    assert set(large.mean) == set(large.sd) == set(bubble_metrics([SOUND], [SOUND]))
    for name, value in structure_metrics(plans).items():
        assert large.mean[name] == pytest.approx(value, rel=0.02), name


def test_the_two_sets_of_a_draw_share_no_diagram():
    # no two of these have the same rooms: a set covers modes of the other only where they overlap
    real = [BubbleDiagram((a, b), ()) for a in range(13) for b in range(a, 13)]
    floors = floors_of(real, num_samples=45, num_reference=46, draws=5)
    assert floors.mean["mode_coverage"] == floors.mean["mode_coverage_weighted"] == 0.0
    assert floors.mean["distinct_multisets"] == 45


def test_floors_are_means_over_draws():
    real = random_diagrams(120, seed=4)
    sizes = {"num_samples": 50, "num_reference": 60}
    floors = floors_of(real, **sizes, draws=4, seed=3)
    assert floors == floors_of(real, **sizes, draws=4, seed=3)
    assert floors != floors_of(real, **sizes, draws=4, seed=4)
    # the first draws are the same, however many follow
    one = floors_of(real, **sizes, draws=1, seed=3)
    two = floors_of(real, **sizes, draws=2, seed=3)
    assert set(one.sd.values()) == {0.0}
    # the mean of two is (a + b) / 2, their standard deviation |a - b| / sqrt(2)
    for name, value in one.mean.items():
        assert abs(value - two.mean[name]) == pytest.approx(two.sd[name] / 2**0.5, abs=1e-12)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_samples": 0}, "num_samples=0: expected at least 1"),
        ({"num_reference": -1}, "num_reference=-1: expected at least 1"),
        ({"draws": 0}, "draws=0: expected at least 1"),
    ],
)
def test_bad_sizes_are_refused(changed, message):
    sizes = {"num_samples": 2, "num_reference": 2, "draws": 1} | changed
    with pytest.raises(ValueError, match=message):
        floors_of([SOUND, SOUND], **sizes)


def test_a_floor_needs_two_diagrams():
    with pytest.raises(ValueError, match="a floor needs at least 2"):
        floors_of([SOUND], num_samples=1, num_reference=1)


@pytest.mark.slow
def test_floors_of_real_plans_are_the_published_ones(real_data):
    """754 against 189 of the plans that differ up to relabelling (largest bedroom: master)."""
    plans = DiagramSet(read_diagrams(real_data / "rplan_render_999" / "plans.jsonl"))
    first = {key: row for row, key in reversed(list(enumerate(plans.canonical_keys)))}
    distinct = plans.select(np.array(sorted(first.values())))
    assert len(distinct) == 943
    floors = floors_of(distinct, num_samples=754, num_reference=189, draws=20)
    published = {
        "valid": 0.935,
        "transitive": 1.0,
        "edges_per_diagram": 9.9,
        "relation_tv": 0.026,
        "conditional_relation_tv": 0.105,
        "conditional_pair_tv": 0.069,
        "degree_tv": 0.049,
        "mode_coverage_weighted": 0.984,
    }
    for name, value in published.items():
        noise = 2 * floors.sd[name] + 0.0005  # published from one split, three decimals
        assert abs(floors.mean[name] - value) < max(noise, 0.03 * (name == "edges_per_diagram"))
    for name, value in (("mmd_degree", 3e-4), ("mmd_clustering", 3e-4), ("mmd_spectrum", 2e-3)):
        assert abs(floors.mean[name] - value) < 3 * floors.sd[name]
