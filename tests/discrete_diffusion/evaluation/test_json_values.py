from __future__ import annotations

import json
import math

import torch

from discrete_diffusion.evaluation.tables import finite_or_none, rounded


def test_what_is_not_finite_becomes_none_at_any_depth():
    value = {"a": math.nan, "b": [1.5, -math.inf, {"c": math.inf}], "d": {"e": "nan", "f": 2}}
    expected = {"a": None, "b": [1.5, None, {"c": None}], "d": {"e": "nan", "f": 2}}
    assert finite_or_none(value) == expected
    assert math.isnan(value["a"])  # the original is left alone
    assert json.loads(json.dumps(finite_or_none(value), allow_nan=False)) == expected


def test_what_is_finite_stays_equal():
    value = {"a": [1, 2.5, None, True, "x"], "b": {"c": []}}
    assert finite_or_none(value) == value


def test_vectors_are_rounded():
    values = torch.tensor([1.23456789, math.nan, math.inf, 0.0], dtype=torch.float64)
    assert rounded(values, 3) == [1.23, None, None, 0.0]
