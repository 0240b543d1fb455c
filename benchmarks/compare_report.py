"""What ``compare.py`` found: the table and the figure of ``compare``, from the numbers it kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from discrete_diffusion.cli.compare.results import draw_comparison
from discrete_diffusion.domains import get_domain
from discrete_diffusion.domains.cell_measurement import CellMeasurement
from discrete_diffusion.evaluation.comparison import (
    Baseline,
    ComparedModel,
    Comparison,
    PairedDifference,
)
from discrete_diffusion.evaluation.comparison_table import markdown_table, table_cells
from record import Figures, Record, Sections

Row = Mapping[str, Any]

_OF_OTHER_DATA = dict.fromkeys(
    (f"comparison {study}" for study in ("early", "dialogue", "levels", "levels_gaussian")),
    "results_other_data.md",
)
"""Sections that stand beside what else was measured on their data."""


def sections(record: Record) -> Sections:
    results = record.results
    heads, rows = table_cells(_comparison(results), results["real_data"].get("metrics", {}))
    minutes = sum(cell["metrics"]["seconds_training"] for cell in results["cells"].values()) / 60
    notes = [*results["notes"], f"Training took {minutes:.0f} minutes in all."]
    listed = "\n".join(f"* {note}" for note in notes)
    shown = f"![Bounds and samples by algorithm](images/{record.name}.png)"
    text = f"{markdown_table(heads, rows)}\n{listed}\n\n{shown}"
    name = record.name.replace("_", " ", 1)
    return {(_OF_OTHER_DATA.get(name, "results_algorithms.md"), name): text}


def figures(record: Record) -> Figures:
    results, axes = record.results, _measurement(record.results).axes
    draw = partial(draw_comparison, _comparison(results), axes, setting=results["setting"])
    return {f"{record.name}.png": draw}


@dataclass(frozen=True)
class RecordedComparison(Comparison):
    """A comparison without the values of its samples: means and errors are those of ``found``, the
    rows of ``results.json``, by ``_key``."""

    found: Mapping[tuple[str, ...], Row] = field(default_factory=dict)

    def value(self, model: ComparedModel | Baseline, measure: str) -> PairedDifference | None:
        return self._recorded(model, measure) if measure in model.values else None

    def difference(self, model: ComparedModel | Baseline, measure: str) -> PairedDifference | None:
        of = "difference" if measure == "nelbo" else f"{measure}_difference"
        return self._recorded(model, of) if measure in model.values else None

    def _recorded(self, model: ComparedModel | Baseline, name: str) -> PairedDifference | None:
        row = self.found[_key(vars(model))]
        if row[name] is None:
            return None
        return PairedDifference(row[name], row[f"{name}_standard_error"], over_seeds=None)


def _key(of: Row) -> tuple[str, ...]:
    """Of a model, or of a baseline."""
    return (of["name"],) if "name" in of else (of["algorithm"], of["backbone"])


def _measurement(results: Row) -> CellMeasurement:
    return get_domain(results["domain"]).cell_measurement()


def _comparison(results: Row) -> RecordedComparison:
    measurement = _measurement(results)
    models, baselines = results["models"], results.get("baselines", ())

    def values(row: Row) -> dict[str, torch.Tensor]:
        """Which measures there are of it."""
        there = [name for name in measurement.measures if row.get(name) is not None]
        return dict.fromkeys(there, torch.empty(0))

    return RecordedComparison(
        models=tuple(
            ComparedModel(
                **{key: row[key] for key in ("algorithm", "backbone", "model", "instead_of")},
                parameters=row["parameters"],
                quantity=row["quantity"],
                values=values(row),
                metrics=_metrics(results, row),
                config=OmegaConf.create(),
                folder=Path(),
            )
            for row in models
        ),
        seeds=tuple(results["seeds"]),
        measured=measurement.measures,
        columns=measurement.columns,
        split=results["split"],
        bound_draws=results["terms"]["bound_draws"],
        baselines=tuple(Baseline(row["name"], values(row), row) for row in baselines),
        found={_key(row): row for row in (*models, *baselines)},
    )


def _metrics(results: Row, row: Row) -> dict[str, list[float]]:
    """A number per seed, of those metrics that there are of all."""
    names = (f"{row['algorithm']}-{row['backbone']}-seed{seed}" for seed in results["seeds"])
    first, *others = [results["cells"][name]["metrics"] for name in names]
    return {
        name: [math.nan if (v := m[name]) is None else v for m in (first, *others)]
        for name in first
        if all(name in other for other in others)
    }
