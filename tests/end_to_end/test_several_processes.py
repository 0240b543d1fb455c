"""Two processes train as one does that accumulates two batches; real processes, on the CPU."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from discrete_diffusion.checkpoints.files import read_training_file
from discrete_diffusion.cli import main

ARGUMENTS = [
    *("model=bd_tiny", "model.dropout=0.1", "data.num_plans=150", "data.batch_size=16"),
    *("trainer.accelerator=cpu", "threads=1", "seed=3", "trainer.log_every_n_steps=1"),
    *("callbacks.num_samples=2", "eval.num_samples=20", "eval.noise_samples=1"),
]
"""Seven full training batches, of which an epoch of whole steps has six; one validation batch."""
VARIABLES = ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_PORT", "OMP_NUM_THREADS")
PAIR = ["algo.backbone=bd-denoiser-pair", "model=bd_pair_tiny"]
TWO = ["trainer.strategy=ddp", "trainer.devices=2"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path / "cache"))


def curve(folder: Path) -> dict[tuple[int, str], float]:
    """(step, name) -> value of the losses and bounds of a run."""
    with (folder / "logs" / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = ("train/loss", "val/nelbo", "val/nelbo_standard_error")
    return {
        (int(row["step"]), name): float(row[name])
        for row in rows
        for name in names
        if row.get(name)
    }


@pytest.mark.parametrize("network", [[], pytest.param(PAIR, marks=pytest.mark.slow)])
def test_two_processes_have_the_loss_curve_and_the_weights_of_one(tmp_path, capfd, network):
    before = {name: os.environ.get(name) for name in VARIABLES}
    steps = [*network, "trainer.max_steps=5", "optim.lr_schedule=constant"]
    main(["train", *ARGUMENTS, *steps, *TWO, "trainer.val_check_interval=3", "hydra.run.dir=two"])
    said = capfd.readouterr()
    twin = ["trainer.accumulate_grad_batches=2", "trainer.val_check_interval=6"]
    main(["train", *ARGUMENTS, *steps, *twin, "hydra.run.dir=one"])

    two, one = curve(tmp_path / "two"), curve(tmp_path / "one")
    assert set(two) == set(one)
    assert {step for step, name in two if name == "train/loss"} == set(range(5))
    assert two == pytest.approx(one, rel=1e-5)
    for name in ("last", "best"):
        states = [
            read_training_file(tmp_path / run / "checkpoints" / f"{name}.ckpt")
            for run in ("two", "one")
        ]
        for key in ("state_dict", "current_model_state"):
            torch.testing.assert_close(states[0][key], states[1][key], rtol=1e-4, atol=1e-6)
    two_metrics, one_metrics = (
        json.loads((tmp_path / run / "metrics.json").read_text()) for run in ("two", "one")
    )
    bounds = [name for name in one_metrics if name.startswith("nelbo_")]
    assert len(bounds) >= 5
    numbers = [name for name in bounds if isinstance(one_metrics[name], float)]
    assert [two_metrics[n] for n in numbers] == pytest.approx(
        [one_metrics[n] for n in numbers], rel=1e-5
    )

    assert said.out.count("run folder: ") == 1  # one voice
    assert said.out.count("2 processes of 16 samples: 32 samples a step") == 1
    assert said.err == ""
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two", "cache"}
    assert {path.name for path in (tmp_path / "two").iterdir()} == {
        path.name for path in (tmp_path / "one").iterdir()
    }
    assert {name: os.environ.get(name) for name in VARIABLES} == before
    assert not torch.distributed.is_initialized()


SPOILER = """
from dataclasses import replace

from lightning.pytorch import Callback


class Spoils(Callback):
    def on_fit_start(self, trainer, module):
        loss = module.algorithm.loss

        def spoilt(*arguments):
            output = loss(*arguments)
            here = module.training and trainer.global_rank == 1 and trainer.global_step == 1
            return replace(output, loss=output.loss + float("inf")) if here else output

        module.algorithm.loss = spoilt
"""


@pytest.mark.slow
def test_a_loss_that_fails_in_one_process_skips_the_step_in_all(tmp_path, monkeypatch):
    """Its gradient is finite, so the other process knows of it only what is made known."""
    (tmp_path / "spoiling.py").write_text(SPOILER)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(str(tmp_path))
    spoils = "+callbacks.extra.spoils={_target_: spoiling.Spoils}"
    main(["train", *ARGUMENTS, *TWO, spoils, "trainer.max_steps=3", "hydra.run.dir=run"])
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["skipped_steps"] == 1
    state = read_training_file(tmp_path / "run" / "checkpoints" / "last.ckpt")
    assert all(x.isfinite().all() for x in state["current_model_state"].values())
    moments = state["optimizer_states"][0]["state"].values()
    assert {int(one["step"]) for one in moments} == {2}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "discrete_diffusion", "train", *ARGUMENTS, *arguments]


def others_of(number: int) -> list[str]:
    """Process ids in the group of a process that was started in a session of its own."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,pgid=,stat="], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in listed.stdout.splitlines()]
    return [row[0] for row in rows if row[1] == str(number) and not row[2].startswith("Z")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "send"), [(signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill)]
)
def test_a_signal_ends_all_with_a_run_to_go_on_with(tmp_path, number, send):
    """Ctrl-C, which a terminal sends to every process, and SIGTERM to the first one."""
    endless = ["trainer.max_steps=4000", "trainer.val_check_interval=2", "hydra.run.dir=run"]
    process = subprocess.Popen(
        command(*TWO, *endless),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    last = tmp_path / "run" / "checkpoints" / "last.ckpt"
    while not last.exists():
        assert process.poll() is None
        time.sleep(0.05)
    send(process.pid, number)
    _, said = process.communicate()
    assert process.returncode == 128 + number
    assert said.count("stopped by ") == 1
    assert f"to go on, add resume={last} hydra.run.dir={tmp_path / 'run'}" in said
    assert others_of(process.pid) == []
    step = read_training_file(last)["global_step"]
    more = [f"trainer.max_steps={step + 2}", "trainer.val_check_interval=2"]
    cut = ["optim.lr_schedule=cosine", f"resume={last}", "hydra.run.dir=one"]
    subprocess.run(command(*more, *cut), check=True, capture_output=True)  # with one process
    assert json.loads((tmp_path / "one" / "metrics.json").read_text())["steps"] == step + 2


CALLBACK = """
from lightning.pytorch import Callback


class Fails(Callback):
    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if trainer.global_rank == 1 and trainer.global_step == 1:
            raise ValueError("this callback is broken")
"""


@pytest.mark.slow
def test_an_error_in_one_process_is_said_once_and_ends_all(tmp_path, monkeypatch):
    (tmp_path / "failing.py").write_text(CALLBACK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    broken = "+callbacks.extra.broken={_target_: failing.Fails}"
    process = subprocess.Popen(
        command(*TWO, broken, "hydra.run.dir=run"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _, said = process.communicate(timeout=120)
    assert process.returncode != 0
    assert said.count("discrete-diffusion: process 1: this callback is broken\n") == 1
    assert others_of(process.pid) == []


@pytest.mark.slow
def test_the_processes_of_torchrun_share_a_folder(tmp_path):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "-m"]
    short = ["trainer.max_steps=2", "callbacks.num_samples=0"]
    done = subprocess.run(
        [*launcher, "discrete_diffusion", "train", *ARGUMENTS, *short],
        capture_output=True,
        text=True,
        check=True,
    )
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "metrics.json").exists()
    assert done.stdout.count("run folder: ") == 1
