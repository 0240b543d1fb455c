"""``discrete-diffusion evaluate`` from a script, and its tables for the documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discrete_diffusion.cli import compose
from discrete_diffusion.cli.evaluate import run
from discrete_diffusion.domains.bubble_diagrams.metrics.diagrams import DISTANCES, METRIC_MEANINGS
from record import markdown_table

NETWORKS = ("bd-denoiser-pair", "bd-denoiser")
"""What the recipes on plans are measured with: theirs, and the flat network."""


def evaluate(folder: Path, *overrides: str) -> dict[str, Any]:
    """Evaluate into ``folder``, unless that is done; what its ``metrics.json`` holds, less machine
    paths."""
    path = folder / "metrics.json"
    if not path.exists():
        run(compose("evaluate", [*overrides, f"out={folder}"]))
    metrics = json.loads(path.read_text())
    return {name: value for name, value in metrics.items() if name != "checkpoint"}


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
