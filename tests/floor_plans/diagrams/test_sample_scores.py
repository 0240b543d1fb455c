"""Scores over sampling seeds: means, intervals, floors, and the table made of them."""

from __future__ import annotations

import json
import statistics

import pytest

from discrete_diffusion.evaluation import (
    TableRow,
    TableSection,
    confidence_interval,
    share_error,
    share_interval,
)
from discrete_diffusion.evaluation.tables import COLUMNS, markdown
from floor_plans import generate_plans
from floor_plans.diagrams.metrics.diagrams import DISTANCES, OF_COVERAGE, SHARES, bubble_metrics
from floor_plans.diagrams.metrics.structure import structure_metrics
from floor_plans.learning.evaluation import score_samples, shown_sizes

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
