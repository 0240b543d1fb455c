"""Log-space helpers: exact supports, float64 draws, reproducible generators."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion import categorical
from discrete_diffusion.categorical import (
    log_one_hot,
    log_softmax_on,
    make_generator,
    neg_inf,
    nucleus,
    sample_categorical,
    temper,
    uniform_draws,
)
from floor_plans.learning.completion.thinning import thin

SUPPORT = torch.tensor([True, False, True, True])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_neg_inf_is_finite_and_its_exponential_is_zero(dtype):
    value = torch.tensor(neg_inf(dtype), dtype=dtype)
    assert torch.isfinite(value + value)
    assert value.exp() == 0
    assert value * value.exp() == 0


def test_log_softmax_on_a_support():
    logits = torch.tensor([1.0, 50.0, 2.0, 0.5], dtype=torch.float64)
    log_probs = log_softmax_on(logits, SUPPORT)
    torch.testing.assert_close(log_probs[SUPPORT], logits[SUPPORT].log_softmax(0))
    assert log_probs[1].exp() == 0


def test_log_one_hot():
    assert log_one_hot(torch.tensor([2]), 3, torch.float32).exp().tolist() == [[0.0, 0.0, 1.0]]


def test_temper_is_a_power_of_the_probabilities():
    log_probs = log_softmax_on(torch.tensor([1.0, 3.0, 2.0, 0.5]).double(), SUPPORT)
    power = log_probs.exp() ** 2
    torch.testing.assert_close(temper(log_probs, 0.5).exp(), power / power.sum())
    flat = temper(log_probs, 1e9).exp()
    torch.testing.assert_close(flat, SUPPORT.double() / 3, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("temperature", [1e-3, 1e-9, 1e-45])
def test_a_tiny_temperature_takes_the_most_likely_legal_id(dtype, temperature):
    log_probs = log_softmax_on(torch.tensor([-9.0, 3.0, -2.0, 3.0]).to(dtype), SUPPORT)
    most_likely = (log_probs == log_probs.max()).to(dtype)
    torch.testing.assert_close(
        temper(log_probs, temperature).exp(), most_likely / most_likely.sum()
    )


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [(0.3, [1]), (0.5, [1]), (0.6, [1, 0]), (0.9, [1, 0, 3]), (1.0, [0, 1, 2, 3])],
)
def test_nucleus_keeps_the_smallest_set(top_p, kept):
    probs = torch.tensor([0.3, 0.5, 0.05, 0.15], dtype=torch.float64)
    found = nucleus(probs.log(), top_p).exp()
    expected = torch.zeros(4, dtype=torch.float64)
    expected[kept] = probs[kept] / probs[kept].sum()
    torch.testing.assert_close(found, expected)


def test_draws_have_the_right_frequencies_and_never_an_impossible_id():
    log_probs = log_softmax_on(torch.tensor([0.1, 9.0, -3.0, 1.2]), SUPPORT)
    num = 200_000
    ids = sample_categorical(log_probs.expand(num, -1), make_generator(0))
    share = torch.bincount(ids, minlength=4).double() / num
    probs = log_probs.double().exp()
    assert share[1] == 0
    assert ((share - probs).abs() <= 4.5 * (probs * (1 - probs) / num).sqrt()).all()


@pytest.mark.parametrize(
    ("probs", "u", "expected"),
    [
        ([1 - 3e-9, 3e-9], 1 - 1e-9, 1),  # in float32 neither this u nor this tail exists
        ([1 - 3e-9, 3e-9], 1 - 4e-9, 0),
        ([0.0, 0.0, 0.4, 0.6], 0.0, 2),  # the least and the largest u, beside impossible ids
        ([0.4, 0.6, 0.0, 0.0], 1 - 2.0**-53, 1),
        ([0.5, 0.5], 0.5, 1),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_id_drawn_is_the_first_whose_cumulative_probability_exceeds_u(
    dtype, probs, u, expected, monkeypatch
):
    scripted = torch.tensor([u], dtype=torch.float64)
    monkeypatch.setattr(categorical, "uniform_draws", lambda *_: scripted)
    exact = torch.tensor([probs], dtype=torch.float64)
    log_probs = exact.clamp(min=1e-300).log().masked_fill(exact == 0, neg_inf(dtype)).to(dtype)
    assert sample_categorical(log_probs, make_generator(0)).tolist() == [expected]


def test_uniform_draws_are_float64_and_repeatable():
    first, second = (uniform_draws((5,), make_generator(1, 2)) for _ in range(2))
    assert first.dtype == torch.float64
    assert (first * 2**24 % 1 > 0).all()  # more digits than float32 has
    assert torch.equal(first, second)
    for other in ((2, 1), (1, 2, 0), (1,)):
        assert not torch.equal(first, uniform_draws((5,), make_generator(*other)))


@pytest.mark.slow
def test_thinned_rows_stand_for_all_on_average():
    """Over the one random number that is drawn: kept so often, and weighing what is told."""
    generator = make_generator(3)
    weights = torch.tensor([5.0, 0.1, 0.0, 0.7, 0.4, 0.2, 3.0, 0.3, 0.1], dtype=torch.float64)
    seeds, log_weights = 1500, weights.log() - 700  # far below what exp could hold
    kept, total = torch.zeros(seeds, 9).double(), torch.zeros(seeds, 9).double()
    for seed in range(seeds):
        thinned = thin(log_weights, 4, generator)
        assert thinned.rows.tolist() == sorted(set(thinned.rows.tolist()))
        assert len(thinned.rows) == 4
        kept[seed, thinned.rows] = 1
        total[seed, thinned.rows] = (log_weights[thinned.rows] - thinned.log_chances + 700).exp()
    c = weights[[1, 3, 4, 5, 7, 8]].sum() / 2  # two of these six beside the two heavy ones
    chances = (weights / c).clamp(max=1)
    assert float(chances.sum()) == pytest.approx(4)
    assert (kept.mean(dim=0) - chances).abs().max() < 4 * 0.5 / seeds**0.5
    assert (total.mean(dim=0) - weights).abs().max() < 4 * float(c) * 0.5 / seeds**0.5
    torch.testing.assert_close(total[:, [0, 6]], weights[[0, 6]].expand(seeds, 2))


def test_few_rows_are_all_kept_and_rows_of_weight_0_are_not():
    generator = make_generator(0)
    few = thin(torch.tensor([0.0, -3.0]).double(), 2, generator)
    assert (few.rows.tolist(), few.log_chances.tolist()) == ([0, 1], [0.0, 0.0])
    nothing = float("-inf")
    mostly_none = torch.tensor([nothing, 1.0, nothing, 2.0, nothing], dtype=torch.float64)
    for num in (2, 3, 4):
        thinned = thin(mostly_none, num, generator)
        assert (thinned.rows.tolist(), thinned.log_chances.tolist()) == ([1, 3], [0.0, 0.0])
    alike = thin(torch.zeros(1000).double(), 250, generator)
    assert (alike.rows.diff() == 4).all()
    torch.testing.assert_close(alike.log_chances.exp(), torch.full((250,), 0.25).double())


def test_thinning_takes_of_neighbours_in_proportion():
    weights = torch.rand(400, generator=make_generator(1), dtype=torch.float64)
    expected = 40 * weights[:200].sum() / weights.sum()
    for seed in range(5):
        kept = thin(weights.log(), 40, make_generator(seed)).rows
        assert abs((kept < 200).sum() - expected) < 1
