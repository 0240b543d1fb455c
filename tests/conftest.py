"""What every test shares: one CPU thread, reproducible property tests, configs composed once,
optional real data, and registries that forget."""

from __future__ import annotations

import copy
import importlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import hydra
import pytest
import torch
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.plugins.config_source import ConfigResult
from hypothesis import settings
from omegaconf import DictConfig

from discrete_diffusion import (
    algorithms,
    domains,
    forward_process,
    noise_schedules,
    sampling,
)
from discrete_diffusion.cli import compose
from discrete_diffusion.cli.parts import PART_GROUPS
from discrete_diffusion.config import plugins
from discrete_diffusion.config.files import config_dir
from discrete_diffusion.domains.bubble_diagrams.pictures import diagram_pictures
from discrete_diffusion.models import registry
from fake_packages import forget_imports

torch.set_num_threads(1)
diagram_pictures.MAX_DRAWN = 2  # diagrams that each command draws: a picture of 36 takes a second
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell's job starts us

settings.register_profile(
    "project", deadline=None, max_examples=60, derandomize=True, database=None
)
settings.load_profile("project")

_load_anew = ConfigRepository.load_config
_LOADED: dict[str, ConfigResult] = {}


def _is_ours(repository: ConfigRepository) -> bool:
    return [source.path for source in repository.get_sources()] == [
        "hydra.conf",
        str(config_dir()),
        "",
    ]


def _load(self: ConfigRepository, config_path: str) -> ConfigResult | None:
    """Hydra reads two dozen files per config: ours once, and a copy of the result."""
    if config_path not in _LOADED or not _is_ours(self):
        found = _load_anew(self, config_path)
        if found is None or found.is_schema_source or not _is_ours(self):
            return found
        _LOADED[config_path] = found
    return copy.deepcopy(_LOADED[config_path])


ConfigRepository.load_config = _load  # type: ignore[method-assign]

_compose_anew = hydra.compose
_COMPOSED: dict[tuple[str, ...], DictConfig] = {}


def _compose(config_name: str, overrides: Sequence[str], **others: Any) -> DictConfig:
    """``hydra.compose``, which composes equal words from our configs once; a copy of the result."""
    search_path = GlobalHydra.instance().config_loader().get_search_path().get_path()
    ours = [part.path for part in search_path if part.provider == "main"] == [str(config_dir())]
    if not ours or others or any(word.startswith("hydra.") for word in overrides):
        return _compose_anew(config_name, overrides=[*overrides], **others)
    parts = [ConfigStore.instance().repo.get(group) for group in PART_GROUPS]
    key = (repr(parts), repr(registry.default_models()), config_name, *overrides)
    if key not in _COMPOSED:
        _COMPOSED[key] = _compose_anew(config_name, overrides=[*overrides])
    return copy.deepcopy(_COMPOSED[key])


hydra.compose = _compose

_merge_anew = ConfigLoaderImpl._compose_config_from_defaults_list
_MERGED: dict[str, DictConfig] = {}


def _merge(self: ConfigLoaderImpl, defaults: Any, repo: Any) -> DictConfig:
    """Hydra's merging of files, of equal lists of our own once, before values are put in; a copy of
    the result. A command composes its config three times."""
    if not _is_ours(repo):
        return _merge_anew(self, defaults, repo)
    key = repr([defaults, sorted(ConfigStore.instance().repo.items(), key=lambda item: item[0])])
    if key not in _MERGED:
        _MERGED[key] = _merge_anew(self, defaults, repo)
    return copy.deepcopy(_MERGED[key])


ConfigLoaderImpl._compose_config_from_defaults_list = _merge  # type: ignore[method-assign]

REAL_DATA_VARIABLE = "DISCRETE_DIFFUSION_TEST_DATA"


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
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a small model of diagrams that was never trained, for tests that read it."""
    from checkpoints.made_checkpoints import training_state

    path = tmp_path_factory.mktemp("untrained") / "model.ckpt"
    config = compose("train", ["model=bd_tiny", "model.d_model=16", "model.cond_dim=16"])
    torch.save(training_state(config), path)
    return path


@pytest.fixture
def clean_registry() -> Iterator[None]:
    """Whatever a test registers is gone afterwards."""
    tables: list[Any] = [registry._BACKBONE_BUILDERS, registry._REGISTERED, plugins._LOADED]
    tables += [algorithms._ALGORITHM_BUILDERS, sampling._SAMPLER_BUILDERS]
    tables += [noise_schedules._SCHEDULE_BUILDERS, forward_process._PROCESS_BUILDERS]
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
