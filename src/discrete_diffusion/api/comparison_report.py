"""Report of a comparison: tables, numbers and figures from the measurements of all cells."""

from __future__ import annotations

import csv
import logging
import math
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig

from discrete_diffusion.api.cells import Cell
from discrete_diffusion.config.values import counted
from discrete_diffusion.data.base import Dataset
from discrete_diffusion.domains.cell_measurement import CellMeasurement
from discrete_diffusion.domains.registry import domain_of
from discrete_diffusion.evaluation.bound import DrawTail
from discrete_diffusion.evaluation.comparison import (
    IDENTITY,
    ComparedModel,
    Comparison,
    difference_name,
)
from discrete_diffusion.evaluation.comparison_table import (
    TIED,
    comparison_table,
    table_notes,
    verdicts,
)
from discrete_diffusion.evaluation.evaluation_protocol import REAL_DRAWS, EvaluationProtocol
from discrete_diffusion.evaluation.tables import (
    HEAD_WIDTH,
    Table,
    finite_or_none,
    print_table,
    read_json,
    write_json,
)
from discrete_diffusion.runtime.atomic_files import atomic_write, write_text

logger = logging.getLogger(__name__)

_WITH_ERRORS = ("", "_standard_error", "_error_over_samples", "_error_over_seeds", "_low", "_high")
"""Endings of column names: of a number, of its errors and of its interval."""


def write_comparison(
    cells: Sequence[Cell],
    data: Mapping[str, Dataset],
    protocol: EvaluationProtocol,
    config: DictConfig,
    *,
    overrides: Sequence[str],
) -> dict[str, Any]:
    """Write tables, numbers and figures of a comparison, and print the main columns.

    ``data``: data sets of the cells, by name; scores of the real data are measured once and kept.
    ``config``: config of the command, with the ``columns`` and ``baseline`` of the table. Returns
    the contents of ``results.json``.
    """
    # models, real data, and the table of both
    out, measurement = cells[0].out, cells[0].measurement
    found = {cell.name: cell.folder.result or {} for cell in cells}
    first, first_data = found[cells[0].name], data[cells[0].data]
    columns = None if config.columns is None else [*config.columns]
    comparison = _group_cells(cells, found, first_data, protocol, config.baseline)
    real = _score_real_data(out / "real_data.json", first_data, comparison, measurement, protocol)
    scores = real.get("metrics", {})
    table = comparison_table(comparison, scores, columns=columns, with_sizes=True, mark_best=True)
    # notes below the table, with everything that the numbers depend on
    setting, seeds = (
        _describe_setting(comparison, first["steps"]),
        ", ".join(map(str, comparison.seeds)),
    )
    summary, path = first_data.summary(), str(cells[0].config.data.get("path") or "")
    summary = summary.replace(path, Path(path).name) if path else summary
    trained = f"{setting}, seed{'s' * (len(comparison.seeds) > 1)} {seeds}"
    notes = [f"{trained}. Data: {summary}.", *table_notes(comparison)]
    if real:
        notes.append(
            f"Real data: {real['num_samples']:,} training samples in place of a model's, against "
            f"the same {comparison.split} split, mean of {real['draws']} draws."
        )
    if missing := [name for name in columns or () if name not in {c.name for c in table.columns}]:
        notes.append(f"Not measured of any model: {', '.join(missing)}.")
    notes += [*measurement.notes(comparison), f"{first['hardware']}."]
    results = {
        "command": shlex.join(["discrete-diffusion", "compare", *overrides]),
        "domain": domain_of(cells[0].config.data).name,
        "setting": setting,
        "seeds": list(comparison.seeds),
        "versions": first["versions"],
        "hardware": sorted({result["hardware"] for result in found.values()}),
        "quantity": comparison.quantity,
        "ordering": next((r["ordering"] for r in found.values() if r["ordering"]), None),
        "split": first["split"],
        "data_fingerprint": first["data_fingerprint"],
        "terms": protocol.as_dict(),
        "models": comparison.rows(),
        "baselines": comparison.baseline_rows(),
        "real_data": real,
        "cells": {name: _means_of_cell(result, measurement) for name, result in found.items()},
        "notes": notes,
    }
    results = finite_or_none(results)
    # files, and the table
    written = _write_tables(out, table, results, columns)
    from discrete_diffusion.evaluation.comparison_figure import plot_comparison

    written += plot_comparison(comparison, measurement.axes, out / "pareto.png", setting)
    written += measurement.show(comparison, out)
    _print_table(comparison, scores, notes, table if columns else None)
    logger.info("%s: %s", ", ".join(written), out)
    folder = shlex.quote(str(cells[0].folder.path))
    logger.info("next: discrete-diffusion sample checkpoint=%s", folder)
    return results


def _print_table(
    comparison: Comparison, scores: Mapping[str, float], notes: Sequence[str], table: Table | None
) -> None:
    """Print a table, verdicts and notes; without a table algorithm, bound, difference, metric."""
    if table is None:
        bound = comparison.measures[0]
        metrics = [column.name for column in comparison.columns[:1]]
        wanted = [bound, difference_name(bound), *metrics]
        table = comparison_table(comparison, scores, columns=wanted)
    texts = [k for k, column in enumerate(table.columns) if column.is_text]
    print_table([textwrap.fill(head, HEAD_WIDTH) for head in table.heads], table.rows, left=texts)
    for line in (*verdicts(comparison), *(f"* {note}" for note in notes)):
        print(line)


def _write_tables(
    out: Path, table: Table, results: Mapping[str, Any], columns: Sequence[str] | None
) -> list[str]:
    """Write the table in each format and the results; return the names of the files.

    The CSV has a column for every name; with ``columns`` only for the chosen numbers, their errors,
    and the names that identify a model.
    """
    notes, rows = results["notes"], results["models"]
    listed = "\n".join(f"* {note}" for note in notes)
    write_text(out / "table.md", f"{table.markdown()}\n{listed}\n")
    bold = f"Bold: the best of the models, and what is within {TIED:g} standard errors of it."
    write_text(out / "table.tex", table.latex([*notes, bold]))
    # columns of the CSV
    names = list(dict.fromkeys(name for row in rows for name in row))
    if columns is not None:
        chosen = [f"{name}{ending}" for name in columns for ending in _WITH_ERRORS]
        names = [*IDENTITY, *(n for n in chosen if n in names and n not in IDENTITY)]
    with atomic_write(out / "table.csv") as unfinished, unfinished.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    write_json(out / "results.json", results)
    return ["table.md", "table.csv", "table.tex", "results.json"]


def _group_cells(
    cells: Sequence[Cell],
    found: Mapping[str, dict[str, Any]],
    data: Dataset,
    protocol: EvaluationProtocol,
    against: str | None,
) -> Comparison:
    """Group the cells, in their order, by algorithm and backbone: a model with its seeds.

    Measures of samples are left out unless all cells have equally many samples.
    """
    # cells of one algorithm and backbone
    grouped: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        grouped.setdefault((cell.algorithm, cell.backbone), []).append(cell)
    # numbers of all seeds of a model
    measurement, models = cells[0].measurement, []
    # the bound, and measures of equally many samples in equally many repetitions
    measures = []
    for name in measurement.measures:
        drawn = {(len(r.get(name) or ()), r["terms"].get("draws")) for r in found.values()}
        measures += [name] if name == "nelbo" or len(drawn) == 1 else []
    for group in grouped.values():
        results, first = [found[cell.name] for cell in group], group[0]
        tails = [DrawTail(**result["tail"]) for result in results if result.get("tail") is not None]
        models.append(
            ComparedModel(
                algorithm=first.algorithm,
                backbone=first.backbone,
                model=first.model,
                instead_of=first.instead_of,
                parameters=first.parameters,
                quantity=results[0]["quantity"],
                values={
                    name: torch.tensor(
                        [_numbers_or_nan(r[name]) for r in results], dtype=torch.float64
                    )
                    for name in measures
                    if all(result.get(name) for result in results)
                },
                metrics={
                    name: _numbers_or_nan([result["metrics"][name] for result in results])
                    for name in results[0]["metrics"]
                    if all(name in result["metrics"] for result in results)
                },
                config=first.config,
                folder=first.folder.path,
                tail=max(tails, key=lambda tail: tail.enough, default=None),
            )
        )
    # baselines for the samples per condition
    num_drawn = [m.values[name].shape[1] for m in models for name in m.values if name != "nelbo"]
    return Comparison(
        models=tuple(models),
        seeds=tuple(dict.fromkeys(cell.seed for cell in cells)),
        measured=measurement.measures,
        columns=measurement.columns,
        split=found[cells[0].name]["split"],
        noise_samples=protocol.bound_draws,
        baselines=measurement.baselines(data, num_drawn[0]) if num_drawn else (),
        against=against,
    )


def _numbers_or_nan(values: Sequence[float | None]) -> list[float]:
    """Convert null to NaN."""
    return [math.nan if value is None else float(value) for value in values]


def _means_of_cell(result: Mapping[str, Any], measurement: CellMeasurement) -> dict[str, Any]:
    """Return the means of a cell, without the values per sample, which ``cell.json`` keeps."""
    means = {
        "bound" if name == "nelbo" else name: sum(numbers) / len(numbers)
        for name in sorted(measurement.measures)
        if (numbers := _numbers_or_nan(result.get(name) or []))
    }
    kept = ("steps", "exact", "approximate_because", "metrics", "statistics", "hardware")
    return {**means, **{key: result[key] for key in kept if key in result}}


def _score_real_data(
    path: Path,
    data: Dataset,
    comparison: Comparison,
    measurement: CellMeasurement,
    protocol: EvaluationProtocol,
) -> dict[str, Any]:
    """Measure as many real samples as the models' samples, or read their scores from ``path``.

    Returns {} if the models have no samples, or if the kind of data has no scores of real data."""
    drawn = [m.metrics["num_samples"][0] for m in comparison.models if "num_samples" in m.metrics]
    if not drawn:
        return {}
    # as many real samples as samples of a model
    num = min(int(drawn[0]), len(data.splits["train"]))
    made_of = {"data_fingerprint": data.fingerprint(), "num_samples": num, "draws": REAL_DRAWS}
    if protocol.verdicts:
        made_of["verdicts"] = protocol.verdicts
    kept = read_json(path, ("metrics", *made_of))
    if kept is None or any(kept[key] != value for key, value in made_of.items()):
        found = measurement.real_data(data, num, protocol.verdicts)
        # samples may be too short for a score
        metrics = {name: value for name, value in found.items() if math.isfinite(value)}
        kept = {**made_of, "metrics": metrics}
        write_json(path, kept)
    return kept if kept["metrics"] else {}


def _describe_setting(comparison: Comparison, steps: int) -> str:
    """Describe the data, steps and models of a comparison, with the algorithms of each model."""
    # models with the names of their algorithms
    models: dict[str, list[str]] = {}
    for model, name in zip(comparison.models, comparison.short_names("{} with {}"), strict=True):
        models.setdefault(model.model, []).append(name)
    whose = [f"{model} ({', '.join(names)})" for model, names in models.items()]
    shown = f"models {' and '.join(whose)}" if len(models) > 1 else f"model {', '.join(models)}"
    data = [model.config.data for model in comparison.models]
    return (
        f"{' and '.join(dict.fromkeys(str(each.name) for each in data))}, {counted(steps, 'step')} "
        f"of batch size {data[0].batch_size}, {shown}"
    )
