"""What every test shares: one CPU thread, reproducible property tests, optional real data, and a
registry of backbones that forgets."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from discrete_diffusion.models import registry

torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell's job starts us

settings.register_profile(
    "project", deadline=None, max_examples=60, derandomize=True, database=None
)
settings.load_profile("project")

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


@pytest.fixture
def clean_registry() -> Iterator[None]:
    """Whatever a test registers is gone afterwards."""
    tables = [registry._BACKBONE_BUILDERS, registry._REGISTERED, registry._LOADED_PLUGINS]
    before = [table.copy() for table in tables]
    yield
    for table, contents in zip(tables, before, strict=True):
        table.clear()
        table.update(contents)
