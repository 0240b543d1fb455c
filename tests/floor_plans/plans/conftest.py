"""Every test decides anew; samples of an untrained model."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from discrete_diffusion.cli import main
from floor_plans import read_diagrams


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(folder))
    return folder


@pytest.fixture
def without_or_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """OR-Tools cannot be imported."""
    there = builtins.__import__

    def missing(name: str, *arguments: Any) -> Any:
        if name.startswith("ortools"):
            raise ImportError(name)
        return there(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", missing)


@pytest.fixture
def sampled(
    untrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Any, dict[str, Any]]]:
    """What ``sample`` of an untrained model writes into a folder: diagrams, and its metrics."""
    monkeypatch.chdir(tmp_path)

    def draw(folder: str, *words: str) -> tuple[Any, dict[str, Any]]:
        main(["sample", f"checkpoint={untrained}", f"out={folder}", *words])
        metrics = json.loads((tmp_path / folder / "metrics.json").read_text())
        return read_diagrams(tmp_path / folder / "samples.jsonl"), metrics

    return draw
