"""Student's interval, against scipy and a table."""

import numpy as np
import pytest
import scipy.stats

from discrete_diffusion.evaluation.intervals import confidence_interval


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
