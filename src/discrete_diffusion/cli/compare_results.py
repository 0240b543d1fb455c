"""From trained cells to numbers, and from the numbers of all cells to table, JSON and figure."""

from __future__ import annotations

import csv
import json
import logging
import math
import os
import platform
import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from discrete_diffusion.whole_files import written_whole

if TYPE_CHECKING:
    from discrete_diffusion.cli.compare_cells import Cell
    from discrete_diffusion.cli.compare_folder import CellFolder
    from discrete_diffusion.evaluation.comparison import Comparison
    from discrete_diffusion.evaluation.equal_terms import EqualTerms

logger = logging.getLogger(__name__)

WRITTEN = ("table.md", "table.csv", "results.json", "pareto.png")

_QUALITIES = (
    ("transitive", "transitive share", True),
    ("words_in_training", "share of known words", True),
    ("character_tv", "character TV", False),
)
"""What the figure shows of samples, the first that was measured: (metric, title, up is better)."""


_WIDTH = 220
"""Columns of the printed table at most: more than any row takes."""


def measure_cell(config: DictConfig, folder: CellFolder, terms: EqualTerms) -> dict[str, Any]:
    """What ``cell.json`` holds of a trained cell: its averaged weights of the last step, measured.

    Raises ``ValueError`` if they are not finite.
    """
    import torch

    from discrete_diffusion.checkpoints import read_checkpoint
    from discrete_diffusion.cli.compare_folder import config_digest
    from discrete_diffusion.data import build_data
    from discrete_diffusion.evaluation.equal_terms import held_out_bounds, score_samples_drawn
    from discrete_diffusion.evaluation.json_values import finite
    from discrete_diffusion.sampling import build_sampler

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    checkpoint = read_checkpoint(folder.last, device=device)
    algorithm = checkpoint.algorithm
    if not all(weight.isfinite().all() for weight in algorithm.parameters()):
        raise ValueError("training has diverged: the weights hold NaN or infinity")
    data = build_data(checkpoint.config)
    bounds = held_out_bounds(algorithm, data, terms, device=device)
    drawn = score_samples_drawn(algorithm, build_sampler(config), data, terms, device=device)
    return finite(
        {
            "digest": config_digest(config),
            "data_fingerprint": data.fingerprint(),
            "terms": terms.as_dict(),
            "steps": checkpoint.step,
            "quantity": bounds.quantity,
            "ordering": bounds.ordering,
            "split": bounds.split,
            "rows": bounds.rows.tolist(),
            "bounds": bounds.values.tolist(),
            "metrics": {**drawn, "seconds_training": folder.seconds},
            "statistics": dict(algorithm.statistics()),
            "versions": _versions(),
            "hardware": hardware(),
        }
    )


def write_comparison(
    out: Path,
    cells: Sequence[Cell],
    folders: dict[str, CellFolder],
    terms: EqualTerms,
    *,
    overrides: Sequence[str],
) -> dict[str, Any]:
    """Write ``WRITTEN`` into ``out`` and print the table; returns what ``results.json`` holds."""
    from discrete_diffusion.evaluation.comparison import markdown_table, table_cells, table_notes
    from discrete_diffusion.evaluation.json_values import finite

    found = {cell.name: folders[cell.name].result or {} for cell in cells}
    comparison = _comparison(cells, found)
    first = found[cells[0].name]
    heads, rows = table_cells(comparison)
    notes = table_notes(
        comparison, split=first["split"], draws=terms.bound_draws, num_samples=terms.num_samples
    )
    notes.append(f"{first['hardware']}.")
    results = finite(
        {
            "command": shlex.join(["discrete-diffusion", "compare", *overrides]),
            "seeds": list(comparison.seeds),
            "versions": first["versions"],
            "hardware": sorted({result["hardware"] for result in found.values()}),
            "quantity": comparison.quantity,
            "ordering": first["ordering"],
            "split": first["split"],
            "data_fingerprint": first["data_fingerprint"],
            "terms": terms.as_dict(),
            "models": comparison.rows(),
            "cells": {name: _summary(result) for name, result in found.items()},
            "notes": notes,
        }
    )
    listed = "\n".join(f"* {note}" for note in notes)
    _write(out / "table.md", f"{markdown_table(heads, rows)}\n{listed}\n")
    _write(out / "results.json", json.dumps(results, indent=1, allow_nan=False) + "\n")
    with written_whole(out / "table.csv") as unfinished, unfinished.open("w", newline="") as file:
        names = list(dict.fromkeys(name for row in results["models"] for name in row))
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(results["models"])
    _draw(comparison, out / "pareto.png")
    _print(heads, rows, notes)
    logger.info("%s: %s", ", ".join(WRITTEN), out)
    return results


def hardware() -> str:
    """Processor, cores, threads of torch and GPU."""
    import torch

    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    cpu = names[0] if names else platform.processor() or platform.machine()
    parts = [cpu, f"{os.cpu_count()} cores", f"{torch.get_num_threads()} threads"]
    return ", ".join(parts + ([torch.cuda.get_device_name()] if torch.cuda.is_available() else []))


def _comparison(cells: Sequence[Cell], found: dict[str, dict[str, Any]]) -> Comparison:
    """A model per algorithm and backbone, its seeds together, in the order of the cells."""
    from discrete_diffusion.evaluation.comparison import ComparedModel, Comparison, stack_seeds

    grouped: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        grouped.setdefault((cell.algorithm, cell.backbone), []).append(cell)
    models = []
    for (algorithm, backbone), group in grouped.items():
        results = [found[cell.name] for cell in group]
        models.append(
            ComparedModel(
                algorithm=algorithm,
                backbone=backbone,
                model=group[0].model,
                instead_of=group[0].instead_of,
                parameters=group[0].parameters,
                quantity=results[0]["quantity"],
                bounds=stack_seeds([_numbers(result["bounds"]) for result in results]),
                metrics={
                    name: _numbers([result["metrics"][name] for result in results])
                    for name in results[0]["metrics"]
                },
            )
        )
    seeds = dict.fromkeys(cell.seed for cell in cells)
    return Comparison(models=tuple(models), seeds=tuple(seeds))


def _numbers(values: Sequence[float | None]) -> list[float]:
    """NaN for every null."""
    return [math.nan if value is None else float(value) for value in values]


def _summary(result: dict[str, Any]) -> dict[str, Any]:
    """A cell without its values per sample, which stay in ``cell.json``."""
    kept = ("steps", "metrics", "statistics", "hardware")
    bounds = _numbers(result["bounds"])
    return {"bound": sum(bounds) / len(bounds), **{key: result[key] for key in kept}}


def _versions() -> dict[str, str]:
    import torch

    from discrete_diffusion import __version__

    return {
        "discrete_diffusion": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
    }


def _write(path: Path, text: str) -> None:
    with written_whole(path) as unfinished:
        unfinished.write_text(text)


def _draw(comparison: Comparison, path: Path) -> None:
    from discrete_diffusion.viz import ModelPoint, draw_pareto

    models = comparison.models
    names = {name for model in models for name in model.metrics}
    metric, title, up = next((q for q in _QUALITIES if q[0] in names), ("", "", True))
    plain_names = len({model.algorithm for model in models}) == len(models)
    draw_pareto(
        [
            ModelPoint(
                label=model.algorithm if plain_names else model.label,
                difference=0.0 if apart is None else apart.mean,
                error=0.0 if apart is None else apart.standard_error,
                calls=model.mean("network_calls"),
                quality=model.mean(metric),
            )
            for model, apart in zip(models, comparison.differences, strict=True)
        ],
        path,
        quantity=comparison.quantity,
        quality=title,
        more_is_better=up,
    )


def _print(heads: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> None:
    """To standard output, as wide as it needs to be, whatever it is read on."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, width=_WIDTH)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for k, head in enumerate(heads):
        table.add_column(
            textwrap.fill(head, 16), justify="left" if k < 2 else "right", no_wrap=True
        )
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for note in notes:
        console.print(f"* {note}", markup=False, soft_wrap=True)
