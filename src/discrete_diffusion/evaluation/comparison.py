"""Trained models side by side: differences paired by held-out sample, and their table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class PairedDifference:
    """Mean of a difference, and the standard error of that mean.

    ``over_samples``: the part from which samples were held out; ``over_seeds``: the part from the
    training seeds, None with one seed. ``standard_error``: both together.
    """

    mean: float
    over_samples: float
    over_seeds: float | None

    @property
    def standard_error(self) -> float:
        """sqrt(over_samples^2 + over_seeds^2)."""
        return math.hypot(self.over_samples, self.over_seeds or 0.0)


def paired_difference(values: Tensor, base: Tensor) -> PairedDifference:
    """The difference of two models on the same samples, trained with the same seeds.

    ``values``, ``base``: Float64[S, M], S training seeds, M held-out samples. With
    d = values - base, the two errors are those of the mean over samples of d averaged over seeds,
    and of the mean over seeds of d averaged over samples. With S = 1 the training seed is taken as
    given: another one would give another difference.
    Raises ``ValueError`` if the shapes differ.
    """
    if values.shape != base.shape or values.ndim != 2:
        raise ValueError(
            f"expected two Float[S, M] of one shape, got {tuple(values.shape)} and "
            f"{tuple(base.shape)}"
        )
    difference = values.double() - base.double()
    seeds = difference.mean(dim=1)
    return PairedDifference(
        mean=float(difference.mean()),
        over_samples=_error_of_mean(difference.mean(dim=0)),
        over_seeds=_error_of_mean(seeds) if len(seeds) > 1 else None,
    )


def _error_of_mean(values: Tensor) -> float:
    """sd / sqrt(n); NaN for one value."""
    return float(values.std() / math.sqrt(len(values))) if len(values) > 1 else math.nan


@dataclass(frozen=True)
class ComparedModel:
    """One algorithm with one backbone, trained with S seeds.

    ``label``: what tables call it; ``instead_of``: the backbone that was asked for if it could not
    be used. ``bounds``: Float64[S, M], in the unit of ``quantity``; ``metrics``: by name, one value
    per seed.
    """

    algorithm: str
    backbone: str
    model: str
    instead_of: str | None
    parameters: int
    quantity: str
    bounds: Tensor
    metrics: Mapping[str, Sequence[float]]

    @property
    def label(self) -> str:
        return f"{self.algorithm} ({self.backbone})"

    def mean(self, name: str) -> float:
        """Mean of a metric over seeds; NaN if it was not measured."""
        values = self.metrics.get(name)
        return sum(values) / len(values) if values else math.nan


@dataclass(frozen=True)
class Comparison:
    """Models against the first of them.

    Raises ``ValueError`` if their bounds are of different quantities: those never share a column.
    """

    models: tuple[ComparedModel, ...]
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(found := {model.quantity for model in self.models}) != 1:
            raise ValueError(f"bounds of different quantities do not compare: {sorted(found)}")

    @property
    def quantity(self) -> str:
        return self.models[0].quantity

    @property
    def differences(self) -> list[PairedDifference | None]:
        """To the first model, None for that one."""
        base = self.models[0].bounds
        return [None, *(paired_difference(model.bounds, base) for model in self.models[1:])]

    def rows(self) -> list[dict[str, Any]]:
        """Numbers of every model by name, means over seeds: ``table.csv`` and ``results.json``."""
        return [
            {
                "algorithm": model.algorithm,
                "backbone": model.backbone,
                "instead_of": model.instead_of,
                "model": model.model,
                "parameters": model.parameters,
                "quantity": model.quantity,
                "nelbo": float(model.bounds.mean()),
                "nelbo_standard_error": _error_of_mean(model.bounds.mean(dim=0)),
                "difference": None if apart is None else apart.mean,
                "difference_standard_error": None if apart is None else apart.standard_error,
                "difference_error_over_samples": None if apart is None else apart.over_samples,
                "difference_error_over_seeds": None if apart is None else apart.over_seeds,
                **{name: model.mean(name) for name in model.metrics},
            }
            for model, apart in zip(self.models, self.differences, strict=True)
        ]


@dataclass(frozen=True)
class Column:
    """``head``: its title; ``name``: of the number in ``Comparison.rows``; ``digits``: decimals."""

    head: str
    name: str
    digits: int


_COLUMNS = (
    Column("valid", "valid", 3),
    Column("transitive", "transitive", 3),
    Column("relation TV", "relation_tv", 4),
    Column("conditional relation TV", "conditional_relation_tv", 4),
    Column("mode coverage", "mode_coverage", 3),
    Column("character TV", "character_tv", 4),
    Column("known words", "words_in_training", 3),
    Column("network calls", "network_calls", 1),
    Column("s training", "seconds_training", 0),
    Column("s per 1,000 samples", "seconds_per_1000_samples", 1),
)


def table_cells(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Heads and texts of the table; metrics that no model has are left out."""
    rows = comparison.rows()
    columns = [c for c in _COLUMNS if any(_is_number(row.get(c.name)) for row in rows)]
    digits = 3 if comparison.quantity.startswith("bits") else 2
    first = comparison.models[0]
    heads = [
        "algorithm",
        "backbone",
        "parameters",
        f"bound, {comparison.quantity}",
        f"difference to {first.algorithm} ± s.e. {_error_of(comparison)}",
        *(column.head for column in columns),
    ]
    cells = [
        [
            row["algorithm"],
            row["backbone"] + (f" (for {row['instead_of']})" if row["instead_of"] else ""),
            f"{row['parameters']:,}",
            f"{row['nelbo']:.{digits}f}",
            _difference(row, digits),
            *(_shown(row.get(column.name), column.digits) for column in columns),
        ]
        for row in rows
    ]
    return heads, cells


def table_notes(comparison: Comparison, *, split: str, draws: int, num_samples: int) -> list[str]:
    """What the numbers are, in sentences."""
    num, seeds = comparison.models[0].bounds.shape[1], comparison.seeds
    several = len(seeds) > 1
    notes = [
        f"The bound is of {num:,} samples of the {split} split, the same for all, "
        f"{draws} noise draws each. "
        + (
            f"Training seeds {', '.join(map(str, seeds))}; differences are paired by sample and "
            "seed, and their standard error holds both."
            if several
            else f"One training seed ({seeds[0]}): the standard error is over samples, paired, and "
            "says nothing of what another seed would give."
        ),
    ]
    if num_samples:
        notes.append(f"{num_samples:,} samples of every model{' and seed' if several else ''}.")
    notes += [
        f"{model.algorithm} cannot use {model.instead_of}: it has {model.backbone} "
        f"({model.model}, {model.parameters:,} parameters) in its place."
        for model in comparison.models
        if model.instead_of
    ]
    return notes


def markdown_table(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """The table, the first two columns to the left."""
    lines = [heads, ["---", "---", *["---:"] * (len(heads) - 2)], *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def stack_seeds(bounds: Sequence[Sequence[float]]) -> Tensor:
    """M values of every seed -> Float64[S, M]."""
    return torch.tensor(bounds, dtype=torch.float64)


def _error_of(comparison: Comparison) -> str:
    return "over samples and seeds" if len(comparison.seeds) > 1 else "over samples"


def _difference(row: Mapping[str, Any], digits: int) -> str:
    if row["difference"] is None:
        return ""
    error = _shown(row["difference_standard_error"], digits) or "?"
    return f"{row['difference']:+.{digits}f} ± {error}"


def _shown(value: Any, digits: int) -> str:
    return f"{value:,.{digits}f}" if _is_number(value) else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
