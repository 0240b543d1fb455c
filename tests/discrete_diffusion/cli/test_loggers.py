"""Loggers of services: on this machine alone, with the config, one run of theirs per run."""

from __future__ import annotations

import inspect
import os
import sys
from importlib.machinery import ModuleSpec

import pytest
from hydra.utils import get_class

from discrete_diffusion.checkpoints.start import ResumePoint
from discrete_diffusion.cli import compose, main, train
from discrete_diffusion.runtime.package import install_command
from discrete_diffusion.training.trainer import build_loggers
from fake_packages import forget_imports

TRACKIO = """
RUNS = []

class Run:
    def __init__(self, project, options):
        self.project, self.options, self.rows, self.ended = project, options, [], False

    def log(self, metrics, step):
        self.rows.append((step, metrics))

    def finish(self):
        self.ended = True

def init(project, **options):
    RUNS.append(Run(project, options))
    return RUNS[-1]
"""
SHORT = ["train", "model=bd_tiny", "debug=smoke", "data.num_plans=100", "eval.num_samples=2"]


@pytest.mark.slow
def test_trackio_has_config_and_numbers_and_goes_on_with_a_resumed_run(tmp_path, monkeypatch):
    (site := tmp_path / "site").mkdir()
    (site / "trackio.py").write_text(TRACKIO)
    monkeypatch.syspath_prepend(site)
    words = ["logger=[csv,trackio]", "optim=muon", "optim.lr_schedule=wsd"]
    words += ["optim.decay_steps=1", "optim.warmup_steps=0", "hydra.run.dir=first"]
    try:
        main([*SHORT, *words])
        main([*SHORT, *words, "resume=first", "trainer.max_steps=3"])
        first, resumed = sys.modules["trackio"].RUNS
    finally:
        forget_imports(site)
    assert (tmp_path / "first" / "logs" / "metrics.csv").is_file()
    assert first.ended
    assert resumed.ended
    assert (first.project, first.options["name"]) == ("discrete-diffusion", "first")
    assert first.options["config"]["optim"]["decay_steps"] == 1
    assert not {"space_id", "server_url", "resume"} & set(first.options)
    assert resumed.options["resume"] == "allow"
    keys = {key for _, row in first.rows for key in row}
    assert {"train/loss", "val/nelbo", "lr-MuonAdamW/pg1"} <= keys


def test_services_are_given_name_and_folder_of_the_run_and_send_nothing(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    config = compose("train", ["logger=[wandb,mlflow,tensorboard]"])
    found = {}

    def instantiate(options, **given):
        cls = get_class(options["_target_"])
        found[cls.__name__] = {**options, **given}
        found[cls.__name__].pop("_target_")
        inspect.signature(cls).bind(**found[cls.__name__])

    resumed = ResumePoint(tmp_path / "last.ckpt", 7, {}, {}, None)
    build_loggers(config, tmp_path / "first", instantiate, resumed)
    wandb, mlflow = found["WandbLogger"], found["MLFlowLogger"]
    assert (wandb["save_dir"], wandb["offline"]) == (str(tmp_path / "first"), True)
    assert wandb["project"] == mlflow["experiment_name"] == "discrete-diffusion"
    assert wandb["name"] == mlflow["run_name"] == "first"
    assert (mlflow["save_dir"], mlflow["tracking_uri"]) == (f"{tmp_path}/first/mlruns", None)
    assert os.environ.pop("MLFLOW_ALLOW_FILE_STORE") == "true"
    assert found["TensorBoardLogger"]["purge_step"] == 7


@pytest.mark.parametrize(
    ("name", "command", "spec"),
    [
        ("wandb", "pip install wandb", None),
        ("wandb", "pip install wandb", ModuleSpec("wandb", None)),  # a folder of runs
        ("tensorboard", install_command("tensorboard"), None),
    ],
)
def test_a_missing_package_is_named_with_its_command(failure, monkeypatch, name, command, spec):
    monkeypatch.setattr(train, "find_spec", lambda package: spec)
    error = failure(*SHORT, f"logger=[csv,{name}]", "hydra.run.dir=run")
    assert f"logger={name} takes {name}, which is not installed: {command}" in error
