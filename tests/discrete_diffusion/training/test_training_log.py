"""Lines and table of a run's log: both bounds of a step, the best one, a row a step."""

from __future__ import annotations

import csv

import pytest

from discrete_diffusion.training import MetricsLog
from discrete_diffusion.training.callbacks import TimeOfMeasuring, ValidationLine
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
