"""Tails of known shape; a bound that a few draws carry is told from one that they do not."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch

from discrete_diffusion.evaluation.bound import DrawTail, SampleBounds, draw_tail, pareto_fit

TOKENS = torch.full((600,), 10)
LIGHT = {
    "normal": scipy.stats.norm(40, 3),
    "exponential": scipy.stats.expon(),
    "uniform": scipy.stats.uniform(),
    "gamma": scipy.stats.gamma(2),
}


def draws(distribution, num: int, *, seed: int = 0, samples: int = 600) -> torch.Tensor:
    generator = np.random.default_rng(seed)
    return torch.from_numpy(distribution.rvs(size=(samples, num), random_state=generator))


@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.5, 0.9])
def test_shape_and_mean_of_pareto_tails_are_found(shape):
    """By 200 sets of 500: their mean, and that of maximum likelihood, within its error."""
    generator = np.random.default_rng(0)
    tails = scipy.stats.genpareto(shape, scale=3)
    sets = np.sort(tails.rvs(size=(200, 500), random_state=generator))
    fits = [pareto_fit(torch.from_numpy(each)) for each in sets]
    found = np.array([fit for fit, _ in fits])
    if shape <= 0.5:  # beyond, the mean of a sample is that of few values
        assert np.mean([mean for _, mean in fits]) == pytest.approx(3 / (1 - shape), rel=0.06)
    prior = (500 * shape + 5) / 510
    assert found.mean() == pytest.approx(prior, abs=0.02)
    assert found.std() < 1.2 * (1 + max(shape, 0)) / np.sqrt(500)  # the Cramer-Rao bound is 1.0
    if shape > 0:
        likeliest, _, _ = scipy.stats.genpareto.fit(sets[0], floc=0)
        assert found[0] == pytest.approx((500 * likeliest + 5) / 510, abs=0.02)


@pytest.mark.parametrize("name", LIGHT)
@pytest.mark.parametrize("num", [1, 16])
def test_light_tails_are_passed_over(name, num):
    for seed in range(5):
        tail = draw_tail(draws(LIGHT[name], num, seed=seed), TOKENS)
        assert not tail.is_doubtful
        assert tail.shape < 0.4
        assert "nelbo_draws_needed" not in tail.as_dict()


def test_a_heavy_tail_that_is_no_share_of_the_bound_is_passed_over():
    """30 to 40 nats, and above 40 a tail of shape .85, a hundredth of a nat long or ten."""
    top = draws(scipy.stats.uniform(), 2, seed=1) > 0.8
    bulk = 30 + 10 * draws(scipy.stats.uniform(), 2, seed=2)
    small, large = (
        draw_tail(bulk.where(~top, 40 + scale * draws(scipy.stats.pareto(1 / 0.85), 2)), TOKENS)
        for scale in (0.01, 10)
    )
    for tail in (small, large):
        assert tail.shape == pytest.approx(0.85, abs=0.2)
    assert small.expected_share < 0.01
    assert not small.is_doubtful
    assert large.is_doubtful


def test_a_heavy_tail_is_told_with_the_draws_that_would_do():
    few = draw_tail(draws(scipy.stats.pareto(1 / 0.85), 2), TOKENS)
    assert few.is_doubtful
    assert few.shape == pytest.approx(0.85, abs=0.2)
    assert few.enough > 2
    for each in ("of gidd", f"noise_samples={few.enough} ", f"{few.shape:.2f}"):
        assert each in few.warning("of gidd")
    assert few.as_dict()["nelbo_draws_needed"] == few.enough
    largest = draws(scipy.stats.pareto(1 / 0.85), 2).flatten().sort().values
    assert few.largest_share == pytest.approx(float(largest[-12:].sum() / largest.sum()))


def test_the_number_of_draws_is_that_of_the_shape():
    assert DrawTail(0.75, 99.0, 0.3, 100, 2).enough == 100  # 10^(1 / 0.25) = 10,000 in all
    assert DrawTail(0.7, 99.0, 0.3, 1000, 2).enough == 3  # 2,154 in all
    assert not DrawTail(0.7, 99.0, 0.3, 1000, 3).is_doubtful
    assert DrawTail(-0.2, 99.0, 0.01, 600, 1).enough == 1
    assert DrawTail(0.8, 99.0, 0.3, 600, 2).enough == 170  # of 166.7, two figures
    hopeless = DrawTail(1.1, 99.0, 0.9, 600, 2)
    assert hopeless.is_doubtful
    assert "even noise_samples=10000 would not do" in hopeless.warning()


def test_a_draw_that_makes_the_error_alone_is_told():
    """A rare draw of thousands of nats above a light tail, whose shape alone would pass."""
    usual = draws(LIGHT["normal"], 2)
    tail = draw_tail(usual, TOKENS)
    assert tail.effective == pytest.approx(1200 / 3, rel=0.1)  # moments of a normal distribution
    usual[17, 1] = 6000.0
    tail = draw_tail(usual, TOKENS)
    assert 10 ** (1 / (1 - tail.shape)) < 1200
    assert tail.effective == pytest.approx(1, abs=0.01)
    assert tail.is_doubtful
    assert tail.enough == 100  # 2 * 50 / 1.0
    hits = torch.zeros(600, 2)
    hits[3, 0] = 1.0
    tail = draw_tail(hits, TOKENS)
    assert tail.shape is None
    assert tail.is_doubtful
    assert "Pareto" not in tail.warning()


def test_too_few_or_equal_draws_say_nothing():
    assert draw_tail(draws(scipy.stats.pareto(1), 1, samples=99), TOKENS[:99]) is None
    assert draw_tail(torch.ones(600, 2), TOKENS) is None
    bounds = SampleBounds(torch.ones(600), TOKENS, None)
    assert bounds.tail is None  # exact, without draws


def test_sizes_of_samples_are_no_tail():
    """Numbers of tokens with a heavy tail, each of about a nat: only the noise counts."""
    tokens = (10 * draws(scipy.stats.pareto(1 / 0.95), 1).flatten()).long()
    nats = tokens.unsqueeze(1) * draws(scipy.stats.norm(1, 0.1), 4, seed=1)
    assert not draw_tail(nats, tokens).is_doubtful
    assert draw_tail(nats, torch.ones(600)).is_doubtful
