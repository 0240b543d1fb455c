"""Student's interval, against scipy and a table."""

import numpy as np
import pytest
import scipy.stats
import torch

from discrete_diffusion.evaluation.intervals import (
    confidence_interval,
    error_text,
    share_error,
    standard_error,
)


def test_interval_by_the_table():
    # t with 4 degrees of freedom: 2.776; mean 3, s = sqrt(2.5)
    found = confidence_interval([1, 2, 3, 4, 5])
    margin = 2.7764451 * (2.5 / 5) ** 0.5
    assert found.mean == 3.0
    assert (found.low, found.high) == (pytest.approx(3 - margin), pytest.approx(3 + margin))


def test_interval_agrees_with_scipy():
    values = np.random.default_rng(0).normal(size=7).tolist()
    expected = scipy.stats.t.interval(0.8, 6, np.mean(values), scipy.stats.sem(values))
    found = confidence_interval(values, level=0.8)
    assert (found.low, found.high) == pytest.approx(tuple(expected))


def test_one_value_has_no_interval():
    found = confidence_interval([0.25])
    assert (found.mean, found.low, found.high) == (0.25, None, None)


def test_equal_values_have_an_interval_of_no_width():
    found = confidence_interval([1.0, 1.0, 1.0])
    assert (found.mean, found.low, found.high) == (1.0, 1.0, 1.0)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="no values to average"):
        confidence_interval([])
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match=f"level={level}: expected a confidence level"):
            confidence_interval([1.0, 2.0], level=level)


@pytest.mark.parametrize("share", [0.0, 1.0, 0.625])
@pytest.mark.parametrize("num", [1, 40, 5000])
def test_shares_on_which_all_sets_agree_have_wilsons_interval(share, num):
    hits = round(share * num)
    expected = scipy.stats.binomtest(hits, num).proportion_ci(0.95, "wilson")
    found = confidence_interval([hits / num] * 3, num=num)
    assert found.mean == pytest.approx(hits / num)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.half_width == pytest.approx((expected.high - expected.low) / 2)
    assert found.half_width > 0


def test_shares_that_differ_have_students_interval():
    values = [0.9, 0.95, 0.91]
    assert confidence_interval(values, num=300) == confidence_interval(values)
    mean = torch.tensor(values)
    assert standard_error(mean, num=300) == standard_error(mean) == pytest.approx(0.01528, abs=1e-5)


def test_no_share_of_samples_has_an_error_of_0():
    assert share_error(0.25, 100) == pytest.approx((0.25 * 0.75 / 100) ** 0.5)
    assert [share_error(0.0, 99), share_error(1.0, 99)] == pytest.approx([1 / 200] * 2)
    same = torch.full((5,), 0.625, dtype=torch.float64)
    assert standard_error(same, num=400) == pytest.approx((0.625 * 0.375 / 400) ** 0.5)
    assert standard_error(same) == 0  # of what is no share
    ones = torch.ones(40)
    assert standard_error(ones, num=40) == share_error(1.0, 40) > 0


@pytest.mark.parametrize(
    ("error", "digits", "text"),
    [
        (1.234, 2, "1.23"),
        (0.0, 2, "0.00"),
        (0.04, 1, "0.04"),
        (0.05, 1, "0.1"),
        (0.0049, 2, "0.005"),
        (0.00096, 2, "0.001"),
        (2e-7, 4, "0.0000002"),
        (1234.5, 1, "1,234.5"),
    ],
)
def test_an_error_that_is_not_0_never_looks_like_it(error, digits, text):
    assert error_text(error, digits) == text
