"""Student's interval, against scipy and a table."""

from dataclasses import astuple

import numpy as np
import pytest
import scipy.stats
import torch

from discrete_diffusion.evaluation.sample_scores import (
    confidence_interval,
    error_text,
    interval_entries,
    share_error,
    share_interval,
    standard_error,
)


def test_interval_agrees_with_scipy():
    """One value has no interval, and equal values one of no width."""
    values = np.random.default_rng(0).normal(size=7).tolist()
    expected = scipy.stats.t.interval(0.8, 6, np.mean(values), scipy.stats.sem(values))
    found = confidence_interval(values, level=0.8)
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    assert astuple(confidence_interval([0.25]))[:3] == (0.25, None, None)
    assert astuple(confidence_interval([1.0, 1.0, 1.0]))[:3] == (1.0, 1.0, 1.0)


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
    assert found.standard_error == share_error(hits / num, num) > 0


def test_shares_that_differ_have_students_interval():
    values = [0.9, 0.95, 0.91]
    assert confidence_interval(values, num=300) == confidence_interval(values)
    assert confidence_interval(values).text(3) == "0.920 ± 0.015"  # s / sqrt(3), not an interval
    mean = torch.tensor(values)
    assert standard_error(mean, num=300) == standard_error(mean) == pytest.approx(0.01528, abs=1e-5)


def test_no_share_of_samples_has_an_error_of_0():
    assert share_error(0.25, 100) == pytest.approx((0.25 * 0.75 * 100 + 0.25) ** 0.5 / 101)
    assert [share_error(0.0, 99), share_error(1.0, 99)] == pytest.approx([1 / 200] * 2)
    same = torch.full((5,), 0.625, dtype=torch.float64)
    assert standard_error(same, num=400) == share_error(0.625, 400)
    assert standard_error(same) == 0  # of what is no share
    ones = torch.ones(40)
    assert standard_error(ones, num=40) == share_error(1.0, 40) > 0


@pytest.mark.parametrize("hits", [(0, 0, 0), (40, 40, 40), (31, 33, 30), (7,)])
def test_a_share_of_samples_has_wilsons_interval_of_all_seeds(hits):
    num = 40 * len(hits)
    expected = scipy.stats.binomtest(sum(hits), num).proportion_ci(0.95, "wilson")
    found = share_interval([each / 40 for each in hits], num)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.mean == pytest.approx(sum(hits) / num)
    assert found.over_samples == share_error(found.mean, num) > 0
    spread = None if len(hits) == 1 else scipy.stats.sem([each / 40 for each in hits])
    assert found.over_seeds == (None if spread is None else pytest.approx(spread))
    assert found.standard_error == pytest.approx(max(found.over_samples, spread or 0))
    assert not found.text(2, scale=100).endswith(" 0.00")
    assert interval_entries({"valid": found, "other": confidence_interval([1.0])}) == {
        "intervals": {"valid": [found.low, found.high], "other": [None, None]},
        "errors": {"valid": {"over_samples": found.over_samples, "over_seeds": found.over_seeds}},
    }


def test_intervals_of_shares_cover_the_truth():
    """All outcomes of two seeds of 10 samples, by their probability."""
    hits = np.arange(11)
    ends = np.array(
        [[[*astuple(share_interval([a / 10, b / 10], 20))[1:3]] for b in hits] for a in hits]
    )
    covered = []
    for p in np.linspace(0.02, 0.98, 49):
        chance = scipy.stats.binom.pmf(hits, 10, p)
        within = (ends[..., 0] <= p) & (p <= ends[..., 1])
        covered.append(float((np.outer(chance, chance) * within).sum()))
    assert np.mean(covered) == pytest.approx(0.955, abs=0.01)
    assert min(covered) > 0.83  # where it is known to fall to, near 0 and 1


def test_seeds_that_differ_widen_the_interval_of_a_share():
    """Shares of several trained models spread by more than their samples explain."""
    generator = np.random.default_rng(0)
    truth, num, seeds = 0.8, 400, 5
    inside, pooled = 0, 0
    for _ in range(400):
        models = generator.beta(80, 20, size=seeds)
        shares = (generator.binomial(num, models) / num).tolist()
        found = share_interval(shares, num * seeds)
        inside += found.low <= truth <= found.high
        low, high = scipy.stats.binomtest(
            round(np.mean(shares) * num * seeds), num * seeds
        ).proportion_ci(0.95, "wilson")
        pooled += low <= truth <= high
    assert pooled / 400 < 0.7  # samples alone
    assert inside / 400 > 0.87
    assert 0 <= found.low < found.high <= 1


@pytest.mark.parametrize(
    ("error", "digits", "text"),
    [
        (0.0, 2, "0.00"),
        (0.04, 1, "0.04"),
        (0.05, 1, "0.1"),
        (0.00096, 2, "0.001"),
        (1234.5, 1, "1,234.5"),
    ],
)
def test_an_error_that_is_not_0_never_looks_like_it(error, digits, text):
    assert error_text(error, digits) == text
