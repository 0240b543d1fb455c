"""Every schedule: exact ends, inverse, derivative, no cancellation, a finite weight."""

from __future__ import annotations

import math
import re

import pytest
import torch

from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import (
    Cosine,
    Geometric,
    Learned,
    Linear,
    LogLinear,
    PerGroup,
    Polynomial,
    Schedule,
    check_schedule,
    register_noise_schedule,
)
from discrete_diffusion.noise_schedules.base import SMALLEST_TIME
from discrete_diffusion.noise_schedules.registry import SCHEDULES, build_schedule
from discrete_diffusion.noise_schedules.schedules import PowersPerToken
from toy_world import all_schedules, toy_layout

TEXT = TokenLayout.flat(4, 9, mask_id=8)
NAMES = [*all_schedules(toy_layout()), "learned"]


def learned(theta=(0.9, -0.4, 0.1), **options) -> Learned:
    schedule = Learned(toy_layout(), **{"exponent_per": "token", **options}).requires_grad_(False)
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
    shared = learned((1.0, -1.0), exponent_per="group").exponents()
    assert shared[0] > 1 > shared[1] == shared[2]
    torch.testing.assert_close(shared.log().mean(), torch.zeros(()).double())


def test_learned_exponents_stay_within_their_ratio_and_follow_theta():
    extreme = learned((500.0, -500.0, 0.0), max_ratio=9.0).exponents()
    torch.testing.assert_close(extreme[0] / extreme[1], torch.tensor(9.0).double())
    small = learned((0.01, -0.01, 0.0)).exponents().log()
    torch.testing.assert_close(small, torch.tensor([0.01, -0.01, 0.0]).double(), rtol=1e-3, atol=0)


def test_learned_exponents_are_per_group_where_there_are_several_and_per_token_elsewhere():
    assert Learned(toy_layout()).theta.numel() == 2
    assert Learned(TEXT).theta.numel() == 4


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Learned(toy_layout(), exponent_per="tokens"), "did you mean 'token'"),
        (lambda: Learned(toy_layout(), max_ratio=1.0), "a number above 1"),
        (lambda: Learned(TEXT, exponent_per="group"), "set schedule.exponent_per=token"),
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
            lambda: build_schedule({"name": "log_linear", "exponent_per": "token"}, TEXT),
            "log_linear has no setting 'exponent_per'; it has none",
        ),
        (
            lambda: build_schedule({"name": "learned", "max_ratio": "9"}, TEXT),
            "schedule.max_ratio=9: expected a number",
        ),
        (lambda: build_schedule({"name": "per_group"}, TEXT), r"needs schedule\.exponents=\.\.\."),
        (lambda: build_schedule({"name": "cosin"}, toy_layout()), "did you mean 'cosine'"),
    ],
)
def test_errors_name_the_fix(build, message):
    with pytest.raises(ValueError, match=message):
        build()


# -- check_schedule --------------------------------------------------------------------------------


LAYOUT = toy_layout()


def learned_per_token(*theta: float, **options: object) -> Learned:
    schedule = Learned(LAYOUT, exponent_per="token", **options)
    schedule.theta.data.copy_(torch.tensor(theta))
    return schedule


@pytest.mark.parametrize(
    "schedule",
    [
        *all_schedules(LAYOUT).values(),
        *(Linear(sigma_max=x) for x in (1e-9, 80.0)),
        *(Polynomial(exponent=w) for w in (1e-3, 400.0)),
        *(Geometric(sigma_min=a, sigma_max=b) for a, b in ((1e-30, 80.0), (79.0, 80.0))),
        PerGroup(LAYOUT, exponents={"node": 5000.0, "edge": 1.0}),
        learned_per_token(0.9, -0.4, 0.1),
        learned_per_token(500.0, -500.0, 0.0, max_ratio=1e4),
    ],
    ids=lambda schedule: type(schedule).__name__,
)
def test_ours_pass_at_extreme_settings(schedule):
    check_schedule(schedule)
    check_schedule(schedule, LAYOUT)


class Table(Schedule):
    """alpha by straight lines between its values at given times."""

    def __init__(self, knots: int) -> None:
        super().__init__()
        self.register_buffer("t", torch.linspace(0, 1, knots, dtype=torch.float64))
        self.register_buffer("share", torch.sin(math.pi / 2 * self.t) ** 2)

    def _between(self, x, at, values):
        k = torch.searchsorted(at, x, right=True).clamp(1, len(at) - 1)
        slope = (values[k] - values[k - 1]) / (at[k] - at[k - 1])
        return values[k - 1] + slope * (x - at[k - 1]), slope

    def one_minus_alpha(self, t):
        return self._between(t, self.t, self.share)[0]

    def alpha(self, t):
        return 1 - self.one_minus_alpha(t)

    def dalpha(self, t):
        return -self._between(t, self.t, self.share)[1]

    def inverse(self, u):
        return self._between(u, self.share, self.t)[0]


@pytest.mark.parametrize("knots", [2, 17, 65])
def test_a_table_with_corners_passes(knots):
    check_schedule(Table(knots))


class Short(LogLinear):
    """alpha = 1 - .9 t with half its slope: its "bound" was 2.04 nats below the entropy."""

    def alpha(self, t):
        return 1 - 0.9 * t

    def one_minus_alpha(self, t):
        return 0.9 * t

    def dalpha(self, t):
        return torch.full_like(t, -0.45)

    def inverse(self, u):
        return u / 0.9


class HalfSlope(Cosine):
    def dalpha(self, t):
        return super().dalpha(t) / 2


class Upwards(LogLinear):
    """Clean data at both ends of a bump."""

    def alpha(self, t):
        return 1 - t + 0.3 * torch.sin(2 * math.pi * t)


class Flat(LogLinear):
    def alpha(self, t):
        return torch.where(t < 0.25, 1 - t, torch.where(t < 0.75, 0.75, 3 * (1 - t)))


class LateStart(LogLinear):
    def alpha(self, t):
        return 0.999 * (1 - t)


class Undefined(LogLinear):
    def alpha(self, t):
        return super().alpha(t) / (t > 0.5)


def changed(method: str, change: object, base: type[Schedule] = Cosine) -> Schedule:
    """A schedule with another ``method``, ``change(its result, its argument)``."""

    def other(self, x):
        return change(getattr(base, method)(self, x), x)

    return type("Other", (base,), {method: other})()


WRONG = {
    "an end short of 0": (Short(), r"alpha\(1\) = 0\.1, expected 0: "),
    "an epsilon of a textbook": (changed("alpha", lambda a, t: 1 - (1 - 1e-5) * (1 - a)), "alpha"),
    "an end short of 1": (LateStart(), r"alpha\(0\) = 0\.999, expected 1: "),
    "not a number": (Undefined(), r"alpha\(0\) = inf, expected 1"),
    "it rises": (Upwards(), r"alpha\(0\.0157\) = 1\.01.*, expected less than alpha\(0\) = 1"),
    "it stands still": (Flat(), r"alpha\(0\.\d+\) = 0.75, expected less than .* = 0.75"),
    "half the slope": (HalfSlope(), r"dalpha\(0\.0157\) = -0\.785\d+, expected -1\.570\d+, the sl"),
    "another complement": (
        changed("one_minus_alpha", lambda a, t: a * 0.99, LogLinear),
        r"one_minus_alpha\(0\.0157\) = 0\.015543, expected 0\.0157, 1 - alpha",
    ),
    "another inverse": (
        changed("inverse", lambda t, u: u),
        r"inverse\(0\.024\d+\) = 0\.024\d+, expected 0\.0157, the t of this 1 - alpha",
    ),
    "another logarithm": (
        changed("log_one_minus_alpha", lambda a, t: a + 0.1),
        r"log_one_minus_alpha\(0\.0157\)",
    ),
    "another weight": (
        changed("weight", lambda a, t: 2 * a),
        r"weight\(0\.0157\) = 127.* 63",
    ),
    "a number": (changed("alpha", lambda a, t: 0.5), r"alpha\(t\) is float for t in float64"),
    "one time": (
        changed("alpha", lambda a, t: a[:1]),
        r"alpha\(t\) has shape \(1,\) for t",
    ),
    "one method per position": (
        changed("dalpha", lambda a, t: a.unsqueeze(-1).expand(-1, 3)),
        r"dalpha\(t\) has shape \(62, 3\)",
    ),
    "other positions": (
        changed("alpha", lambda a, t: a.unsqueeze(-1).expand(-1, 4)),
        r"shape \(64, 4\) .* or \(64, 3\) per position",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_one_is_refused_with_the_time_and_both_numbers(name):
    schedule, message = WRONG[name]
    with pytest.raises(ValueError, match=f"^noise schedule {type(schedule).__name__}: .*{message}"):
        check_schedule(schedule, LAYOUT)
    with pytest.raises(ValueError, match=message):  # an algorithm built by hand
        Absorbing(LAYOUT, schedule)


class OnePositionWrong(PowersPerToken):
    wrong = "dalpha"

    def exponents(self):
        return torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)

    def _off(self, method, x):
        return 1 + 0.01 * (torch.arange(3) == 1) * (method == self.wrong)

    def dalpha(self, t):
        return super().dalpha(t) * self._off("dalpha", t)

    def inverse(self, u):
        return super().inverse(u) * self._off("inverse", u)


@pytest.mark.parametrize("method", ["dalpha", "inverse"])
def test_the_position_is_named(method):
    schedule = OnePositionWrong()
    schedule.wrong = method
    with pytest.raises(ValueError, match=rf"{method}\(.*\) = .*, at position 1$"):
        check_schedule(schedule)
    schedule.wrong = ""
    check_schedule(schedule)


def test_parameters_keep_no_gradient_and_nothing_is_tried_on_the_meta_device():
    schedule = learned_per_token(0.3, -0.2, -0.1)
    check_schedule(schedule, LAYOUT)
    assert schedule.theta.grad is None
    with torch.device("meta"):
        layout = TokenLayout.flat(4, 9, mask_id=8)
        check_schedule(Learned(layout), layout)
        check_schedule(Short(), layout)


@pytest.mark.usefixtures("clean_registry")
def test_it_is_tried_when_it_is_built():
    register_noise_schedule("half-slope")(HalfSlope)
    with pytest.raises(ValueError, match=r"HalfSlope: dalpha"):
        build_schedule({"name": "half-slope"}, LAYOUT)
    for name in SCHEDULES.names():
        if re.search("per_group|half-slope", name) is None:
            build_schedule({"name": name}, LAYOUT)
