"""Loggers of services: on this machine alone, with the config, one run of theirs per run."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec

import pytest

from discrete_diffusion.cli import main, train
from discrete_diffusion.runtime.package import install_command
from fake_packages import forget_imports

WANDB = """
import os
import sys
from types import ModuleType

run, RUNS = None, []

class Run:
    def __init__(self, options):
        self.options, self.mode = options, os.environ["WANDB_MODE"]
        self.id, self.name, self.config, self.rows, self.ended = "1", "a", self, [], False

    def update(self, params, allow_val_change):
        self.params = params

    def define_metric(self, *names, **options):
        pass

    def log(self, metrics):
        self.rows.append(metrics)

    def finish(self):
        global run
        run, self.ended = None, True

def init(**options):
    global run
    run = Run(options)
    RUNS.append(run)
    return run

for name, member in {"sdk": "", "sdk.lib": "RunDisabled", "wandb_run": "Run"}.items():
    module = sys.modules[f"wandb.{name}"] = ModuleType(f"wandb.{name}")
    setattr(module, member, Run if member == "Run" else type("RunDisabled", (), {}))
"""
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
MLFLOW = """
import sys
from types import ModuleType, SimpleNamespace

RUNS = []

class MlflowClient:
    def __init__(self, uri):
        self.uri, self.params, self.rows, self.ended = uri, {}, [], False

    def get_experiment_by_name(self, name):
        return SimpleNamespace(experiment_id=name, lifecycle_stage="active")

    def create_run(self, experiment_id, tags):
        self.experiment, self.tags = experiment_id, tags
        RUNS.append(self)
        return SimpleNamespace(info=SimpleNamespace(run_id="1"))

    def get_run(self, run_id):
        return True

    def log_batch(self, run_id, params=(), metrics=()):
        self.params |= {each.key: each.value for each in params}
        self.rows += [(each.step, each.key, each.value) for each in metrics]

    def set_terminated(self, run_id, status):
        self.ended = status == "FINISHED"

def set_tracking_uri(uri):
    pass

for name, members in {
    "tracking": {"MlflowClient": MlflowClient},
    "tracking.context": {},
    "entities": {"Param": SimpleNamespace, "Metric": SimpleNamespace},
    "utils": {},
    "utils.mlflow_tags": {"MLFLOW_RUN_NAME": "name"},
}.items():
    module = sys.modules[f"mlflow.{name}"] = ModuleType(f"mlflow.{name}")
    vars(module).update(members)
sys.modules["mlflow.tracking"].context = sys.modules["mlflow.tracking.context"]
"""
SHORT = ["train", "model=bd_tiny", "debug=default", "data.num_plans=100", "eval.num_samples=2"]


@pytest.fixture
def services(tmp_path, monkeypatch):
    """The packages, as far as a run calls them."""
    site = tmp_path / "site"
    site.mkdir()
    for name, code in (("wandb", WANDB), ("trackio", TRACKIO), ("mlflow", MLFLOW)):
        (site / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr("lightning.pytorch.loggers.wandb._WANDB_AVAILABLE", True)
    monkeypatch.setattr("lightning.pytorch.loggers.mlflow._MLFLOW_AVAILABLE", True)
    monkeypatch.setenv("WANDB_MODE", "online")  # as someone's shell may say
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://nowhere.example")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    yield lambda name: sys.modules[name].RUNS
    forget_imports(site)
    for name in [name for name in sys.modules if name.startswith(("wandb.", "mlflow."))]:
        del sys.modules[name]


@pytest.mark.slow
def test_several_at_once_have_config_and_numbers_and_send_nothing(tmp_path, services):
    words = ["logger=[csv,wandb,trackio,mlflow]", "optim=muon", "optim.lr_schedule=wsd"]
    words += ["optim.decay_steps=1", "optim.warmup_steps=0"]
    main([*SHORT, *words, "hydra.run.dir=first"])
    main([*SHORT, *words, "hydra.run.dir=first", "resume=first", "trainer.max_steps=3"])
    assert (tmp_path / "first" / "logs" / "metrics.csv").is_file()
    rows_of = {}
    for name in ("wandb", "trackio", "mlflow"):
        first, resumed = services(name)  # no run is gone on with by mistake
        assert first.ended
        assert resumed.ended
        rows_of[name] = first.rows
        assert (first.tags if name == "mlflow" else first.options)["name"] == "first"
    (wandb, _), (trackio, resumed) = services("wandb"), services("trackio")
    assert wandb.mode == "dryrun"
    assert wandb.options["dir"] == str(tmp_path / "first")
    assert wandb.options["project"] == trackio.project == "discrete-diffusion"
    assert wandb.params["optim"]["decay_steps"] == trackio.options["config"]["optim"]["decay_steps"]
    mlflow = services("mlflow")[0]
    assert mlflow.uri == f"file:{tmp_path / 'first' / 'mlruns'}"
    assert mlflow.experiment == "discrete-diffusion"
    assert mlflow.params["optim/decay_steps"] == str(wandb.params["optim"]["decay_steps"])
    assert os.environ.pop("MLFLOW_ALLOW_FILE_STORE") == "true"
    assert not {"space_id", "server_url"} & set(trackio.options)
    assert "resume" not in trackio.options
    assert resumed.options["resume"] == "allow"
    rows = [{"trainer/global_step": step, **row} for step, row in trackio.rows]
    assert rows == wandb.rows
    assert mlflow.rows == [(step, key, row[key]) for step, row in trackio.rows for key in row]
    assert {"train/loss", "val/nelbo", "lr-MuonAdamW/pg1"} <= {key for row in rows for key in row}


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
