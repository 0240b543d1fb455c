"""Runs of ``train`` that a benchmark keeps, so that it can go on, or measure them again."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from discrete_diffusion.cli import compose
from discrete_diffusion.cli.output_folder import claimed_run
from discrete_diffusion.cli.train import train
from discrete_diffusion.runtime import progress
from speed_clock import Stopwatch


def kept_run(folder: Path, words: Sequence[str]) -> Path:
    """The folder itself, trained unless that has been done; what it took is in ``spent.json``.

    Raises ``ValueError`` if another process trains there, or a run there was interrupted."""
    if not (folder / "spent.json").exists():
        config, watch = compose("train", [*words]), Stopwatch(torch.device("cpu"))
        say = partial(print, file=sys.stderr, flush=True)
        with progress.shown(say), claimed_run(folder, config):
            train(config, folder)
        spent = watch.stop(1)
        found = {"cpu_seconds": spent.cpu, "seconds": spent.wall}
        (folder / "spent.json").write_text(json.dumps(found))
    return folder


def facts(folder: Path) -> dict[str, Any]:
    """What a kept run was, and took."""
    metrics = json.loads((folder / "metrics.json").read_text())
    spent = json.loads((folder / "spent.json").read_text())
    return {key: metrics[key] for key in ("seed", "steps", "parameters")} | spent


def validations(folder: Path, names: Sequence[str]) -> dict[str, list[float]]:
    """What the validations of a kept run said of ``names``, and the ``step`` of each."""
    found: dict[str, list[float]] = {"step": [], **{name: [] for name in names}}
    with (folder / "logs" / "metrics.csv").open() as lines:
        for row in csv.DictReader(lines):
            if row["val/nelbo"]:
                found["step"].append(int(row["step"]) + 1)
                for name in names:
                    found[name].append(float(row[f"val/{name}"]))
    return found
