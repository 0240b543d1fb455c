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
