"""Every schedule: exact ends, inverse, derivative, no cancellation, a finite weight."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import (
    Geometric,
    Learned,
    Linear,
    LogLinear,
    PerGroup,
    Polynomial,
)
from discrete_diffusion.noise_schedules.base import SMALLEST_TIME
from discrete_diffusion.noise_schedules.registry import build_schedule
from toy_world import all_schedules, toy_layout

TEXT = TokenLayout.flat(4, 9, mask_id=8)
NAMES = [*all_schedules(toy_layout()), "learned"]


def learned(theta=(0.9, -0.4, 0.1), **options) -> Learned:
    schedule = Learned(toy_layout(), **{"per": "token", **options}).requires_grad_(False)
    schedule.theta.copy_(torch.tensor(theta))
    return schedule


@pytest.fixture(params=NAMES)
def schedule(request):
    return learned() if request.param == "learned" else all_schedules(toy_layout())[request.param]


def test_float32_keeps_relative_precision_of_both_small_numbers(schedule):
    """1 - alpha near t = 0 and alpha near t = 1 agree with float64 to a few ulps."""
    small = torch.logspace(-6, -1, 30)
    torch.testing.assert_close(
        schedule.one_minus_alpha(small).double(),
        schedule.one_minus_alpha(small.double()),
        rtol=1e-4 if not isinstance(schedule, LogLinear) else 1e-6,
        atol=0,
    )
    near_one = 1 - torch.logspace(-4, -1, 30)
    torch.testing.assert_close(
        schedule.alpha(near_one).double(), schedule.alpha(near_one.double()), rtol=1e-3, atol=0
    )


def test_the_weight_of_a_power_is_w_by_t_where_the_power_itself_is_0():
    """(2^-53)^40 is less than any float64, and its ratio with the derivative 0 / 0."""
    t = torch.tensor([SMALLEST_TIME], dtype=torch.float64)
    assert Polynomial(exponent=40.0).one_minus_alpha(t) == 0
    assert Polynomial(exponent=40.0).weight(t).tolist() == [40 * 2.0**53]
    per_group = PerGroup(toy_layout(), exponents={"node": 40.0, "edge": 1.0})
    assert per_group.weight(t).tolist() == [[40 * 2.0**53, 2.0**53, 2.0**53]]


def test_rescaled_forms_equal_the_textbook_ratio():
    t = torch.linspace(0.01, 0.99, 50, dtype=torch.float64)

    def rescaled(sigma):
        a, a0, a1 = (-sigma(x) for x in (t, torch.zeros(1).double(), torch.ones(1).double()))
        return (a.exp() - a1.exp()) / (a0.exp() - a1.exp())

    torch.testing.assert_close(
        Linear(sigma_min=0.5, sigma_max=6).alpha(t),
        rescaled(lambda x: 0.5 + 5.5 * x),
        rtol=1e-10,
        atol=1e-14,
    )
    torch.testing.assert_close(
        Geometric(sigma_min=0.01, sigma_max=5).alpha(t),
        rescaled(lambda x: 0.01 * 500**x),
        rtol=1e-10,
        atol=1e-14,
    )


def test_learned_exponents_start_at_one_and_have_no_common_time_change():
    assert torch.equal(Learned(toy_layout()).exponents(), torch.ones(3).double())
    exponents = learned().exponents()
    torch.testing.assert_close(exponents.log().mean(), torch.zeros(()).double())
    shared = learned((1.0, -1.0), per="group").exponents()
    assert shared[0] > 1 > shared[1] == shared[2]
    torch.testing.assert_close(shared.log().mean(), torch.zeros(()).double())


def test_learned_exponents_stay_within_their_ratio_and_follow_theta():
    extreme = learned((500.0, -500.0, 0.0), largest_ratio=9.0).exponents()
    torch.testing.assert_close(extreme[0] / extreme[1], torch.tensor(9.0).double())
    small = learned((0.01, -0.01, 0.0)).exponents().log()
    torch.testing.assert_close(small, torch.tensor([0.01, -0.01, 0.0]).double(), rtol=1e-3, atol=0)


def test_learned_exponents_are_per_group_where_there_are_several_and_per_token_elsewhere():
    assert Learned(toy_layout()).theta.numel() == 2
    assert Learned(TEXT).theta.numel() == 4


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Learned(toy_layout(), per="tokens"), "did you mean 'token'"),
        (lambda: Learned(toy_layout(), largest_ratio=1.0), "a number above 1"),
        (lambda: Learned(TEXT, per="group"), "set schedule.per=token"),
        (lambda: Polynomial(exponent=0), "expected a number above 0"),
        (lambda: Linear(sigma_min=3, sigma_max=2), "sigma_min < sigma_max"),
        (lambda: Geometric(sigma_min=0.0, sigma_max=2), "schedule=geometric needs more"),
        (lambda: PerGroup(toy_layout(), exponents={"node": 1.0}), "give each of them"),
        (lambda: PerGroup(toy_layout(), exponents={"node": 1, "edge": -1}), "positive"),
        (lambda: PerGroup(toy_layout(), exponents={"node": "2", "edge": 1}), "exponents.node=2: e"),
        (
            lambda: PerGroup(TEXT, exponents={"node": 2, "edge": 1}),
            r"'\+schedule\.exponents=\{token:1\}', or .* schedule=log_linear",
        ),
        (
            lambda: build_schedule({"name": "log_linear", "per": "token"}, TEXT),
            "log_linear has no setting 'per'; it has none",
        ),
        (
            lambda: build_schedule({"name": "learned", "largest_ratio": "9"}, TEXT),
            "schedule.largest_ratio=9: expected a number",
        ),
        (lambda: build_schedule({"name": "per_group"}, TEXT), r"needs schedule\.exponents=\.\.\."),
        (lambda: build_schedule({"name": "cosin"}, toy_layout()), "did you mean 'cosine'"),
    ],
)
def test_errors_name_the_fix(build, message):
    with pytest.raises(ValueError, match=message):
        build()
