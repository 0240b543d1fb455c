"""``discrete-diffusion evaluate`` from a script, and its table for the documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discrete_diffusion.cli import compose
from discrete_diffusion.cli.evaluate import run
from discrete_diffusion.metrics import DISTANCES, METRIC_MEANINGS


def evaluate(folder: Path, *overrides: str) -> dict[str, Any]:
    """Evaluate into ``folder``; returns what its ``metrics.json`` holds, less machine paths."""
    run(compose("evaluate", [*overrides, f"out={folder}"]))
    metrics = json.loads((folder / "metrics.json").read_text())
    return {name: value for name, value in metrics.items() if name != "checkpoint"}


def table(metrics: Mapping[str, Any], aims: Mapping[str, str] | None = None) -> str:
    """A row per metric beside its floor or, for properties of a set, what real data scores."""
    seeds = len(metrics["seeds"])
    head = (
        f"| | samples (95 % interval over {seeds} seeds) | real data, or floor | ratio to floor |"
    )
    lines = [head + (" aim |" if aims else ""), "|---|---:|---:|---:|" + ("---|" if aims else "")]
    for name, (low, high) in metrics["intervals"].items():
        if name not in METRIC_MEANINGS or name.endswith(("_unweighted", "_reference")):
            continue
        real = metrics["real"].get(name) if name != "novelty" else None  # 1 by the way of splitting
        ratio = f"{metrics[name] / real:.1f}" if name in DISTANCES and real else ""
        shown = "" if real is None else f"{real:.4g}"
        cells = [f"{metrics[name]:.4g} ({low:.4g} to {high:.4g})", shown, ratio]
        if aims:
            cells.append(aims.get(name, ""))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def by_size_table(metrics: Mapping[str, Any]) -> str:
    """The held-out bound by size, smallest samples first."""
    found = metrics["nelbo_by_size"]
    lines = [
        f"| {found['unit']} | held-out NELBO, nats | samples | nats per token |",
        "|---:|---:|---:|---:|",
    ]
    columns = ("size", "num_samples", "nelbo", "standard_error", "nelbo_per_token")
    for size, num, nelbo, error, per_token in zip(*(found[c] for c in columns), strict=True):
        shown = f"{nelbo:.2f}" + ("" if error is None else f" ± {error:.2f}")
        lines.append(f"| {size} | {shown} | {num:,} | {per_token:.3f} |")
    return "\n".join(lines)
