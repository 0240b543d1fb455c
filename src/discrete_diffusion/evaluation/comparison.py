"""Comparison of trained models: differences, paired by held-out sample and training seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrete_diffusion.config.values import counted
from discrete_diffusion.evaluation.bound import DrawTail
from discrete_diffusion.evaluation.sample_scores import share_error, share_interval, standard_error

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True)
class Estimate:
    """A mean, or a mean difference, and its standard error.

    ``over_samples``: error from the choice of samples, None if unknown; ``over_seeds``: error from
    the training seeds, None with one seed. ``standard_error``: both errors together.
    """

    mean: float
    over_samples: float | None
    over_seeds: float | None

    @property
    def standard_error(self) -> float:
        """Standard error, sqrt(over_samples^2 + over_seeds^2); NaN if neither is known."""
        if self.over_samples is None and self.over_seeds is None:
            return math.nan
        return math.hypot(self.over_samples or 0.0, self.over_seeds or 0.0)

    def minus(self, other: Estimate) -> Estimate:
        """Difference to another estimate that is not paired with it."""
        over_samples = (self.over_samples, other.over_samples)
        over_seeds = (self.over_seeds, other.over_seeds)
        # an error is unknown if one of both is
        errors = (
            None if one is None or two is None else math.hypot(one, two)
            for one, two in (over_samples, over_seeds)
        )
        return Estimate(self.mean - other.mean, *errors)


def paired_difference(values: Tensor, base: Tensor) -> Estimate:
    """Difference of two models on the same samples, trained with the same seeds.

    ``values``, ``base``: Float64[S, M], S training seeds, M held-out samples. With
    d = values - base, the two errors are those of the mean over samples of d averaged over seeds,
    and of the mean over seeds of d averaged over samples. With S = 1 the latter is unknown.
    Raises ``ValueError`` if the shapes differ.
    """
    if values.shape != base.shape or values.ndim != 2:
        raise ValueError(
            f"expected two Float[S, M] of one shape, got {tuple(values.shape)} and "
            f"{tuple(base.shape)}"
        )
    # averaged over seeds, then over samples
    difference = values.double() - base.double()
    seeds = difference.mean(dim=1)
    return Estimate(
        mean=float(difference.mean()),
        over_samples=standard_error(difference.mean(dim=0)),
        over_seeds=standard_error(seeds) if len(seeds) > 1 else None,
    )


@dataclass(frozen=True)
class Measure:
    """A number measured on every held-out sample.

    ``title``: its name in a sentence; ``head``: its head in the table; ``notes``: sentences on its
    meaning; ``up``: True if more is better.
    """

    title: str
    head: Callable[[Comparison], str]
    notes: Callable[[Comparison], list[str]]
    up: bool = False


@dataclass(frozen=True)
class Column:
    """A metric in a table or a figure.

    ``head``: title; ``name``: name of the metric; ``digits``: decimals, for shares those of the
    percentage. ``up``: True if more is better, None if neither is. ``share``: True if shown as
    percent; ``of_samples``: True for a share of fresh samples, with Wilson's interval over all
    seeds; ``counted``: the metric that is the number of samples of a share.
    """

    head: str
    name: str
    digits: int
    up: bool | None = False
    share: bool = False
    of_samples: bool = False
    counted: str = "num_samples"


IDENTITY = ("algorithm", "backbone", "instead_of", "model", "parameters", "quantity")
"""Fields of ``ComparedModel`` that every row of a file has."""


@dataclass(frozen=True)
class ComparedModel:
    """One algorithm with one backbone, trained with S seeds.

    ``model``: preset; ``instead_of``: requested backbone, if it cannot be used. ``quantity``: unit
    of the bound, None without a bound. ``values``: numbers of M held-out samples by measure,
    Float64[S, M]; ``metrics``: a number per seed by metric. ``config``, ``folder``: config and
    folder of the run with the first seed. ``tail``: heaviest tail among the seeds of the noise
    samples of the bound, or None.
    """

    algorithm: str
    backbone: str
    model: str
    instead_of: str | None
    parameters: int
    quantity: str | None
    values: Mapping[str, Tensor]
    metrics: Mapping[str, Sequence[float]]
    config: DictConfig
    folder: Path
    tail: DrawTail | None = None

    @property
    def label(self) -> str:
        """Algorithm and backbone."""
        return f"{self.algorithm} ({self.backbone})"

    def mean(self, name: str) -> float:
        """Mean of a metric over seeds; NaN if it was not measured."""
        values = self.metrics.get(name)
        return sum(values) / len(values) if values else math.nan

    def estimate(self, column: Column) -> Estimate:
        """Mean of a metric over seeds, and its errors; NaN if it was not measured.

        ``over_samples``: for a share of fresh samples, ``share_error`` with the samples of all
        seeds; for other metrics the root mean square over seeds of the measured
        ``NAME_standard_error``, since the seeds share held-out samples. ``over_seeds``: s /
        sqrt(S), n - 1; for a share of fresh samples only the part that the choice of samples does
        not explain. A share that is equal for all seeds has at least the error of that many
        samples.
        """
        values, mean = self.metrics.get(column.name, ()), self.mean(column.name)
        over_seeds = standard_error(torch.tensor(values, dtype=torch.float64))
        # a share of fresh samples
        num = self._num_counted(column)
        if num is not None and column.of_samples:
            over_samples = share_error(mean, num)
            beyond = math.sqrt(max(0.0, over_seeds**2 - over_samples**2))
            return Estimate(mean, over_samples, beyond if len(values) > 1 else None)
        # other metrics
        measured = self.metrics.get(f"{column.name}_standard_error", ())
        over_samples = math.hypot(*measured) / math.sqrt(len(measured)) if measured else math.nan
        known = [error for error in (over_samples, over_seeds) if not math.isnan(error)]
        if num is not None and known and not any(known):
            over_samples = share_error(mean, num)
        errors = (None if math.isnan(error) else error for error in (over_samples, over_seeds))
        return Estimate(mean, *errors)

    def _num_counted(self, column: Column) -> float | None:
        """Number of samples of all seeds from which a share is computed; None for other columns."""
        num, mean = sum(self.metrics.get(column.counted, ())), self.mean(column.name)
        return num if column.share and 0 <= mean <= 1 and num > 0 else None

    def errors(self, column: Column) -> dict[str, float | None]:
        """Entries of ``results.json``: errors of a metric, 95 % interval of a share; {} without."""
        estimate, name = self.estimate(column), column.name
        if math.isnan(estimate.standard_error):
            return {}
        entries: dict[str, float | None] = {
            f"{name}_standard_error": estimate.standard_error,
            f"{name}_error_over_samples": estimate.over_samples,
            f"{name}_error_over_seeds": estimate.over_seeds,
        }
        # Wilson's interval over all seeds
        num = self._num_counted(column)
        if num is not None and column.of_samples:
            interval = share_interval(self.metrics[name], num)
            entries |= {f"{name}_low": interval.low, f"{name}_high": interval.high}
        return entries


@dataclass(frozen=True)
class Baseline:
    """Guess without a network: ``values`` Float64[M] by measure, and ``metrics`` by name."""

    name: str
    values: Mapping[str, Tensor]
    metrics: Mapping[str, float]


def _bound_notes(comparison: Comparison) -> list[str]:
    # its samples
    num = comparison.reference("nelbo").values["nelbo"].shape[1]
    notes = [
        f"The bound is of {counted(num, 'sample')} of the {comparison.split} split, the same for "
        f"all, {counted(comparison.noise_samples, 'noise draw')} each."
    ]
    # models without a bound, or with a doubtful one
    without = dict.fromkeys(m.algorithm for m in comparison.models if "nelbo" not in m.values)
    if without:
        notes.append(
            f"No bound of {', '.join(without)}: it would be of the density of numbers, the bound "
            "here is of the probability of ids; the two do not compare."
        )
    for name, model in zip(comparison.short_names(), comparison.models, strict=True):
        if model.tail is not None and model.tail.is_doubtful:
            notes.append(model.tail.warning(f"of {name}"))
    return notes


BOUND = Measure("the bound", lambda comparison: f"bound, {comparison.quantity}", _bound_notes)


@dataclass(frozen=True)
class Comparison:
    """Models and ``baselines`` compared on the same held-out samples.

    ``split``: split of the samples. ``noise_samples``: noise samples of the bound per sample.
    ``measured``: measures by name; ``columns``: the metrics of the table. ``against``: algorithm
    that a model is compared with, at the same backbone; None: every model is compared with the
    first.

    Raises ``ValueError`` if bounds are of different quantities, which never share a column, or if
    no measure exists for all models.
    """

    models: tuple[ComparedModel, ...]
    seeds: tuple[int, ...]
    measured: Mapping[str, Measure]
    columns: tuple[Column, ...]
    split: str
    noise_samples: int
    baselines: tuple[Baseline, ...] = ()
    against: str | None = None

    def __post_init__(self) -> None:
        units = {model.quantity for model in self.models if model.quantity is not None}
        if len(units) > 1:
            raise ValueError(f"bounds of different quantities do not compare: {sorted(units)}")
        if not any(all(name in m.values for m in self.models) for name in self.measures):
            labels = ", ".join(model.label for model in self.models)
            raise ValueError(f"nothing was measured of the samples of all of {labels}")

    @property
    def quantity(self) -> str | None:
        """Unit of the bounds; None if no model has one."""
        return next((model.quantity for model in self.models if model.quantity), None)

    @property
    def measures(self) -> list[str]:
        """Names of the measures that at least one model has."""
        return [name for name in self.measured if any(name in m.values for m in self.models)]

    def short_names(self, pattern: str = "{} ({})") -> list[str]:
        """Names of models: their algorithms, with the backbone where an algorithm has several."""
        return short_names([(m.algorithm, m.backbone) for m in self.models], pattern)

    def reference(self, measure: str) -> ComparedModel:
        """First model that has a measure."""
        return next(model for model in self.models if measure in model.values)

    def base(self, model: ComparedModel | Baseline, name: str) -> ComparedModel | None:
        """Model that differences of a measure, or of a metric, are measured against.

        This is the first model with a value, or the algorithm ``against`` with the same backbone or
        its replacement.
        """
        # models that have the number
        having = [m for m in self.models if name in m.values or name in m.metrics]
        own = [m for m in having if self.against in (None, m.algorithm)]
        if self.against is None or isinstance(model, Baseline):
            return own[0] if own else None
        # the same backbone, or a stand-in for it
        wanted = [each for each in (model.backbone, model.instead_of) if each is not None]
        same = [m for each in wanted for m in own if m.backbone == each]
        same += [m for each in wanted for m in own if m.instead_of == each]
        return next(iter(same), None)

    def base_name(self, name: str) -> str:
        """Baseline that differences are measured against."""
        having = (m.algorithm for m in self.models if name in m.values or name in m.metrics)
        return self.against or next(having)

    def value(self, model: ComparedModel | Baseline, measure: str) -> Estimate | None:
        """Mean of a measure with its error over samples and seeds; None without the measure."""
        if measure not in model.values:
            return None
        values = model.values[measure].expand(len(self.seeds), -1)  # a baseline has one row
        return paired_difference(values, torch.zeros_like(values))

    def mean(self, model: ComparedModel, name: str) -> float:
        """Mean of a measure, or of a metric; NaN if it was not measured."""
        value = self.value(model, name)
        return model.mean(name) if value is None else value.mean

    def difference(self, model: ComparedModel | Baseline, measure: str) -> Estimate | None:
        """Difference to ``base``; None for the base itself, or without the measure."""
        base = self.base(model, measure)
        if measure not in model.values or base is None or model is base:
            return None
        return self.apart(model, base, measure)

    def apart(
        self, model: ComparedModel | Baseline, other: ComparedModel, measure: str
    ) -> Estimate | None:
        """Difference of a measure of two models, paired by sample and seed."""
        values = model.values[measure].expand(len(self.seeds), -1)
        return paired_difference(values, other.values[measure])

    def metric_difference(self, model: ComparedModel | Baseline, column: Column) -> Estimate | None:
        """Difference of a metric to ``base``, with samples that are not paired.

        None for the base itself, or without the metric.
        """
        base = self.base(model, column.name)
        if base is None or model is base or column.name not in model.metrics:
            return None
        # a baseline has no error
        own = (
            Estimate(model.metrics[column.name], 0.0, 0.0 if len(self.seeds) > 1 else None)
            if isinstance(model, Baseline)
            else model.estimate(column)
        )
        return own.minus(base.estimate(column))

    def rows(self) -> list[dict[str, Any]]:
        """Rows of ``table.csv`` and ``results.json``: numbers of each model, means over seeds."""
        rows = []
        for model in self.models:
            row = {name: getattr(model, name) for name in IDENTITY} | self._numbers(model)
            row |= {} if model.tail is None else model.tail.as_dict()
            row |= {name: model.mean(name) for name in model.metrics}
            # errors and differences of metrics
            for column in self.columns:
                row |= model.errors(column)
                apart, name = self.metric_difference(model, column), difference_name(column.name)
                if apart is not None and not math.isnan(apart.mean):
                    row |= {name: apart.mean, f"{name}_standard_error": apart.standard_error}
            rows.append(row)
        return rows

    def baseline_rows(self) -> list[dict[str, Any]]:
        """Rows of the baselines in the same form as ``rows``."""
        return [{"name": b.name, **self._numbers(b), **b.metrics} for b in self.baselines]

    def _numbers(self, model: ComparedModel | Baseline) -> dict[str, float | None]:
        """Entries of all measures: values and differences, with errors."""
        out: dict[str, float | None] = {}
        for name in self.measures:
            value, apart = self.value(model, name), self.difference(model, name)
            difference = difference_name(name)
            out[name] = getattr(value, "mean", None)
            out[f"{name}_standard_error"] = getattr(value, "standard_error", None)
            out[difference] = getattr(apart, "mean", None)
            out[f"{difference}_standard_error"] = getattr(apart, "standard_error", None)
            out[f"{difference}_error_over_samples"] = getattr(apart, "over_samples", None)
            out[f"{difference}_error_over_seeds"] = getattr(apart, "over_seeds", None)
        return out


def difference_name(name: str) -> str:
    """Name of the difference of a measure or metric."""
    return "difference" if name == "nelbo" else f"{name}_difference"


def short_names(pairs: Sequence[tuple[str, str]], pattern: str) -> list[str]:
    """Names of algorithms; if one has several backbones, ``pattern`` adds the backbone."""
    several = len({algorithm for algorithm, _ in pairs}) < len({*pairs})
    return [pattern.format(*pair) if several else pair[0] for pair in pairs]
