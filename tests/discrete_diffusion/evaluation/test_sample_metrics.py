"""Metrics of sets of samples: intervals, rows of tables, JSON, the last line of train."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import pytest
import torch

from discrete_diffusion.domains.molecules.samples import MoleculeReport
from discrete_diffusion.domains.text.report import TextReport
from discrete_diffusion.evaluation.sample_scores import (
    Metric,
    SampleScores,
    confidence_interval,
    share_interval,
)
from discrete_diffusion.evaluation.tables import finite_or_none, rounded

METRICS = {
    "valid": Metric("shares", "valid ones", share=True, digits=1, percent=True),
    "unique": Metric("shares", "different ones of these", share=True, of_each=False, of=("valid",)),
    "novel": Metric("shares", "new ones of these", share=True, of=("valid", "unique")),
    "size": Metric("numbers", "mean size"),
    "far": Metric("distances", "distance", digits=5, ratio=1),
    "close": Metric("distances", "similarity"),
}
VALUES = {
    "valid": [0.5, 0.75],
    "unique": [0.5, 0.5],
    "novel": [0.25, 0.5],
    "size": [8.0, 9.0],
    "far": [0.1, 0.3],
    "unlisted": [1.0, 2.0],
}


def scores(**real: float) -> SampleScores:
    return SampleScores(METRICS, [40, 20], VALUES, real, facts={"kind": "x"}, tables={"real": real})


def test_a_share_is_of_those_samples_that_have_other_shares():
    found = scores().intervals
    assert found["valid"] == share_interval([0.5, 0.75], 60)
    assert found["unique"] == confidence_interval([0.5, 0.5], num=40 * 0.5 + 20 * 0.75)
    assert found["novel"] == share_interval([0.25, 0.5], 40 * 0.5 * 0.5 + 20 * 0.75 * 0.5)
    assert found["size"] == confidence_interval([8.0, 9.0])


def test_single_numbers_come_first_and_every_set_is_kept():
    found = scores(far=0.1).as_dict()
    assert list(found) == [*VALUES, "kind", "intervals", "errors", "per_seed", "real"]
    assert found["per_seed"] == VALUES
    assert found["valid"] == 0.625


def test_rows_stand_under_their_headings_with_the_ratio_of_distances():
    shares, numbers, distances = scores(valid=1.0, far=0.1, size=8.5).sections()
    assert [each.title for each in (shares, numbers, distances)] == [
        *("shares", "numbers", "distances")
    ]
    assert [row.name for row in shares.rows] == ["valid", "unique", "novel"]
    assert shares.rows[0].value.startswith("62.5 ± ")
    assert shares.rows[0].value.endswith(" %")
    assert (shares.rows[0].real, shares.rows[0].ratio) == ("100.0 %", "")
    assert numbers.rows[0].value.startswith("8.50 ± ")
    assert [row.name for row in distances.rows] == ["far"]  # close was not measured
    assert (distances.rows[0].real, distances.rows[0].ratio) == ("0.10000", "2.0")


@pytest.mark.parametrize(("real", "ratio"), [(0.0, ""), (0.002, "100"), (0.003, "66.7")])
def test_a_distance_is_not_divided_by_zero_and_large_ratios_are_whole(real, ratio):
    assert scores(far=real).sections()[2].rows[0].ratio == ratio


def test_what_is_not_finite_becomes_none_at_any_depth():
    value = {"a": math.nan, "b": [1.5, -math.inf, {"c": math.inf}], "d": {"e": "nan", "f": [2]}}
    expected = {"a": None, "b": [1.5, None, {"c": None}], "d": {"e": "nan", "f": [2]}}
    assert finite_or_none(value) == expected
    assert math.isnan(value["a"])  # the original is left alone
    assert json.loads(json.dumps(finite_or_none(value), allow_nan=False)) == expected
    values = torch.tensor([1.23456789, math.nan, math.inf, 0.0], dtype=torch.float64)
    assert rounded(values, 3) == [1.23, None, None, 0.0]


BOUNDS = {
    **{"nelbo_unordered": 24.07, "nelbo_standard_error": 0.6},
    **{"nelbo_blind": 43.14, "nelbo_uniform": 58.22},
    **{"nelbo_blind_ordered_fixed": 51.4, "nelbo_uniform_ordered_fixed": 66.48},
}
DATA = SimpleNamespace(vocabulary=SimpleNamespace(unit="characters"))


@pytest.mark.parametrize(
    ("report", "found", "expected"),
    [
        (
            MoleculeReport,
            {"valid": 0.9, "unique": 0.5, "num_valid_relaxed": 190, "num_unique": 95},
            ["valid 90.0 %", "unique 50.0 % of 190"],
        ),
        (
            TextReport,
            {"words_in_training": 0.25, "num_words": 1234, "bits_per_character": 2.0},
            ["2.000 bits per character", "words in training 25.0 % of 1,234"],
        ),
    ],
)
def test_a_share_has_its_own_count(report, found, expected):
    line = report(DATA).summary({**BOUNDS, "num_samples": 200, **found})
    assert line.split(", ")[-len(expected) :] == [*expected[:-1], f"{expected[-1]}  [200 samples]"]


def test_blind_and_untrained_are_those_of_metrics_json():
    line = MoleculeReport(DATA).summary({**BOUNDS, "num_samples": 200})
    assert "(blind 43.14, untrained 58.22; of one order 51.40, 66.48)" in line
    plain = {k: v for k, v in BOUNDS.items() if not k.endswith("ordered_fixed")}
    line = MoleculeReport(DATA).summary({**plain, "num_samples": 200})
    assert "(blind 43.14, untrained 58.22)" in line
