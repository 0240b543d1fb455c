"""Lines and table of a run's log: both bounds of a step, the best one, a row a step, and what
takes longer to measure than to train."""

from __future__ import annotations

import csv

import pytest

from discrete_diffusion.training import MetricsLog
from discrete_diffusion.training.callbacks import (
    SampleAtValidation,
    TimeOfMeasuring,
    ValidationLine,
)
from discrete_diffusion.training.run_checkpoints import RunCheckpoints
from toy_training import fit, make_module


@pytest.fixture
def log(tmp_path, caplog):
    """Rows of ``metrics.csv`` and lines of the log of a short run."""
    caplog.set_level("INFO", logger="discrete_diffusion")
    kept = RunCheckpoints(tmp_path / "checkpoints")
    table = MetricsLog(str(tmp_path), name="logs", version="", flush_logs_every_n_steps=2)
    callbacks = [TimeOfMeasuring(0), ValidationLine(), kept]
    fit(make_module(lr=0.3), tmp_path, callbacks, val_check_interval=3, logger=table)
    with (tmp_path / "logs" / "metrics.csv").open() as file:
        return list(csv.DictReader(file)), [record.getMessage() for record in caplog.records]


def test_a_line_has_the_step_both_bounds_and_marks_the_best_so_far(log):
    rows, messages = log
    lines = [message for message in messages if message.startswith("step ")]
    assert [line.split()[1] for line in lines] == ["3/12", "6/12", "9/12", "12/12"]
    bounds = [float(row["val/nelbo"]) for row in rows if row["val/nelbo"]]
    for k, line in enumerate(lines):
        assert "NELBO train " in line
        assert f"validation {bounds[k]:.3f} ±" in line
        assert ("best so far" in line) == (bounds[k] < min([*bounds[:k], float("inf")]))
    assert len({"best so far" in line for line in lines}) == 2  # else nothing above could fail
    assert messages[-1].startswith("training took ")
    assert ": 12 steps, and " in messages[-1]


def test_numbers_of_one_step_are_one_row(log):
    rows, _ = log
    steps = [row["step"] for row in rows]
    assert steps == sorted({*steps}, key=int)
    assert all(row["train/loss"] for row in rows if row["val/nelbo"])


def test_numbers_logged_apart_are_one_row_before_and_after_they_are_saved(tmp_path):
    table = MetricsLog(str(tmp_path), name="logs", version="")
    for key, step in (("a", 3), ("b", 3), ("a", 5)):
        table.log_metrics({key: 1.0}, step=step)
    table.save()
    table.log_metrics({"c": 2.0}, step=5)
    table.save()
    with (tmp_path / "logs" / "metrics.csv").open() as file:
        rows = [{k: v for k, v in row.items() if v} for row in csv.DictReader(file)]
    assert rows == [{"a": "1.0", "b": "1.0", "step": "3"}, {"a": "1.0", "c": "2.0", "step": "5"}]


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
    assert all(key in line for key in ("eval.num_samples", "eval.num_held_out"))
