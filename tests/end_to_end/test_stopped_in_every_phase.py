"""``train`` stopped by a signal in each of its phases, resumed, and compared with a whole run."""

from __future__ import annotations

import json
import signal
from importlib import import_module
from pathlib import Path

import pytest
import torch

from discrete_diffusion.checkpoints.files import read_training_file
from discrete_diffusion.cli import main
from discrete_diffusion.training import DiffusionModule
from floor_plans.learning.report import DiagramReport
from interrupting import stopped

pytestmark = pytest.mark.slow

ARGUMENTS = [
    *("train", "model=bd_tiny", "data.num_plans=200", "data.batch_size=16", "threads=1"),
    *("trainer.max_steps=7", "trainer.val_check_interval=3", "trainer.log_every_n_steps=1"),
    *("callbacks.num_samples=4", "eval.num_samples=4", "eval.noise_samples=1", "optim.lr=0.003"),
]

PHASES = {
    "data": ("discrete_diffusion.training.run.build_data", 1, None),
    "first batch": ((DiffusionModule, "training_step"), 1, 1),
    "training": ((DiffusionModule, "training_step"), 5, 5),
    "bound of a validation": ((DiffusionModule, "validation_step"), 3, 3),
    "its samples": ((DiagramReport, "sample"), 3, 6),
    "its pictures": ((DiagramReport, "plot"), 1, 3),
    "samples of the last validation": ((DiagramReport, "sample"), 4, 7),
    "pictures of the last validation": ((DiagramReport, "plot"), 3, 7),
    "final bound": ("discrete_diffusion.training.run.estimate_bound", 1, 7),
    "final samples": ((DiagramReport, "sample"), 5, 7),
    "final files": ((DiagramReport, "save"), 1, 7),
}
"""Function of a phase, the call of it in which the signal comes, and the step that is then saved;
``sample`` is called by the check before training, and by three validations."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    main([*ARGUMENTS, f"hydra.run.dir={folder}"])
    return folder


def numbers(folder: Path) -> dict:
    return json.loads((folder / "metrics.json").read_text())


def raise_in_call(patch: pytest.MonkeyPatch, target, call: int, number: int) -> None:
    """Raise a signal when ``target`` is called for the ``call``-th time."""
    calls = []
    owner, name = target if isinstance(target, tuple) else target.rsplit(".", 1)
    if isinstance(owner, str):
        owner = import_module(owner)
    function = getattr(owner, name)

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == call:
            signal.raise_signal(number)
        return function(*arguments, **options)

    patch.setattr(owner, name, interrupted)


@pytest.mark.parametrize("phase", PHASES)
def test_a_run_stopped_there_ends_as_one_that_was_not(whole, tmp_path, capsys, monkeypatch, phase):
    numbered = list(PHASES).index(phase)
    number = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGUSR2)[numbered % 4]
    target, call, saved = PHASES[phase]
    run = f"hydra.run.dir={tmp_path / 'run'}"
    with monkeypatch.context() as patch:
        raise_in_call(patch, target, call, number)
        said = stopped(capsys, *ARGUMENTS, run, status=128 + number)
    last = tmp_path / "run" / "checkpoints" / "last.ckpt"
    assert f"stopped by {number.name}" in said
    assert not (tmp_path / "run" / "metrics.json").exists()
    if saved is None:
        assert "nothing was saved yet" in said
        assert not last.exists()
    else:
        assert f"resume={last}" in said
        assert read_training_file(last)["global_step"] == saved
    main([*ARGUMENTS, run, *([f"resume={last}"] if last.exists() else [])])
    found, expected = (
        read_training_file(folder / "checkpoints" / "last.ckpt")
        for folder in (tmp_path / "run", whole)
    )
    for key in ("state_dict", "current_model_state"):
        assert all(torch.equal(x, expected[key][name]) for name, x in found[key].items())
    assert found["callbacks"] == expected["callbacks"]
    assert numbers(tmp_path / "run") == numbers(whole)
    for file in ("samples.jsonl", "logs/metrics.csv"):
        assert (tmp_path / "run" / file).read_bytes() == (whole / file).read_bytes()
    pictures = {path.name for path in (whole / "pictures").iterdir()}
    assert {path.name for path in (tmp_path / "run" / "pictures").iterdir()} == pictures
