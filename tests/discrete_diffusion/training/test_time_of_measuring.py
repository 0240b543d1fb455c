"""A run that measures for longer than it trains says so, once, with the keys to set."""

from __future__ import annotations

import pytest

from discrete_diffusion.training.callbacks import SampleAtValidation, TimeOfMeasuring
from toy_training import fit, make_module


class Clock:
    """Seconds that pass only where a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Measures:
    """Draws samples that take ``seconds``."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.clock, self.seconds = clock, seconds

    def __call__(self, num: int) -> list[int]:
        self.clock.now += self.seconds
        return []

    def measure(self, samples: list[int]) -> dict[str, float]:
        return {}

    def plot(self, samples: list[int], path: object) -> None:
        pass


def lines(tmp_path, caplog, *, drawing=0.0, bound=0.0, step=0.0, measured=0.0, steps=12, every=4):
    """What a run says whose step, validation batch and samples take so many seconds."""
    clock = Clock()
    module, spent = make_module(), TimeOfMeasuring(64, clock=clock)
    for name, seconds in (("training_step", step), ("validation_step", bound)):
        slow(module, name, clock, seconds)
    draw = Measures(clock, drawing)
    sampling = SampleAtValidation(draw, draw, num_samples=64, folder=tmp_path)
    caplog.set_level("INFO", logger="discrete_diffusion")
    fit(module, tmp_path, [spent, sampling], steps, val_check_interval=every)
    spent.measured(measured)
    return [r.getMessage() for r in caplog.records if "would shorten the run" in r.getMessage()]


def slow(module, name: str, clock: Clock, seconds: float) -> None:
    whole = getattr(module, name)

    def slowly(*arguments, **options):
        clock.now += seconds
        return whole(*arguments, **options)

    setattr(module, name, slowly)


def test_validations_that_mostly_draw(tmp_path, caplog):
    (line,) = lines(tmp_path, caplog, drawing=8.0, step=0.5, every=2)
    assert line.startswith("2 validations took 16 s, the steps 2 s; ")
    assert "trainer.val_check_interval (every 2 steps now)" in line
    assert "callbacks.num_samples" in line


def test_validations_that_mostly_measure_the_bound(tmp_path, caplog):
    (line,) = lines(tmp_path, caplog, bound=30.0, step=1.0, steps=4)
    assert line.startswith("1 validation took ")
    assert "a smaller trainer.limit_val_batches" in line
    assert "callbacks.num_samples" not in line
    assert "val_check_interval" not in line  # there is one at the end in any case


@pytest.mark.parametrize("times", [{"drawing": 8.0, "step": 3.0}, {"drawing": 0.5, "step": 0.0}])
def test_nothing_is_said_of_short_or_few_ones(times, tmp_path, caplog):
    assert lines(tmp_path, caplog, **times) == []


def test_final_measurements(tmp_path, caplog):
    (line,) = lines(tmp_path, caplog, step=1.0, measured=90.0)
    assert line.startswith("the final measurements took 90 s, the steps 12 s; ")
    assert all(key in line for key in ("eval.num_samples", "eval.bound_samples"))
