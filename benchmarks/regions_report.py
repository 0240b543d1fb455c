"""What ``regions.py`` found, as sentences and tables of ``docs/results_other_data.md``."""

from __future__ import annotations

import statistics
from typing import Any

from record import Record, Sections

MEASURED = ("per_motif_r", "per_motif_r2", "masked_mse", "flat_r")
BASELINES = ("column_mean", "neighbour_mean", "window_mean", "oracle")
MEASURED_ATAC, CONSTANT_ATAC = "accessibility measured", "accessibility 1 everywhere"


def sections(record: Record) -> Sections:
    """The recipe, the variants and what the flat correlation hides."""
    results = record.results
    return {
        ("results_other_data.md", "regions facts"): _facts(results, record.hardware),
        ("results_other_data.md", "regions"): _table_of_arms(results, "arms"),
        ("results_other_data.md", "regions early"): _table_of_arms(results, "early"),
        ("results_other_data.md", "regions flat"): _table_of_flat(results),
    }


def difference(runs: list[dict[str, Any]], others: list[dict[str, Any]], key: str) -> str:
    """Mean of ``runs`` less ``others`` over the seeds that both have, with its standard error."""
    base = {run["seed"]: run["test"][key] for run in others}
    less = [run["test"][key] - base[run["seed"]] for run in runs if run["seed"] in base]
    error = statistics.stdev(less) / len(less) ** 0.5 if len(less) > 1 else float("nan")
    return f"{statistics.fmean(less):+.4f} ± {error:.4f}"


def _facts(results: dict[str, Any], hardware: str) -> str:
    runs, known = results["recipe"], results["baselines"][MEASURED_ATAC]
    parts = []
    for key, what in (("per_motif_r", "r"), ("per_motif_r2", "R²")):
        each = ", ".join(f"{run['test'][key]:.3f}" for run in runs)
        parts.append(
            f"per-motif {what} {each} (neighbour mean {known[f'neighbour_mean_{key}']:.3f}, oracle "
            f"{known[f'oracle_{key}']:.3f})"
        )
    cpu, wall = (
        " to ".join(f"{f(run[key] for run in runs):.0f}" for f in (min, max))
        for key in ("cpu_seconds", "seconds")
    )
    return (
        f"{len(runs)} seeds, test split: {'; '.join(parts)}. A run, data and its own evaluation "
        f"included, took {cpu} CPU-seconds on {results['threads']} thread and {wall} seconds of a "
        f"busy machine ({hardware})."
    )


def _table_of_arms(results: dict[str, Any], part: str) -> str:
    """Every variant beside the first, and at the top of the longer ones the baselines."""
    lines = [
        "| | per-motif r (each seed) | R² | masked MSE | less the first: r | R² |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    known = results["baselines"][MEASURED_ATAC]
    for who in BASELINES if part == "arms" else ():
        cells = [_shown(known[f"{who}_{key}"]) for key in MEASURED[:3]]
        lines.append(f"| {who.replace('_', ' ')} | {' | '.join(cells)} | | |")
    first = next(iter(results[part].values()))["runs"]
    for name, arm in results[part].items():
        keys = () if arm["runs"] is first else ("per_motif_r", "per_motif_r2")
        less = [difference(arm["runs"], first, key) for key in keys] or ["", ""]
        lines.append(_row(name, [run["test"] for run in arm["runs"]], less))
        drawn = [run["test_of_drawn"] for run in arm["runs"] if "test_of_drawn" in run]
        if drawn:
            lines.append(_row(f"{name}, mean of {results['draws']} draws", drawn, ["", ""]))
    return "\n".join(lines)


def _row(name: str, found: list[dict[str, float]], less: list[str]) -> str:
    cells = [
        f"{_mean(found, 'per_motif_r')} ({_each(found, 'per_motif_r')})",
        _mean(found, "per_motif_r2"),
        _mean(found, "masked_mse"),
        *less,
    ]
    return f"| {name} | {' | '.join(cells)} |"


def _table_of_flat(results: dict[str, Any]) -> str:
    """The flat correlation beside the one by column, with and without a constant column."""
    lines = ["| | accessibility | flat r | per-motif r |", "|---|---|---:|---:|"]
    arms = {
        MEASURED_ATAC: ("as the recipe",),
        CONSTANT_ATAC: ("published choices", "published recipe"),
    }
    for data, names in arms.items():
        known = results["baselines"][data]
        which = data.removeprefix("accessibility ")
        cells = [_shown(known[f"column_mean_{key}"]) for key in ("flat_r", "per_motif_r")]
        lines.append(f"| column mean | {which} | {' | '.join(cells)} |")
        for name in names:
            found = [run["test"] for run in results["arms"][name]["runs"]]
            cells = [_mean(found, "flat_r"), _mean(found, "per_motif_r")]
            lines.append(f"| {name} | {which} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(found: list[dict[str, float]], key: str) -> str:
    return _shown(statistics.fmean(scores[key] for scores in found))


def _each(found: list[dict[str, float]], key: str) -> str:
    return " / ".join(_shown(scores[key]) for scores in found)


def _shown(value: float) -> str:
    """Three decimals, without a sign of 0."""
    return f"{round(value, 3) + 0.0:.3f}"
