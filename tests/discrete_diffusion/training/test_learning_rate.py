"""The learning rate along a run: exact curves, the length they need, the rate that a run takes."""

from __future__ import annotations

import math

import pytest
from lightning.pytorch import Callback

from discrete_diffusion.training.learning_rate import check_learning_rate, lr_factor
from toy_training import fit, make_module

WARM_UP, END = 10, 110
CURVES = {
    "constant": lambda step: 1.0,
    "cosine": lambda step: (1 + math.cos(math.pi * (step - WARM_UP) / (END - WARM_UP))) / 2,
    "linear": lambda step: (END - step) / (END - WARM_UP),
    "wsd": lambda step: min(1.0, (END - step) / 22),  # a fifth of 110 steps
}


@pytest.mark.parametrize("schedule", CURVES)
def test_the_rate_is_its_formula_at_every_step(schedule):
    rates = [
        lr_factor(step, schedule=schedule, warmup_steps=WARM_UP, num_steps=END)
        for step in range(END + 1)
    ]
    risen = [(step + 1) / WARM_UP for step in range(WARM_UP)]
    expected = risen + [CURVES[schedule](step) for step in range(WARM_UP, END + 1)]
    assert rates == pytest.approx(expected, abs=1e-15)
    assert (rates[-1] == 0) == (schedule != "constant")
    after = lr_factor(END + 5, schedule=schedule, warmup_steps=WARM_UP, num_steps=END)
    assert after == rates[-1]  # never below 0


@pytest.mark.parametrize(("given", "steps"), [(20, 20), (0.5, 55), (1e-9, 1), (500, 100)])
def test_wsd_falls_in_the_last_steps_or_a_share_of_them(given, steps):
    """After the warm-up at the earliest, so that the peak is reached."""
    options = {"warmup_steps": WARM_UP, "num_steps": END, "decay_steps": given}
    rates = [lr_factor(step, schedule="wsd", **options) for step in range(END + 1)]
    assert rates[WARM_UP : END - steps + 1] == [1.0] * (END - steps + 1 - WARM_UP)
    assert rates[END - steps :] == pytest.approx([k / steps for k in range(steps, -1, -1)])


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"lr_schedule": "cosin"}, "did you mean 'cosine'"),
        ({"lr": 0}, r"optim\.lr=0"),
        ({"warmup_steps": 1.5}, r"optim\.warmup_steps=1\.5"),
        ({"decay_steps": 5}, r"optim\.decay_steps=5 .*optim\.lr_schedule=wsd"),
        ({"lr_schedule": "wsd", "decay_steps": 0}, r"optim\.decay_steps=0: .*share"),
        ({"lr_schedule": "wsd", "decay_steps": 1.5}, r"optim\.decay_steps=1\.5: .*share"),
        ({"lr_schedule": "wsd", "decay_steps": "5"}, r"optim\.decay_steps=5: .*share"),
        ({"lr_schedule": "wsd", "decay_steps": True}, r"optim\.decay_steps=True: .*share"),
    ],
)
def test_values_that_cannot_be_are_named(options, names):
    with pytest.raises(ValueError, match=names):
        check_learning_rate(**{"lr": 1e-3, "lr_schedule": "cosine", "warmup_steps": 0, **options})


def test_a_run_without_an_end_has_no_rate_that_falls_towards_it(tmp_path):
    with pytest.raises(ValueError, match=r"wsd .*set trainer\.max_steps .*=constant"):
        fit(make_module(lr_schedule="wsd"), tmp_path, steps=-1)


class Rates(Callback):
    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_before_optimizer_step(self, trainer, module, optimizer) -> None:
        self.seen.append(optimizer.param_groups[0]["lr"])


def test_a_run_takes_the_rate_of_its_schedule(tmp_path):
    """Two steps up, four at the peak, four down; the step after the last would have rate 0."""
    rates = Rates()
    options = {"lr_schedule": "wsd", "warmup_steps": 2, "decay_steps": 4}
    fit(make_module(lr=0.5, **options), tmp_path, [rates], steps=10)
    shares = [1 / 2, 1, 1, 1, 1, 1, 1, 3 / 4, 1 / 2, 1 / 4]
    assert rates.seen == pytest.approx([0.5 * share for share in shares])
