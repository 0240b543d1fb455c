"""The table of a comparison: heads with direction and unit, texts, and what they mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discrete_diffusion.evaluation.comparison import ComparedModel, Comparison
from discrete_diffusion.naming import counted

_LARGE = 1e6
"""Numbers from here on are shown as 1.234e+08."""


@dataclass(frozen=True)
class Column:
    """``head``: its title; ``name``: of the metric; ``digits``: decimals, of percent for shares.

    ``up``: whether more is better. ``share``: shown as percent; ``of_samples``: a share of the
    samples, which has a binomial standard error. ``quality``: measured on samples, so that real
    data and other seeds have values of it.
    """

    head: str
    name: str
    digits: int
    up: bool = False
    share: bool = False
    of_samples: bool = False
    quality: bool = True

    @property
    def title(self) -> str:
        return f"{self.head}{', %' if self.share else ''} {'↑' if self.up else '↓'}"


COLUMNS = (
    Column("valid", "valid", 1, up=True, share=True, of_samples=True),
    Column("transitive", "transitive", 1, up=True, share=True, of_samples=True),
    Column("relation TV", "relation_tv", 4),
    Column("conditional relation TV", "conditional_relation_tv", 4),
    Column("mode coverage", "mode_coverage", 1, up=True, share=True),
    Column("character TV", "character_tv", 4),
    Column("known words", "words_in_training", 1, up=True, share=True),
    Column("network calls per sample", "network_calls", 1, quality=False),
    Column("s of training", "seconds_training", 0, quality=False),
    Column("s per 1,000 samples", "seconds_per_1000_samples", 1, quality=False),
)


def table_cells(
    comparison: Comparison, real: Mapping[str, float] | None = None
) -> tuple[list[str], list[list[str]]]:
    """Heads and texts of the table; metrics that no model has are left out, and the difference
    where there is one model. ``real``: what real data scores, the first row."""
    models = comparison.models
    columns = [c for c in COLUMNS if any(math.isfinite(m.mean(c.name)) for m in models)]
    digits = 3 if comparison.quantity.startswith("bits") else 2
    several = len(models) > 1
    heads = ["algorithm", "backbone", f"bound, {comparison.quantity} ↓"]
    heads += [f"difference to {models[0].algorithm} ↓"] if several else []
    heads += [column.title for column in columns]
    cells = []
    if real:
        blank = [""] * (3 if several else 2)
        cells.append(["real data", *blank, *(_real(real, column) for column in columns)])
    for model, apart in zip(models, comparison.differences, strict=True):
        backbone = model.backbone + (f" (for {model.instead_of})" if model.instead_of else "")
        row = [model.algorithm, backbone]
        row.append(with_error(model.bound.mean, model.bound.standard_error, digits))
        if several:
            row.append(
                ""
                if apart is None
                else with_error(apart.mean, apart.standard_error, digits, sign="+")
            )
        cells.append([*row, *(_measured(model, column) for column in columns)])
    return heads, cells


def table_notes(comparison: Comparison, *, split: str, draws: int) -> list[str]:
    """What the numbers are, in sentences."""
    models, seeds = comparison.models, comparison.seeds
    several = len(seeds) > 1
    num = models[0].bounds.shape[1]
    over = "over held-out samples and seeds" if several else "over held-out samples"
    shares = any(math.isfinite(m.mean(c.name)) for m in models for c in COLUMNS if c.of_samples)
    others = "; of other numbers over seeds" if several else "; of shares over the samples drawn"
    notes = [
        f"The bound is of {counted(num, 'sample')} of the {split} split, the same for all, "
        f"{counted(draws, 'noise draw')} each.",
        f"± is one standard error: of the bound {over}"
        + f"; of a difference too, paired by sample{' and seed' * several}" * (len(models) > 1)
        + others * (several or shares)
        + ".",
    ]
    if not several:
        notes.append(
            f"One training seed ({seeds[0]}): no error says what training with another would give."
        )
    drawn = sorted({int(n) for m in models if math.isfinite(n := m.mean("num_samples"))})
    if drawn:
        each = "every model and seed" if several else "every model"
        notes.append(f"{' or '.join(counted(n, 'sample') for n in drawn)} of {each}.")
    sizes = sorted({model.parameters for model in models})
    notes.append(
        f"Parameters: {' to '.join(f'{size:,}' for size in dict.fromkeys((sizes[0], sizes[-1])))}."
    )
    notes += [
        f"{model.algorithm} cannot use {model.instead_of}: it has {model.backbone} "
        f"({model.model}, {model.parameters:,} parameters) in its place."
        for model in models
        if model.instead_of
    ]
    return notes


def markdown_table(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """The table, the first two columns to the left."""
    lines = [heads, ["---", "---", *["---:"] * (len(heads) - 2)], *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def with_error(value: float, error: float, digits: int, *, sign: str = "") -> str:
    """``value ± error``; the value alone without an error, nothing without a value."""
    text = _shown(value, digits, sign)
    return f"{text} ± {_shown(error, digits)}" if text and math.isfinite(error) else text


def _measured(model: ComparedModel, column: Column) -> str:
    error = math.nan
    if column.quality:
        error = model.standard_error(column.name, share=column.of_samples)
    scale = 100 if column.share else 1
    return with_error(scale * model.mean(column.name), scale * error, column.digits)


def _real(real: Mapping[str, float], column: Column) -> str:
    if not column.quality or column.name not in real:
        return ""
    return _shown((100 if column.share else 1) * real[column.name], column.digits)


def _shown(value: Any, digits: int, sign: str = "") -> str:
    if not isinstance(value, int | float) or not math.isfinite(value):
        return ""
    return f"{value:{sign}.4g}" if abs(value) >= _LARGE else f"{value:{sign},.{digits}f}"
