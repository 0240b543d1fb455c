"""``check_schedule`` passes what is right, at extreme settings too, and refuses the rest."""

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
from discrete_diffusion.noise_schedules.registry import SCHEDULES, build_schedule
from discrete_diffusion.noise_schedules.schedules import PowersPerToken
from toy_world import all_schedules, toy_layout

LAYOUT = toy_layout()


def learned(*theta: float, **options: object) -> Learned:
    schedule = Learned(LAYOUT, per="token", **options)
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
        learned(0.9, -0.4, 0.1),
        learned(500.0, -500.0, 0.0, largest_ratio=1e4),
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
    schedule = learned(0.3, -0.2, -0.1)
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
