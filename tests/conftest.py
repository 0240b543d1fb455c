"""What every test shares: one CPU thread, reproducible property tests, optional real data."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
from hypothesis import settings

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
