"""Runs of ``train`` that a benchmark keeps, so that it can go on, or measure them again; what
``evaluate`` finds of them, and its tables for the documents."""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from clock import Stopwatch
from discrete_diffusion.cli import compose
from discrete_diffusion.cli.evaluate import run as run_evaluate
from discrete_diffusion.cli.run_folders import reserve_run_folder
from discrete_diffusion.cli.train import TrainRequest, run_training
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.devices import computes_on_gpu
from floor_plans.diagrams.metrics.diagrams import DISTANCES, METRIC_MEANINGS
from record import markdown_table

NETWORKS = ("bd-denoiser-pair", "bd-denoiser")
"""What the recipes on plans are measured with: theirs, and the flat network."""


@contextmanager
def kept_folder(keep: Path | None) -> Iterator[Path]:
    """The folder of what is kept; if there is none, one that is gone afterwards."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = (keep or Path(scratch)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def kept_run(folder: Path, words: Sequence[str]) -> Path:
    """The folder itself, trained unless that has been done; what it took is in ``spent.json``.

    Raises ``ValueError`` if another process trains there, or a run there was interrupted."""
    if not (folder / "spent.json").exists():
        config, watch = compose("train", [*words]), Stopwatch(torch.device("cpu"))
        say = partial(print, file=sys.stderr, flush=True)
        with progress.shown(say), reserve_run_folder(folder, config):
            run_training(TrainRequest(config, folder))
        spent = watch.stop(1)
        found: dict[str, Any] = {"cpu_seconds": spent.cpu, "seconds": spent.wall}
        if computes_on_gpu(config.trainer):
            found["device"] = torch.cuda.get_device_name()
        (folder / "spent.json").write_text(json.dumps(found))
    return folder


def facts(folder: Path) -> dict[str, Any]:
    """What a kept run was, and took."""
    metrics = json.loads((folder / "metrics.json").read_text())
    spent = json.loads((folder / "spent.json").read_text())
    return {key: metrics[key] for key in ("seed", "steps", "parameters")} | spent


def validations(folder: Path, names: Sequence[str]) -> dict[str, list[float]]:
    """What the validations of a kept run said of ``names``, those that there are, and the ``step``
    of each."""
    with (folder / "logs" / "metrics.csv").open() as lines:
        rows = csv.DictReader(lines)
        names = [name for name in names if f"val/{name}" in (rows.fieldnames or ())]
        found: dict[str, list[float]] = {"step": [], **{name: [] for name in names}}
        for row in rows:
            if row["val/nelbo"]:
                found["step"].append(int(row["step"]) + 1)
                for name in names:
                    found[name].append(float(row[f"val/{name}"]))
    return found


def evaluate(folder: Path, *overrides: str) -> dict[str, Any]:
    """Evaluate into ``folder``, unless that is done; what its ``metrics.json`` holds, less machine
    paths."""
    path = folder / "metrics.json"
    if not path.exists():
        run_evaluate(compose("evaluate", [*overrides, f"out={folder}"]))
    metrics = json.loads(path.read_text())
    return {name: value for name, value in metrics.items() if name != "checkpoint"}


def evaluate_run(run: Path, *overrides: str, name: str = "evaluation") -> dict[str, Any]:
    """``evaluate`` of the averaged weights of a run's last step, into its folder ``name``."""
    return evaluate(run / name, f"checkpoint={run / 'checkpoints' / 'last.ckpt'}", *overrides)


def table(models: Mapping[str, Mapping[str, Any]], aims: Mapping[str, str] | None = None) -> str:
    """A row per metric, a column per model, beside the floor or, for properties of a set, what real
    data scores; all models on one reference."""
    first = next(iter(models.values()))
    seeds = len(first["seeds"])
    heads = [cell for name in models for cell in (f"`{name}` (95 % of {seeds} seeds)", "floors")]
    heads = ["", *heads, "real data, or floor", *(["aim"] if aims else [])]
    rows = []
    for name in first["intervals"]:
        if name not in METRIC_MEANINGS or name.endswith(("_unweighted", "_reference")):
            continue
        real = first["real"].get(name) if name != "novelty" else None  # 1 by the way of splitting
        cells = [name]
        for metrics in models.values():
            low, high = metrics["intervals"][name]
            ratio = f"{metrics[name] / real:.1f}" if name in DISTANCES and real else ""
            cells += [f"{metrics[name]:.4g} ({low:.4g} to {high:.4g})", ratio]
        cells.append("" if real is None else f"{real:.4g}")
        rows.append([*cells, aims.get(name, "")] if aims else cells)
    return markdown_table(heads, rows)


def by_size_table(models: Mapping[str, Mapping[str, Any]]) -> str:
    """The held-out bound by size, smallest samples first, a column per model."""
    found = {name: metrics["nelbo_by_size"] for name, metrics in models.items()}
    first = next(iter(found.values()))
    heads = [first["unit"], "samples", *(f"`{name}`, nats" for name in models)]
    rows = []
    for k, (size, num) in enumerate(zip(first["size"], first["num_samples"], strict=True)):
        cells = [str(size), f"{num:,}"]
        for sizes in found.values():
            error = sizes["standard_error"][k]
            cells.append(f"{sizes['nelbo'][k]:.2f}" + (f" ± {error:.2f}" if error else ""))
        rows.append(cells)
    return markdown_table(heads, rows, left=0)
