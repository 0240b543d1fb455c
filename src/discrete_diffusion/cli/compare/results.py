"""From trained cells to numbers, and from the numbers of all cells to table, JSON and figure."""

from __future__ import annotations

import csv
import json
import logging
import math
import os
import platform
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from discrete_diffusion.whole_files import written_whole

if TYPE_CHECKING:
    from discrete_diffusion.cli.compare.cells import Cell
    from discrete_diffusion.cli.compare.folder import CellFolder
    from discrete_diffusion.data import TokenDataset
    from discrete_diffusion.evaluation.comparison import Comparison
    from discrete_diffusion.evaluation.equal_terms import EqualTerms

logger = logging.getLogger(__name__)

WRITTEN = ("table.md", "table.csv", "results.json", "pareto.png")

_QUALITIES = (
    ("transitive", "transitive samples", True),
    ("words_in_training", "known words", True),
    ("character_tv", "character TV", False),
)
"""What the figure shows of samples, the first that was measured: (metric, title, whether it is a
share, of which more is better)."""


def measure_cell(config: DictConfig, folder: CellFolder, terms: EqualTerms) -> dict[str, Any]:
    """What ``cell.json`` holds of a trained cell: its averaged weights of the last step, measured.

    Raises ``ValueError`` if they are not finite, or the bound is one of a training gone wrong.
    """
    import torch

    from discrete_diffusion.checkpoints import read_checkpoint
    from discrete_diffusion.cli.compare.folder import config_digest
    from discrete_diffusion.data import build_tokens
    from discrete_diffusion.evaluation.equal_terms import held_out_bounds, score_samples_drawn
    from discrete_diffusion.evaluation.json_values import finite
    from discrete_diffusion.sampling import Sampler, build_sampler

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    checkpoint = read_checkpoint(folder.last, device=device)
    algorithm = checkpoint.algorithm
    if not all(weight.isfinite().all() for weight in algorithm.parameters()):
        raise ValueError("training has diverged: the weights hold NaN or infinity")
    data = build_tokens(checkpoint.config)
    bounds = held_out_bounds(algorithm, data, terms, device=device)
    bounds.check()
    sampler = build_sampler(config)
    assert isinstance(sampler, Sampler)  # or the cell would have been refused
    drawn = score_samples_drawn(algorithm, sampler, data, terms, device=device)
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
    data: TokenDataset,
    terms: EqualTerms,
    *,
    overrides: Sequence[str],
) -> dict[str, Any]:
    """Write ``WRITTEN`` into ``out`` and print the table; returns what ``results.json`` holds.

    ``data``: of all cells; what real data scores is measured once and kept in ``out``.
    """
    from discrete_diffusion.cli.compare.table import (
        REAL_DATA,
        print_table,
        real_data,
        said_of_table,
        setting_of,
    )
    from discrete_diffusion.evaluation.comparison_table import markdown_table, table_cells
    from discrete_diffusion.evaluation.json_values import finite

    found = {cell.name: folders[cell.name].result or {} for cell in cells}
    comparison = _comparison(cells, found)
    first = found[cells[0].name]
    real = real_data(out / REAL_DATA, data, comparison)
    heads, rows = table_cells(comparison, real.get("metrics"))
    notes = said_of_table(comparison, cells[0], data, first, terms, real)
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
            "real_data": real,
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
    written = [*WRITTEN[:-1], *_draw(comparison, out / WRITTEN[-1], setting_of(cells[0], first))]
    print_table(heads, rows, notes)
    logger.info("%s: %s", ", ".join(written), out)
    return results


def hardware() -> str:
    """Processor, cores, threads of torch and GPU."""
    import torch

    from discrete_diffusion.naming import counted

    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    cpu = names[0] if names else platform.processor() or platform.machine()
    cores, threads = os.cpu_count() or 1, torch.get_num_threads()
    parts = [cpu, counted(cores, "core"), counted(threads, "thread")]
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
                    if all(name in result["metrics"] for result in results)
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


def _draw(comparison: Comparison, path: Path, setting: str) -> list[str]:
    """The figure, if there is anything to show; the names of the files written."""
    from discrete_diffusion.viz import ModelPoint, draw_pareto

    models = comparison.models
    names = {name for model in models for name in model.metrics}
    metric, title, share = next((q for q in _QUALITIES if q[0] in names), ("", "", True))
    if len(models) == 1 and not metric:
        path.unlink(missing_ok=True)
        return []
    plain_names = len({model.algorithm for model in models}) == len(models)
    draw_pareto(
        [
            ModelPoint(
                label=model.algorithm if plain_names else model.label,
                difference=0.0 if apart is None else apart.mean,
                error=0.0 if apart is None else apart.standard_error,
                calls=model.mean("network_calls"),
                quality=model.mean(metric),
                replaced=model.instead_of is not None,
            )
            for model, apart in zip(models, comparison.differences, strict=True)
        ],
        path,
        quantity=comparison.quantity,
        quality=title,
        is_share=share,
        more_is_better=share,
        title=setting,
    )
    return [path.name]
