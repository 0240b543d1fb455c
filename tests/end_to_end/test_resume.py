"""Real processes of the command, killed at random moments and resumed, end like one left alone."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch

from discrete_diffusion.checkpoints.files import read_training_file
from discrete_diffusion.cli import main

pytestmark = pytest.mark.slow

STEPS, INTERVAL = 160, 7
ARGUMENTS = [
    *("model=bd_tiny", "data.num_plans=400", "data.batch_size=16", "threads=1", "seed=5"),
    *(f"trainer.max_steps={STEPS}", f"trainer.val_check_interval={INTERVAL}"),
    *("trainer.log_every_n_steps=5", "callbacks.num_samples=0", "callbacks.ema_decay=0.99"),
    *("eval.num_samples=20", "eval.noise_samples=1"),
]
"""20 batches an epoch, so that validations fall anywhere in it."""

FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(["discrete_diffusion.training.trainer"])  # imported once, for all


def start(folder: Path) -> multiprocessing.process.BaseProcess:
    """The command in a process of its own, going on from the folder's last checkpoint if any."""
    last = folder / "checkpoints" / "last.ckpt"
    resume = [f"resume={last}"] if last.exists() else []
    process = FORK.Process(target=main, args=(["train", *ARGUMENTS, *resume, *run_in(folder)],))
    process.start()
    return process


def run_in(folder: Path) -> list[str]:
    return [f"hydra.run.dir={folder}"]


def finish(folder: Path) -> None:
    process = start(folder)
    process.join()
    assert process.exitcode == 0


def send_when_under_way(folder: Path, number: int, delay: float) -> int | None:
    """Start, wait for a checkpoint written by this process, then ``delay``, then send a signal.

    Returns the exit status; None if the run was over before."""
    last = folder / "checkpoints" / "last.ckpt"
    before = last.stat().st_mtime_ns if last.exists() else None
    process = start(folder)
    while process.is_alive() and (not last.exists() or last.stat().st_mtime_ns == before):
        time.sleep(0.002)
    time.sleep(delay)
    if not process.is_alive() or process.pid is None:
        return None
    os.kill(process.pid, number)
    process.join()
    return process.exitcode


def result(folder: Path) -> dict:
    """All that a run left behind, comparable with ==; less the paths that name its folder."""
    out = {
        "metrics": json.loads((folder / "metrics.json").read_text()),
        "samples": (folder / "samples.jsonl").read_text(),
        "log": (folder / "logs" / "metrics.csv").read_text(),
    }
    for name in ("last", "best"):
        state = read_training_file(folder / "checkpoints" / f"{name}.ckpt")
        for key in ("state_dict", "current_model_state", "averaging_state"):
            out[f"{name} {key}"] = {k: v.tolist() for k, v in state[key].items()}
        moments = state["optimizer_states"][0]["state"]
        out[f"{name} optimiser"] = {
            i: {k: v.tolist() for k, v in m.items()} for i, m in moments.items()
        }
        out[f"{name} step"] = state["global_step"]
        out[f"{name} choice"] = state["callbacks"]
        out[f"{name} stream"] = state["loops"]["fit_loop"]["state_dict"]
    return out


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Plans are generated once for all processes."""
    folder = tmp_path_factory.mktemp("cache")
    former = os.environ.get("DISCRETE_DIFFUSION_CACHE")
    os.environ["DISCRETE_DIFFUSION_CACHE"] = str(folder)
    yield folder
    if former is None:
        del os.environ["DISCRETE_DIFFUSION_CACHE"]
    else:
        os.environ["DISCRETE_DIFFUSION_CACHE"] = former


@pytest.fixture(scope="module")
def whole(cache, tmp_path_factory):
    """The run that nobody disturbs."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    finish(folder)
    return result(folder)


def test_killed_at_ten_random_moments_and_resumed_nothing_differs(whole, tmp_path):
    chance, kills, folders = random.Random(0), 0, [tmp_path / "run0"]
    while kills < 10:
        status = send_when_under_way(folders[-1], signal.SIGKILL, chance.uniform(0, 0.8))
        if status is None:  # the chain came to the end of the run: begin another one
            folders.append(tmp_path / f"run{len(folders)}")
        else:
            assert status == -signal.SIGKILL
            kills += 1
    for folder in folders:
        if not (folder / "metrics.json").exists():
            finish(folder)
        found = result(folder)
        assert {key for key in whole if found[key] != whole[key]} == set()


def test_the_pair_denoiser_goes_on_to_the_same_end(tmp_path, monkeypatch):
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path / "cache"))
    pair = ["train", *ARGUMENTS, "algo.backbone=bd-denoiser-pair", "model=bd_pair_tiny"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    pair += ["optim.lr_schedule=constant", "trainer.val_check_interval=4", "eval.num_samples=0"]
    main([*pair, "trainer.max_steps=8", *run_in(whole)])
    main([*pair, "trainer.max_steps=4", *run_in(parts)])
    last = parts / "checkpoints" / "last.ckpt"
    main([*pair, "trainer.max_steps=8", f"resume={last}", *run_in(parts)])
    one, other = (read_training_file(f / "checkpoints" / "last.ckpt") for f in (whole, parts))
    assert one["global_step"] == other["global_step"] == 8
    for key in ("state_dict", "current_model_state"):
        assert all(torch.equal(x, other[key][name]) for name, x in one[key].items())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_and_resumed_nothing_differs(whole, tmp_path, number):
    folder = tmp_path / "run"
    assert send_when_under_way(folder, number, 0.1) == 128 + number
    saved = read_training_file(folder / "checkpoints" / "last.ckpt")["global_step"]
    assert 0 < saved < STEPS
    assert not (folder / "metrics.json").exists()
    finish(folder)
    found = result(folder)
    assert {key for key in whole if found[key] != whole[key]} == set()
