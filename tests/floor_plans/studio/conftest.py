"""The studio of a model that has hardly been trained."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def studio_run(diagram_run: Path) -> Path:
    return diagram_run


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder that a browser saves into."""
    return tmp_path_factory.mktemp("downloads")
