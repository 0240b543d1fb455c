"""From trained cells to numbers, and from the numbers of all cells to table, JSON and figure."""

from __future__ import annotations

import csv
import json
import logging
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.whole_files import written_whole

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.cli.compare.cells import Cell
    from discrete_diffusion.cli.compare.folder import CellFolder
    from discrete_diffusion.data import Dataset
    from discrete_diffusion.evaluation.comparison import Baseline, ComparedModel, Comparison
    from discrete_diffusion.evaluation.equal_terms import EqualTerms

logger = logging.getLogger(__name__)

_PARETO, _IMAGES = "pareto.png", "images.png"
_QUALITIES = (
    ("transitive", "transitive samples", True),
    ("words_in_training", "known words", True),
    ("character_tv", "character TV", False),
)
"""What the figure shows of samples, the first that was measured: (metric, title, whether it is a
share, of which more is better)."""


def write_comparison(
    out: Path,
    cells: Sequence[Cell],
    folders: dict[str, CellFolder],
    data: Mapping[str, Dataset],
    terms: EqualTerms,
    *,
    overrides: Sequence[str],
) -> dict[str, Any]:
    """Write table, numbers and figures into ``out`` and print the table; returns what
    ``results.json`` holds.

    ``data``: of all cells, by name; what real data scores is measured once and kept in ``out``.
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
    comparison = _comparison(cells, found, data)
    first = found[cells[0].name]
    real = real_data(out / REAL_DATA, data[cells[0].data], comparison)
    heads, rows = table_cells(comparison, real.get("metrics"))
    notes = said_of_table(comparison, cells, data, first, terms, real)
    results = finite(
        {
            "command": shlex.join(["discrete-diffusion", "compare", *overrides]),
            "seeds": list(comparison.seeds),
            "versions": first["versions"],
            "hardware": sorted({result["hardware"] for result in found.values()}),
            "quantity": comparison.quantity,
            "ordering": next((r["ordering"] for r in found.values() if r["ordering"]), None),
            "split": first["split"],
            "data_fingerprint": first["data_fingerprint"],
            "terms": terms.as_dict(),
            "models": comparison.rows(),
            "baselines": comparison.baseline_rows(),
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
    written = ["table.md", "table.csv", "results.json"]
    written += _draw(comparison, out / _PARETO, setting_of(cells, first))
    written += _draw_images(comparison, cells, folders, out / _IMAGES)
    print_table(heads, rows, notes)
    logger.info("%s: %s", ", ".join(written), out)
    return results


def _comparison(
    cells: Sequence[Cell], found: dict[str, dict[str, Any]], data: Mapping[str, Dataset]
) -> Comparison:
    """A model per algorithm and backbone, its seeds together, in the order of the cells."""
    from discrete_diffusion.evaluation.comparison import ComparedModel, Comparison

    grouped: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        grouped.setdefault((cell.algorithm, cell.backbone), []).append(cell)
    drawn = {
        (len(result.get("relative_l2") or ()), result["metrics"].get("draws_per_image"))
        for result in found.values()
    }
    measures = ["relative_l2"] * (len(drawn) == 1) + ["bounds"]  # or they are of other draws
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
                values=_values(results, measures),
                metrics={
                    name: _numbers([result["metrics"][name] for result in results])
                    for name in results[0]["metrics"]
                    if all(name in result["metrics"] for result in results)
                },
            )
        )
    seeds = dict.fromkeys(cell.seed for cell in cells)
    return Comparison(
        models=tuple(models),
        seeds=tuple(seeds),
        baselines=_baselines(models, next(iter(data.values()))),
    )


def _values(results: Sequence[dict[str, Any]], measures: Sequence[str]) -> dict[str, Tensor]:
    """What every held-out sample has, seeds stacked."""
    from discrete_diffusion.evaluation.comparison import stack_seeds

    return {
        "nelbo" if key == "bounds" else key: stack_seeds([_numbers(r[key]) for r in results])
        for key in measures
        if all(result.get(key) for result in results)
    }


def _baselines(models: Sequence[ComparedModel], data: Dataset) -> tuple[Baseline, ...]:
    """Of images, on those that the models were measured on."""
    from discrete_diffusion.evaluation.equal_images import score_baselines

    measured = [m.values["relative_l2"] for m in models if "relative_l2" in m.values]
    return score_baselines(data, measured[0].shape[1]) if measured else ()


def _numbers(values: Sequence[float | None]) -> list[float]:
    """NaN for every null."""
    return [math.nan if value is None else float(value) for value in values]


def _summary(result: dict[str, Any]) -> dict[str, Any]:
    """A cell without its values per sample, which stay in ``cell.json``."""
    kept = ("steps", "metrics", "statistics", "hardware")
    means = {
        name: sum(numbers) / len(numbers)
        for name, key in (("bound", "bounds"), ("relative_l2", "relative_l2"))
        if (numbers := _numbers(result.get(key) or []))
    }
    return {**means, **{key: result[key] for key in kept}}


def _write(path: Path, text: str) -> None:
    with written_whole(path) as unfinished:
        unfinished.write_text(text)


def _draw(comparison: Comparison, path: Path, setting: str) -> list[str]:
    """The figure, if there is anything to show; the names of the files written."""
    from discrete_diffusion.viz import ModelPoint, draw_pareto

    models, measure = comparison.models, comparison.measures[0]
    names = {name for model in models for name in model.metrics}
    metric, title, share = next((q for q in _QUALITIES if q[0] in names), ("", "", True))
    images = measure == "relative_l2"
    if len(models) == 1 and not metric and not images:
        path.unlink(missing_ok=True)
        return []
    plain_names = len({model.algorithm for model in models}) == len(models)
    points = []
    for model in models:
        apart, value = comparison.difference(model, measure), comparison.value(model, measure)
        quality = value.mean if images and value is not None else model.mean(metric)
        points.append(
            ModelPoint(
                label=model.algorithm if plain_names else model.label,
                difference=0.0 if apart is None else apart.mean,
                error=0.0 if apart is None else apart.standard_error,
                calls=model.mean("network_calls"),
                quality=quality,
                replaced=model.instead_of is not None,
            )
        )
    draw_pareto(
        points,
        path,
        measure="Relative L2" if images else "Bound",
        quantity="relative L2" if images else str(comparison.quantity),
        quality="relative L2" if images else title,
        is_share=share and not images,
        more_is_better=share and not images,
        title=setting,
    )
    return [path.name]


def _draw_images(
    comparison: Comparison, cells: Sequence[Cell], folders: dict[str, CellFolder], path: Path
) -> list[str]:
    """Of images with maps the true ones beside those of every model, trained with the first seed;
    the names of the files written."""
    import numpy as np

    from discrete_diffusion.evaluation import RECONSTRUCTIONS
    from discrete_diffusion.viz import draw_side_by_side

    if "relative_l2" not in comparison.measures:
        path.unlink(missing_ok=True)
        return []
    drawn = {}
    for cell in cells:
        file = folders[cell.name].path / RECONSTRUCTIONS
        if cell.seed == comparison.seeds[0] and file.is_file():
            with np.load(file) as arrays:
                truth, drawn[cell.algorithm, cell.backbone] = arrays["truth"], arrays["mean"]
    if not drawn:
        return []
    plain_names = len({algorithm for algorithm, _ in drawn}) == len(drawn)
    draw_side_by_side(
        truth[:, 0],
        {a if plain_names else f"{a} ({b})": mean[:, 0] for (a, b), mean in drawn.items()},
        path,
        draws=int(comparison.models[0].mean("draws_per_image")),
    )
    return [path.name]
