"""A run that was broken off and resumed ends like one that was not: every number, every file."""

from __future__ import annotations

import csv
import signal
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Callback

from discrete_diffusion.checkpoints.files import read_training_file
from discrete_diffusion.runtime.processes import Stop, StopSignals
from discrete_diffusion.training import EMA, MetricsLog
from discrete_diffusion.training.callbacks import TrainingProgress
from discrete_diffusion.training.run_checkpoints import RunCheckpoints
from toy_training import fit, make_module

STEPS = 14
INFO = {"config": {}, "size_counts": [1, 2]}
pytestmark = [
    pytest.mark.filterwarnings("ignore:Experiment logs directory:UserWarning"),
    pytest.mark.filterwarnings("ignore:The number of training batches:UserWarning"),
]


class Crash(Exception):
    pass


class DoAt(Callback):
    """Calls ``action`` once, at the end of a step, in its middle, or in the validation after it:
    in its batches, where samples are drawn, or when it is logged."""

    def __init__(self, step, action, where="end"):
        self.step, self.action, self.where = step, action, where

    def _do(self, step, where):
        if (step, where) == (self.step, self.where):
            self.step = None
            self.action()

    def on_train_batch_start(self, trainer, *_):
        self._do(trainer.global_step + 1, "middle")

    def on_train_batch_end(self, trainer, *_):
        self._do(trainer.global_step, "end")

    def on_validation_batch_end(self, trainer, *_):
        self._do(trainer.global_step, "validation")

    def on_validation_epoch_end(self, trainer, *_):
        self._do(trainer.global_step, "samples")

    def on_validation_end(self, trainer, *_):
        self._do(trainer.global_step, "logged")


def crash():
    raise Crash


def interrupt():
    signal.raise_signal(signal.SIGINT)


def run(folder, steps=STEPS, *, at=(), interval=4, resume=None, **options):
    """Train with all that ``train`` uses; returns the module and the checkpoint callback."""
    module = make_module(checkpoint_info=INFO)
    former = {}
    if resume is not None:
        state = read_training_file(resume)
        due = state["callbacks"]["RunCheckpoints"].get("validation_due", False)
        former = {"first_step": state["global_step"], "validation_due": due}
    with StopSignals() as signals:
        kept = RunCheckpoints(folder / "checkpoints", signals=signals)
        log = MetricsLog(folder, "logs", "", **former, former_run=resume and resume.parent.parent)
        callbacks = [*([DoAt(*at)] if at else []), TrainingProgress(), EMA(decay=0.9), kept]
        options |= {"val_check_interval": interval, "logger": log, "ckpt_path": resume}
        fit(module, folder, callbacks, steps, **options)
    return module, kept


def result(folder, module):
    """Weights, checkpoints and metrics of a finished run, comparable with ==."""
    out = {"csv": (folder / "logs" / "metrics.csv").read_text()}
    out |= {f"final {name}": value.tolist() for name, value in module.state_dict().items()}
    for name in ("last", "best"):
        state = read_training_file(folder / "checkpoints" / f"{name}.ckpt")
        for key in ("state_dict", "current_model_state", "averaging_state"):
            out |= {f"{name} {key} {k}": v.tolist() for k, v in state[key].items()}
        moments = state["optimizer_states"][0]["state"]
        out[f"{name} optimiser"] = [
            {k: torch.as_tensor(v).tolist() for k, v in m.items()} for m in moments.values()
        ]
        out[f"{name} choice"] = state["callbacks"]
        out[f"{name} schedule"] = state["lr_schedulers"]
        out[f"{name} stream"] = state["loops"]["fit_loop"]["state_dict"]
        out[f"{name} info"] = state["discrete_diffusion"]
        weights = (folder / "checkpoints" / f"{name}.safetensors").read_bytes()
        out[f"{name} safetensors"] = hash(weights)
    return out


def losses(folder):
    """The lines of the table that have a loss, by step."""
    rows = csv.DictReader((folder / "logs" / "metrics.csv").read_text().splitlines())
    return [(row["step"], row["train/loss"]) for row in rows if row["train/loss"]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The uninterrupted run, for a validation interval within the epoch and one across it."""
    results = {}
    for interval in (4, 5):
        folder = tmp_path_factory.mktemp(f"whole_{interval}")
        results[interval] = result(folder, run(folder, interval=interval)[0])
    return results


@pytest.mark.parametrize(
    ("step", "interval", "where"),
    [
        (6, 4, "middle"),
        (8, 4, "end"),
        (9, 5, "middle"),
        (8, 4, "validation"),
        (8, 4, "samples"),
        (STEPS, 4, "logged"),
    ],
)
def test_a_crash_at_any_step_loses_nothing(whole, tmp_path, step, interval, where):
    with pytest.raises(Crash):
        run(tmp_path, at=(step, crash, where), interval=interval)
    last = tmp_path / "checkpoints" / "last.ckpt"
    if where in ("validation", "samples", "logged"):
        assert read_training_file(last)["global_step"] == step
    module, _ = run(tmp_path, resume=last, interval=interval)
    assert result(tmp_path, module) == whole[interval]


@pytest.mark.parametrize(
    ("number", "step", "where", "interval"),
    [
        (signal.SIGINT, 1, "end", 4),
        (signal.SIGUSR1, 6, "middle", 4),
        (signal.SIGTERM, 12, "end", 4),  # a validation is due: the resumed run makes it
        (signal.SIGINT, 8, "end", 5),  # the end of an epoch, no validation due
        (signal.SIGINT, 4, "validation", 4),
        (signal.SIGUSR2, 8, "samples", 4),  # at the end of an epoch
        (signal.SIGHUP, 12, "logged", 4),
        (signal.SIGTERM, STEPS, "samples", 4),
    ],
)
def test_signals_stop_after_the_step_and_lose_nothing(
    whole, tmp_path, number, step, where, interval
):
    with pytest.raises(Stop) as stop:
        run(tmp_path, at=(step, lambda: signal.raise_signal(number), where), interval=interval)
    assert stop.value.exit_status == 128 + number
    last = tmp_path / "checkpoints" / "last.ckpt"
    on_the_spot = where in ("validation", "samples")
    assert stop.value.checkpoint == (None if on_the_spot else last)
    state = read_training_file(last)
    assert state["global_step"] == step
    due = on_the_spot or (where, step) == ("end", 12)
    assert state["callbacks"]["RunCheckpoints"]["validation_due"] == due
    module, _ = run(tmp_path, resume=last, interval=interval)
    assert result(tmp_path, module) == whole[interval]


@pytest.mark.parametrize(
    ("step", "options"),
    [
        (6, {"batch_size": 256}),  # one batch an epoch: each of its steps is the last
        (3, {"accumulate_grad_batches": 3}),  # the third step of an epoch has two batches
    ],
)
def test_a_stop_never_waits_for_the_validation(tmp_path, step, options):
    undisturbed = tmp_path / "undisturbed"
    whole = result(undisturbed, run(undisturbed, 8, interval=100, **options)[0])
    with pytest.raises(Stop):
        run(tmp_path, 8, at=(step, interrupt), interval=100, **options)
    last = tmp_path / "checkpoints" / "last.ckpt"
    assert read_training_file(last)["global_step"] == step
    module, _ = run(tmp_path, 8, interval=100, resume=last, **options)
    assert result(tmp_path, module) == whole


def test_a_run_goes_on_with_more_processes(tmp_path):
    """6 of 8 batches into the epoch, with streams of 4 batches each: it ends, and on time."""
    with pytest.raises(Crash):
        run(tmp_path, at=(7, crash), interval=6)
    last = tmp_path / "checkpoints" / "last.ckpt"
    module, _ = run(tmp_path, resume=last, interval=6, world_size=2)
    assert module.trainer.global_step == STEPS


@pytest.mark.parametrize(("steps", "interval"), [(10, 4), (8, 4), (8, 5)])
def test_a_longer_run_goes_on_from_a_finished_one(whole, tmp_path, steps, interval):
    """With a constant learning rate, 10 + 4 steps are 14 steps, wherever an epoch of 8 is left."""
    run(tmp_path, steps, interval=interval)
    last = tmp_path / "checkpoints" / "last.ckpt"
    module, _ = run(tmp_path, interval=interval, resume=last)
    found = result(tmp_path, module)
    differing = {key for key in found if found[key] != whole[interval][key]}
    assert differing <= {"csv"}  # where the shorter run's last validation has a row


@pytest.mark.parametrize("interval", [3, 100])
def test_losses_keep_their_steps_when_validations_are_moved(tmp_path, interval):
    run(tmp_path / "whole", interval=4)
    with pytest.raises(Crash):
        run(tmp_path / "parts", at=(9, crash), interval=4)
    last = tmp_path / "parts" / "checkpoints" / "last.ckpt"
    run(tmp_path / "parts", interval=interval, resume=last)
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")


def test_epochs_of_few_batches_are_validated_at_their_end(tmp_path):
    assert run(tmp_path, -1, max_epochs=2, interval=500)[1].best_step == 16


@pytest.mark.slow
def test_a_new_folder_takes_last_and_best_with_it(whole, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    with pytest.raises(Stop):
        run(old, at=(10, lambda: signal.raise_signal(signal.SIGINT)))
    before = {path.name: path.read_bytes() for path in (old / "checkpoints").iterdir()}
    with pytest.raises(Crash):
        run(new, resume=old / "checkpoints" / "last.ckpt", at=(11, crash))
    names = ("best.ckpt", "best.safetensors", "last.ckpt", "last.safetensors")
    assert {p.name for p in (new / "checkpoints").iterdir()} == set(names)
    assert read_training_file(new / "checkpoints" / "best.ckpt")["global_step"] in (4, 8)
    module, _ = run(new, resume=new / "checkpoints" / "last.ckpt")
    found = result(new, module)
    assert {k for k in found if found[k] != whole[4][k]} == set()
    assert {p.name: p.read_bytes() for p in (old / "checkpoints").iterdir()} == before


@pytest.mark.slow
def test_killed_between_last_and_best_the_copy_is_made_up_for(whole, tmp_path):
    with pytest.raises(Crash):
        run(tmp_path, at=(13, crash))
    folder = tmp_path / "checkpoints"
    state = read_training_file(folder / "last.ckpt")
    assert state["callbacks"]["RunCheckpoints"]["best_step"] == 12  # else choose another STEPS
    (folder / "best.ckpt").write_bytes(b"cut short")
    (folder / "best.safetensors").unlink()
    module, _ = run(tmp_path, resume=folder / "last.ckpt")
    assert result(tmp_path, module) == whole[4]


def test_killed_between_the_last_two_files_both_are_made_up_for(tmp_path):
    """At the last step, after which nothing is trained that would write them again."""
    run(tmp_path, 6, interval=100)
    folder = tmp_path / "checkpoints"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(before) == 4
    for name in ("best.ckpt", "best.safetensors"):
        (folder / name).unlink()
    (folder / "last.safetensors").write_bytes(b"of an earlier step")
    run(tmp_path, 6, interval=100, resume=folder / "last.ckpt")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_signal_in_the_last_save_lets_it_finish(tmp_path, monkeypatch):
    save, steps = torch.save, []

    def interrupted(state, path):
        steps.append(state["global_step"])
        if steps[-1] == 6:
            interrupt()
        save(state, path)

    monkeypatch.setattr(torch, "save", interrupted)
    with pytest.raises(Stop) as stop:
        run(tmp_path, 6)
    assert steps == [4, 4, 6]  # before and after a validation
    assert read_training_file(stop.value.checkpoint)["global_step"] == 6


def test_a_best_checkpoint_that_is_gone_is_sought_anew(tmp_path, caplog):
    with pytest.raises(Crash):
        run(tmp_path, at=(7, crash))
    last = tmp_path / "checkpoints" / "last.ckpt"
    state = read_training_file(last)
    state["callbacks"]["RunCheckpoints"] = {"best_score": 0.0, "best_step": 2}
    torch.save(state, last)
    _, kept = run(tmp_path, resume=last)
    assert "step 2, is not in the folder" in caplog.text
    assert kept.best_step in (8, 12, STEPS)


def test_an_earlier_run_in_the_folder_leaves_no_best_behind(tmp_path):
    run(tmp_path, 4)
    folder = tmp_path / "checkpoints"
    (folder / ".last.123.unfinished.ckpt").write_bytes(b"of a killed run")
    with pytest.raises(Stop):
        run(tmp_path, at=(2, interrupt))
    assert sorted(p.name for p in folder.iterdir()) == ["last.ckpt", "last.safetensors"]


def test_a_write_that_is_cut_short_leaves_the_former_file(tmp_path, monkeypatch):
    run(tmp_path, 8)
    last = tmp_path / "checkpoints" / "last.ckpt"
    before, save = last.read_bytes(), torch.save

    def half(state, path):
        save(state, path)
        content = Path(path).read_bytes()
        Path(path).write_bytes(content[: len(content) // 2])
        raise Crash

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(Crash):
        run(tmp_path, 12, resume=last)
    assert last.read_bytes() == before
    assert not list(last.parent.glob(".*"))


@pytest.mark.slow
def test_rows_of_another_run_in_the_folder_go(tmp_path):
    """The table is that of the resumed run, whatever the folder held."""
    former, folder = tmp_path / "former", tmp_path / "folder"
    with pytest.raises(Crash):
        run(former, at=(6, crash))
    run(folder, 10)
    stray = tmp_path / "stray.ckpt"
    stray.write_bytes((former / "checkpoints" / "last.ckpt").read_bytes())
    table = folder / "logs" / "metrics.csv"
    for path, steps in ((former / "checkpoints" / "last.ckpt", {2, 3}), (stray, set())):
        run(folder, 6, resume=path)
        header, *rows = [line.split(",") for line in table.read_text().splitlines()]
        assert {int(row[header.index("step")]) for row in rows} == {*steps, 5}


def test_metrics_rows_are_kept_up_to_the_step_and_never_doubled(tmp_path):
    with pytest.raises(Crash):
        run(tmp_path, at=(11, crash))
    path = tmp_path / "logs" / "metrics.csv"
    with path.open("a") as file:
        file.write("0,1")  # a line that the end cut short
    run(tmp_path, resume=tmp_path / "checkpoints" / "last.ckpt")
    header, *rows = [line.split(",") for line in path.read_text().splitlines()]
    steps = [int(row[header.index("step")]) for row in rows]
    validations = [s for s, row in zip(steps, rows, strict=True) if row[header.index("val/nelbo")]]
    assert all(a <= b for a, b in pairwise(steps))
    assert validations == [3, 7, 11, 13]
    run(tmp_path, 4)  # a new run starts a new table
    assert len(path.read_text().splitlines()) < len(rows)
