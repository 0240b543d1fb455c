"""Trained models side by side: bounds, and differences paired by held-out sample."""

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

    @property
    def bound(self) -> PairedDifference:
        """Mean of the bound with its standard error, over samples and seeds."""
        return paired_difference(self.bounds, torch.zeros_like(self.bounds))

    def standard_error(self, name: str, *, share: bool = False) -> float:
        """Of the mean of a metric: over seeds, n - 1; with one seed that of a share of
        ``num_samples`` samples, sqrt(p (1 - p) / n); else NaN."""
        values = self.metrics.get(name, ())
        if len(values) > 1:
            return _error_of_mean(torch.tensor(values, dtype=torch.float64))
        num, mean = self.mean("num_samples"), self.mean(name)
        if share and num > 0 and 0 <= mean <= 1:
            return math.sqrt(mean * (1 - mean) / num)
        return math.nan


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
                "nelbo": model.bound.mean,
                "nelbo_standard_error": model.bound.standard_error,
                "difference": None if apart is None else apart.mean,
                "difference_standard_error": None if apart is None else apart.standard_error,
                "difference_error_over_samples": None if apart is None else apart.over_samples,
                "difference_error_over_seeds": None if apart is None else apart.over_seeds,
                **{name: model.mean(name) for name in model.metrics},
            }
            for model, apart in zip(self.models, self.differences, strict=True)
        ]


def stack_seeds(bounds: Sequence[Sequence[float]]) -> Tensor:
    """M values of every seed -> Float64[S, M]."""
    return torch.tensor(bounds, dtype=torch.float64)
