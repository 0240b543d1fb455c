"""Runs of ``train`` that a benchmark keeps, so that it can go on, or measure them again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from discrete_diffusion.cli import compose
from discrete_diffusion.cli.train import train
from speed_clock import Stopwatch


def kept_run(folder: Path, words: Sequence[str]) -> Path:
    """The folder itself, trained unless that has been done; what it took is in ``spent.json``."""
    if not (folder / "spent.json").exists():
        watch = Stopwatch(torch.device("cpu"))
        train(compose("train", [*words]), folder)
        spent = watch.stop(1)
        found = {"cpu_seconds": spent.cpu, "seconds": spent.wall}
        (folder / "spent.json").write_text(json.dumps(found))
    return folder


def facts(folder: Path) -> dict[str, Any]:
    """What a kept run was, and took."""
    metrics = json.loads((folder / "metrics.json").read_text())
    spent = json.loads((folder / "spent.json").read_text())
    return {key: metrics[key] for key in ("seed", "steps", "parameters")} | spent
