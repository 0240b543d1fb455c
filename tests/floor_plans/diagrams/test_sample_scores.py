"""Scores over sampling seeds: means, intervals, floors, and the table made of them."""

from __future__ import annotations

import json
import statistics
from types import SimpleNamespace

import numpy as np
import pytest
from diagram_examples import SOUND, random_diagrams

from discrete_diffusion.evaluation import (
    RealVsReal,
    TableRow,
    TableSection,
    confidence_interval,
    real_vs_real,
    share_error,
    share_interval,
    shown_sizes,
)
from discrete_diffusion.evaluation.tables import COLUMNS, markdown
from floor_plans import BubbleDiagram, generate_plans, read_diagrams
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import (
    DISTANCES,
    OF_COVERAGE,
    SHARES,
    bubble_metrics,
    structure_metrics,
)
from floor_plans.learning.evaluation import score_samples
from floor_plans.learning.report import DiagramReport

PLANS = generate_plans(360, seed=7)
SETS, REFERENCE, TRAINING = [PLANS[:60], PLANS[60:120]], PLANS[120:200], PLANS[200:]


def test_means_intervals_and_floors():
    scores = score_samples(
        SETS, REFERENCE, training=TRAINING, known=PLANS[120:], reference_repeats=3, seed=1
    )
    one, two = (bubble_metrics(s, REFERENCE, training=TRAINING) for s in SETS)
    for name in one:
        assert scores.per_seed[name] == [one[name], two[name]]
        assert scores.as_dict()[name] == statistics.fmean([one[name], two[name]])
        values = [one[name], two[name]]
        interval = confidence_interval(values, num=120 if name in OF_COVERAGE else None)
        if name in SHARES - OF_COVERAGE:
            interval = share_interval(values, 120)
            errors = scores.as_dict()["errors"][name]
            assert errors["over_samples"] == share_error(interval.mean, 120) > 0
            assert errors["over_seeds"] == interval.over_seeds
        assert scores.as_dict()["intervals"][name] == [interval.low, interval.high]
    floors = scores.as_dict()["floors"]
    assert scores.as_dict()["floor_sizes"] == {"num_samples": 60, "num_reference": 80, "draws": 3}
    assert scores.real["node_tv"] == floors["node_tv"] > 0
    assert scores.real["diversity"] == floors["diversity"]
    own = structure_metrics(REFERENCE)
    assert {name: scores.real[name] for name in own} == own
    assert "novelty" not in scores.real  # what is held out is new by construction
    assert set(scores.as_dict()["stratified"]) == {"samples", "reference"}
    json.dumps(scores.as_dict(), allow_nan=False)


def test_samples_from_training_are_not_novel():
    scores = score_samples([TRAINING[:20]], REFERENCE, training=TRAINING, reference_repeats=0)
    assert scores.as_dict()["novelty"] == 0


def test_one_set_has_intervals_of_shares_and_no_floors_if_none_are_asked_for():
    scores = score_samples(SETS[:1], REFERENCE, reference_repeats=0)
    found = scores.as_dict()
    assert found["intervals"]["node_tv"] == [None, None]
    low, high = found["intervals"]["valid"]
    assert low < found["valid"] == high == 1
    assert found["errors"]["valid"] == {"over_samples": share_error(1.0, 60), "over_seeds": None}
    assert "floors" not in found
    assert "novelty" not in found
    assert "node_tv" not in scores.real  # a reference is at distance 0 from itself: says nothing
    assert scores.real["edges_per_diagram"] == found["edges_per_diagram_reference"]
    with pytest.raises(ValueError, match="at least one set"):
        score_samples([], REFERENCE)


def test_a_single_sample_against_a_single_plan():
    scores = score_samples([PLANS[:1]], PLANS[1:2])
    json.dumps(scores.as_dict(), allow_nan=False)
    assert "floors" not in scores.as_dict()  # one plan cannot be compared with another


def test_the_table_holds_every_metric_once_with_its_floor():
    scores = score_samples(
        SETS, REFERENCE, training=TRAINING, known=PLANS[120:], reference_repeats=2
    )
    others, distances = scores.sections()
    rows = [*others.rows, *distances.rows]
    names = [row.name for row in rows]
    assert sorted(names) == sorted(n for n in scores.intervals if not n.endswith("_reference"))
    assert {row.name for row in distances.rows} == set(DISTANCES)
    assert all(row.meaning for row in rows)
    node = next(row for row in rows if row.name == "node_tv")
    assert "±" in node.value
    ratio = scores.as_dict()["node_tv"] / scores.as_dict()["floors"]["node_tv"]
    assert float(node.ratio) == pytest.approx(ratio, abs=0.05)
    assert distances.columns == COLUMNS
    assert others.columns == COLUMNS[:3]  # no ratio among them
    notes = scores.notes
    assert "60 real diagrams against 80 others, mean of 2 draws" in notes[2]
    assert len(notes) == 3
    text = markdown([others, distances], notes)
    assert text.count("\n## ") + text.startswith("## ") == 2
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 2 * 2 + len(rows)
    assert {line.count("|") for line in lines} == {5, 6}


def test_a_floor_of_zero_is_not_divided_by():
    scores = score_samples(SETS, REFERENCE, known=PLANS, reference_repeats=2)
    scores.real["node_tv"] = 0.0
    row = next(r for r in scores.sections()[1].rows if r.name == "node_tv")
    assert (row.real, row.ratio) == ("0.0000", "")


def test_floors_of_other_sizes_are_pointed_out():
    scores = score_samples(SETS, REFERENCE, reference_repeats=2)  # 80 plans: two halves of 40
    notes = scores.notes
    assert "too few real diagrams" in notes[-1]


def test_sets_of_unequal_size_are_described_as_they_are():
    scores = score_samples([PLANS[:5], PLANS[5:12]], REFERENCE, known=PLANS, reference_repeats=2)
    notes = scores.notes
    assert notes[0].startswith("Samples: 5 + 7 against 80 real diagrams")
    assert "the floor is for the first" in notes[3]
    assert (shown_sizes([1000, 1000]), shown_sizes([5, 7])) == ("2 x 1,000", "5 + 7")


def test_unreadable_samples_are_noted():
    scores = score_samples(SETS, REFERENCE, reference_repeats=0, num_unreadable=3)
    assert "3 of 123 samples could not be read" in scores.notes[2]
    assert len(score_samples(SETS, REFERENCE, reference_repeats=0).notes) == 2


def test_a_row_of_the_markdown():
    section = TableSection("a title", (TableRow("x", "1", meaning="a number"),))
    assert markdown([section], ["a note"]) == (
        "## A title\n\n| metric | value | meaning |\n|---|---:|---|\n| x | 1 | a number |\n\n"
        "* a note\n"
    )


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


def test_verdicts_have_their_own_count():
    found = {"transitive": 0.95, "buildable": 1.0, "num_verdicts": 40, "num_samples": 200}
    bounds = {"nelbo_unordered": 24.07, "nelbo_standard_error": 0.6}
    bounds |= {"nelbo_blind": 43.14, "nelbo_uniform": 58.22}
    bounds |= {"nelbo_blind_ordered_fixed": 51.4, "nelbo_uniform_ordered_fixed": 66.48}
    line = DiagramReport(SimpleNamespace()).summary({**bounds, **found})
    assert line.endswith(", transitive 95.0 %, buildable 100.0 % of 40  [200 samples]")
    assert "(blind 43.14, untrained 58.22; of one order 51.40, 66.48)" in line
