"""From trained cells to numbers, and from the numbers of all cells to table, JSON and figure."""

from __future__ import annotations

import csv
import json
import logging
import math
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.whole_files import written_whole

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.cli.compare.cells import Cell
    from discrete_diffusion.cli.compare.folder import CellFolder
    from discrete_diffusion.data import Dataset
    from discrete_diffusion.domains.cell_measurement import CellMeasurement, FigureAxis
    from discrete_diffusion.evaluation.comparison import Comparison
    from discrete_diffusion.evaluation.equal_terms import EqualTerms

logger = logging.getLogger(__name__)

_PARETO = "pareto.png"
_TITLE_WIDTH = 78
"""Characters of a line of its title."""


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

    measurement = cells[0].measurement
    found = {cell.name: folders[cell.name].result or {} for cell in cells}
    comparison = _comparison(cells, found, data)
    first = found[cells[0].name]
    real = real_data(out / REAL_DATA, data[cells[0].data], comparison, measurement)
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
            "cells": {name: _summary(result, measurement) for name, result in found.items()},
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
    written += _draw(comparison, measurement.axes, out / _PARETO, setting_of(cells, first))
    written += measurement.show(comparison, cells, folders, out)
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
    measurement = cells[0].measurement
    measures = [
        key for key in measurement.measures if key == "bounds" or _of_same_draws(key, found)
    ]
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
    drawn = [m.values[key].shape[1] for m in models for key in m.values if key != "nelbo"]
    return Comparison(
        models=tuple(models),
        seeds=tuple(seeds),
        baselines=measurement.baselines(next(iter(data.values())), drawn[0]) if drawn else (),
        measured=measurement.measured,
        columns=measurement.columns,
    )


def _of_same_draws(key: str, found: Mapping[str, dict[str, Any]]) -> bool:
    """True if all cells have a number of as many samples, drawn as often."""
    drawn = {
        (len(result.get(key) or ()), result["metrics"].get("draws_per_image"))
        for result in found.values()
    }
    return len(drawn) == 1


def _values(results: Sequence[dict[str, Any]], measures: Sequence[str]) -> dict[str, Tensor]:
    """What every held-out sample has, seeds stacked."""
    from discrete_diffusion.evaluation.comparison import stack_seeds

    return {
        "nelbo" if key == "bounds" else key: stack_seeds([_numbers(r[key]) for r in results])
        for key in measures
        if all(result.get(key) for result in results)
    }


def _numbers(values: Sequence[float | None]) -> list[float]:
    """NaN for every null."""
    return [math.nan if value is None else float(value) for value in values]


def _summary(result: dict[str, Any], measurement: CellMeasurement) -> dict[str, Any]:
    """A cell without its values per sample, which stay in ``cell.json``."""
    kept = ("steps", "metrics", "statistics", "hardware")
    means = {
        "bound" if key == "bounds" else key: sum(numbers) / len(numbers)
        for key in sorted(measurement.measures)
        if (numbers := _numbers(result.get(key) or []))
    }
    return {**means, **{key: result[key] for key in kept}}


def _write(path: Path, text: str) -> None:
    with written_whole(path) as unfinished:
        unfinished.write_text(text)


def _draw(
    comparison: Comparison, qualities: Sequence[FigureAxis], path: Path, setting: str
) -> list[str]:
    """The figure, if there is anything to show; the names of the files written."""
    from discrete_diffusion.viz.pareto import ModelPoint, draw_pareto

    models, measure = comparison.models, comparison.measures[0]
    names = {name for model in models for name in (*model.values, *model.metrics)}
    quality = next((each for each in qualities if each.name in names), None)
    if len(models) == 1 and quality is None:
        path.unlink(missing_ok=True)
        return []
    plain_names = len({model.algorithm for model in models}) == len(models)
    points = []
    for model in models:
        apart = comparison.difference(model, measure)
        points.append(
            ModelPoint(
                label=model.algorithm if plain_names else model.label,
                difference=0.0 if apart is None else apart.mean,
                error=0.0 if apart is None else apart.standard_error,
                calls=model.mean("network_calls"),
                quality=math.nan if quality is None else comparison.mean(model, quality.name),
                replaced=model.instead_of is not None,
            )
        )
    unit = str(comparison.quantity) if measure == "nelbo" else comparison.measured[measure].said
    draw_pareto(
        points,
        path,
        measure="Bound" if measure == "nelbo" else unit[:1].upper() + unit[1:],
        quantity=unit,
        quality="" if quality is None else quality.title,
        is_share=quality is not None and quality.share,
        more_is_better=quality is None or quality.up,
        title=textwrap.fill(setting, _TITLE_WIDTH, break_on_hyphens=False),
    )
    return [path.name]
