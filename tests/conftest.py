"""What every test shares: one CPU thread, reproducible property tests, configs composed once,
optional real data, and registries that forget."""

from __future__ import annotations

import gc
import hashlib
import importlib.util
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from hydra.core.config_store import ConfigStore
from hypothesis import settings
from matplotlib.layout_engine import ConstrainedLayoutEngine
from omegaconf import DictConfig, OmegaConf
from torch import nn

from discrete_diffusion.algorithms import registry as algorithms
from discrete_diffusion.cli import compose, main
from discrete_diffusion.composing.parts import PART_GROUPS, registry_of
from discrete_diffusion.config import plugins
from discrete_diffusion.config.files import shipped_files
from discrete_diffusion.domains import registry as domains
from discrete_diffusion.forward_process import registry as forward_process
from discrete_diffusion.models import registry
from discrete_diffusion.noise_schedules import registry as noise_schedules
from discrete_diffusion.sampling import registry as sampling
from discrete_diffusion.viz import chart_style
from fake_packages import forget_imports
from kept_configs import keep_configs

torch.set_num_threads(1)
if importlib.util.find_spec("floor_plans"):  # diagrams that each command draws: 36 take a second
    importlib.import_module("floor_plans.diagrams.pictures.diagram_pictures").MAX_DRAWN = 1
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell's job starts us

settings.register_profile(
    "project", deadline=None, max_examples=60, derandomize=True, database=None
)
settings.load_profile("project")
keep_configs()
for group in PART_GROUPS:  # what installed packages bring is there before any test
    registry_of(group).names()
registry.available_backbones()
domains.available_domains()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests may take longer before they count as hanging."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(900))


def pytest_collection_finish() -> None:
    """All that was imported and collected stays: the garbage collector need not walk it again."""
    gc.collect()
    gc.freeze()


REAL_DATA_VARIABLE = "DISCRETE_DIFFUSION_TEST_DATA"


@pytest.fixture(autouse=True)
def _coarse_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What commands draw is written as ever, but coarse and without room made for its labels, which
    is half the time of a command. Tests of pictures, and runs that tests share, draw in full."""
    if any(word in request.node.nodeid for word in ("/cli/", "/end_to_end/", "command", "brief")):
        monkeypatch.setattr(chart_style, "DPI", 30)
        monkeypatch.setattr(ConstrainedLayoutEngine, "execute", lambda self, figure: None)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real plans (rplan_render_999/plans.jsonl), which the project does not ship."""
    folder = os.environ.get(REAL_DATA_VARIABLE)
    if not folder:
        pytest.skip(f"{REAL_DATA_VARIABLE} is not set; it names the folder of real plans")
    path = Path(folder)
    if not (path / "rplan_render_999" / "plans.jsonl").is_file():
        pytest.skip(f"{REAL_DATA_VARIABLE}={folder} holds no rplan_render_999/plans.jsonl")
    return path


@pytest.fixture(scope="session")
def reference_folder() -> Path:
    """The folder ``reference`` beside that of real data: outputs of other code."""
    folder = os.environ.get(REAL_DATA_VARIABLE)
    if not folder:
        pytest.skip(f"{REAL_DATA_VARIABLE} is not set; reference/ lies beside what it names")
    return Path(folder).parent / "reference"


@pytest.fixture(scope="session")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a small model of diagrams that was never trained, for tests that read it."""
    from made_checkpoints import training_state

    path = tmp_path_factory.mktemp("untrained") / "model.ckpt"
    config = compose("train", ["model=bd_tiny", "model.d_model=16", "model.cond_dim=16"])
    torch.save(training_state(config), path)
    return path


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The folder of a run of ``train`` with the given words, which all tests and all workers of a
    session share: one trains it and the others wait. A test that writes into it copies it first."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def train(*words: str) -> Path:
        run = shared / f"trained-{hashlib.sha256(repr(words).encode()).hexdigest()[:12]}" / "run"
        run.parent.mkdir(exist_ok=True)
        with FileLock(run.parent / "lock"):
            if not (run.parent / "done").exists():
                shutil.rmtree(run, ignore_errors=True)
                main(["train", *words, f"hydra.run.dir={run}"])
                (run.parent / "done").touch()
        return run

    return train


@pytest.fixture(scope="session")
def diagram_run(trained_once: Callable[..., Path]) -> Path:
    """A run of a small model of diagrams that has hardly been trained. Not to be written into."""
    words = ["debug=smoke", "data.num_plans=400", "trainer.max_steps=2", "logger=none"]
    return trained_once(*words, "model.d_model=16", "model.cond_dim=16")


@pytest.fixture
def clean_registry() -> Iterator[None]:
    """Whatever a test registers is gone afterwards."""
    tables: list[Any] = [registry._BACKBONE_BUILDERS, registry._REGISTERED, plugins._LOADED]
    tables += [algorithms.ALGORITHMS.builders, sampling.SAMPLERS.builders]
    tables += [noise_schedules.SCHEDULES.builders, forward_process.PROCESSES.builders]
    before = [table.copy() for table in tables]
    kinds, offered = {*domains._DOMAINS}, ConfigStore.instance().repo
    yield
    for group in PART_GROUPS:
        offered.pop(group, None)
    for name in {*domains._DOMAINS} - kinds - {*domains._BUILT_IN}:
        del domains._DOMAINS[name]
    for table, contents in zip(tables, before, strict=True):
        table.clear()
        table.update(contents)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages; what was imported from the test's folder is forgotten
    afterwards, and so are additions to ``sys.path``."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    importlib.invalidate_caches()
    yield folder
    forget_imports(tmp_path)


@pytest.fixture
def randomise() -> Callable[..., nn.Module]:
    """Give every parameter a random non-zero value, large enough that neighbours matter: fresh
    networks start at 0, which any check of invariance passes."""

    def apply(model: nn.Module, seed: int = 0) -> nn.Module:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                noise = torch.empty_like(parameter).normal_(generator=generator)
                if parameter.ndim > 1:
                    parameter.copy_(noise / parameter.shape[-1] ** 0.5)
                else:
                    is_norm = name.endswith("weight")
                    parameter.copy_(is_norm + 0.2 * noise)
        return model.eval()

    return apply


@pytest.fixture
def make_config() -> Callable[..., DictConfig]:
    """A config as the command line composes it, with a preset of ``configs/model``; its data are
    those the preset is counted with, else graphs of 8 nodes."""

    def make(backbone: str, preset: str | None, data: dict | None = None, **algo) -> DictConfig:
        model = OmegaConf.load(shipped_files("model")[preset]) if preset else OmegaConf.create()
        if data is None:
            data = model.get("counted_with", {"max_nodes": 8})
        known = {"max_nodes": "bubble_diagrams", "num_boundary": "eit"}
        domain = next((name for key, name in known.items() if key in data), "text")
        states = {"eit": "eit_quantised" if "length" in data else "eit"}
        data = {"domain": domain, "name": states.get(domain), **data}
        config = {"algo": {"backbone": backbone, **algo}, "model": model}
        return OmegaConf.create({**config, "data": data})

    return make
