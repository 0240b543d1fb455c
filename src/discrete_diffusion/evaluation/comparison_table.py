"""Table of a comparison: heads with direction and unit, cells, and notes on their meaning."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from discrete_diffusion.config.values import check_name, counted
from discrete_diffusion.evaluation.comparison import (
    Baseline,
    Column,
    ComparedModel,
    Comparison,
    Estimate,
    Measure,
    difference_name,
)
from discrete_diffusion.evaluation.sample_scores import error_text
from discrete_diffusion.evaluation.tables import Table, TableColumn

COST = (
    Column("network calls per sample", "network_calls", 1),
    Column("s of training", "seconds_training", 0),
    Column("s per 1,000 samples", "seconds_per_1000_samples", 1),
)
"""Last columns, without errors; real data and baselines have none of them."""

TIED = 1.96
"""Numbers within so many standard errors of their difference are tied."""

TEXTS = {"algorithm": "algorithm", "backbone": "backbone", "model": "model (parameters)"}
"""Titles of the columns of text, by name."""


@dataclass(frozen=True)
class _Shown:
    """Column with its cells.

    ``text``: formats the cell of a model or a baseline; ``real``: cell of real data. ``value``,
    ``apart``: value of a model and difference of two models, to mark the best; or None.
    """

    column: TableColumn
    text: Callable[[Any], str]
    real: str = ""
    value: Callable[[ComparedModel], float] | None = None
    apart: Callable[[ComparedModel, ComparedModel], Estimate | None] | None = None


def check_columns(
    names: Sequence[str], measured: Mapping[str, Measure], columns: Sequence[Column]
) -> None:
    """Raise ``ValueError``, with the nearest name, for a column that a table cannot have."""
    numbers = [*measured, *(column.name for column in columns)]
    differences = map(difference_name, numbers)
    known = [*TEXTS, *numbers, *differences, *(column.name for column in COST)]
    for name in names:
        check_name("column in columns=", name, known)


def comparison_table(
    comparison: Comparison,
    real: Mapping[str, float],
    *,
    columns: Sequence[str] | None = None,
    with_sizes: bool = False,
    mark_best: bool = False,
) -> Table:
    """Build the table of a comparison.

    Metrics that no model has are left out, and so are differences if there is one model. ``real``:
    metrics of real data, shown in the first row; baselines come last. ``columns``: names of the
    columns after ``algorithm``, None for all but the differences of metrics. ``with_sizes``: with
    None, show presets and numbers of parameters too. ``mark_best``: mark the best model of each
    column and models within ``TIED`` standard errors of it, paired if samples are; numbers without
    an error are tied if they look the same.
    """
    # columns of measures, of metrics, and of differences of metrics
    models, measures = comparison.models, comparison.measures
    of_measures = [each for name in measures for each in _measure_columns(comparison, name)]
    there = [
        column
        for column in (*comparison.columns, *COST)
        if any(math.isfinite(model.mean(column.name)) for model in models)
    ]
    pairs = [_metric_columns(comparison, column, real) for column in there]
    metrics = [value for value, _ in pairs]
    texts = _name_columns(
        comparison, with_backbones=columns is not None and "backbone" not in columns
    )
    several = len(models) > 1
    hidden = [pair[1] for c, pair in zip(there, pairs, strict=True) if several and c not in COST]
    shown_columns = [*texts, *of_measures, *metrics, *hidden]
    # rows of real data, models and baselines
    real_row = [("real data", *(shown.real for shown in shown_columns[1:]))] if real else []
    rows = (*models, *comparison.baselines)
    best = _best_cells(shown_columns, models, len(real_row)) if mark_best else frozenset()
    table = Table(
        columns=tuple(shown.column for shown in shown_columns),
        rows=(*real_row, *(tuple(shown.text(row) for shown in shown_columns) for row in rows)),
        groups=(len(real_row), len(models), len(comparison.baselines)),
        best=best,
    )
    # the requested ones
    if columns is None:
        left_out = {shown.column.name for shown in hidden} | (set() if with_sizes else {"model"})
        columns = [c.name for c in table.columns if c.name not in left_out]
    return table.chosen(["algorithm", *(name for name in columns if name != "algorithm")])


def _name_columns(comparison: Comparison, *, with_backbones: bool) -> list[_Shown]:
    """Columns of algorithm, backbone and preset.

    ``with_backbones``: algorithms that have several backbones are named with them.
    """
    # baselines have a name alone
    rows: dict[int, tuple[str, str, str]] = {id(b): (b.name, "", "") for b in comparison.baselines}
    for model, label in zip(comparison.models, comparison.short_names(), strict=True):
        instead = f" (for {model.instead_of})" if model.instead_of else ""
        name = label if with_backbones else model.algorithm
        size = f"{model.model} ({model.parameters:,})"
        rows[id(model)] = (name, model.backbone + instead, size)

    def text(k: int, row: ComparedModel | Baseline) -> str:
        return rows[id(row)][k]

    columns = (TableColumn(name, title, is_text=True) for name, title in TEXTS.items())
    return [_Shown(column, partial(text, k)) for k, column in enumerate(columns)]


def _measure_columns(comparison: Comparison, name: str) -> list[_Shown]:
    """Columns of a measure and of its difference."""
    measure = comparison.measured[name]
    # decimals by unit
    in_nats = name == "nelbo" and not str(comparison.quantity).startswith("bits")
    digits = 2 if in_nats else 3

    def text(row: ComparedModel | Baseline) -> str:
        cell = _format_estimate(comparison.value(row, name), digits)
        return cell + doubt(row) if cell else "–"

    def difference(row: ComparedModel | Baseline) -> str:
        cell = _format_estimate(comparison.difference(row, name), digits, sign="+")
        return cell + doubt(row, comparison.base(row, name)) if cell else ""

    # mark numbers that few noise samples carry
    def doubt(*models: ComparedModel | Baseline | None) -> str:
        return " (few draws)" if is_doubtful(*models, measure=name) else ""

    # the value, and the difference if there are several models
    value = _Shown(
        TableColumn(name, measure.head(comparison), measure.up),
        text,
        value=lambda model: comparison.mean(model, name) if name in model.values else math.nan,
        apart=lambda one, other: comparison.apart(one, other, name),
    )
    if len(comparison.models) == 1:
        return [value]
    of = f"{measure.title.removeprefix('the ')}, " if len(comparison.measures) > 1 else ""
    title = f"{of}difference to {comparison.base_name(name)}"
    return [value, _Shown(TableColumn(difference_name(name), title, measure.up), difference)]


def verdicts(comparison: Comparison) -> list[str]:
    """Return a sentence per model on its difference to the baseline, in the first measure.

    A difference within ``TIED`` standard errors is called no evidence; one that a few noise samples
    dominate is called doubtful."""
    name = comparison.measures[0]
    measure, names = comparison.measured[name], comparison.short_names()
    sentences = []
    for label, model in zip(names, comparison.models, strict=True):
        found, base = comparison.difference(model, name), comparison.base(model, name)
        if found is None or base is None:
            continue
        grade = "better" if (found.mean > 0) is measure.up else "worse"
        error = found.standard_error
        sentence = f"{label} is {with_error(abs(found.mean), error, 3)} {grade} than "
        sentence += f"{comparison.base_name(name)} in {measure.title}"
        if is_doubtful(model, base, measure=name):
            sentence += "; few noise samples dominate it, more noise_samples would tell"
        elif not abs(found.mean) > TIED * error:
            sentence += "; within its error, so no evidence of a difference"
        sentences.append(f"{sentence}.")
    return sentences


def is_doubtful(*models: ComparedModel | Baseline | None, measure: str) -> bool:
    """Return True if a few noise samples dominate the bound of one of the models."""
    tails = [m.tail for m in models if isinstance(m, ComparedModel) and measure == "nelbo"]
    return any(tail is not None and tail.is_doubtful for tail in tails)


def _metric_columns(
    comparison: Comparison, column: Column, real: Mapping[str, float]
) -> tuple[_Shown, _Shown]:
    """Columns of a metric and of its difference."""
    unit, scale = (", %", 100) if column.share else ("", 1)

    def text(row: ComparedModel | Baseline) -> str:
        if isinstance(row, Baseline):
            return _format_metric(row.metrics, column)
        # the mean over seeds; errors of shares keep a figure that is not 0
        mean = scale * row.mean(column.name)
        error = math.nan if column in COST else scale * row.estimate(column).standard_error
        cell = _format_number(mean, column.digits)
        if cell and column.share and math.isfinite(error):
            return f"{cell} ± {error_text(error, column.digits)}"
        return with_error(mean, error, column.digits)

    def difference(row: ComparedModel | Baseline) -> str:
        found = comparison.metric_difference(row, column)
        return _format_estimate(found, column.digits, scale, sign="+")

    value = _Shown(
        TableColumn(column.name, f"{column.head}{unit}", column.up),
        text,
        _format_metric(real, column),
        value=lambda model: model.mean(column.name),
        apart=lambda one, other: one.estimate(column).minus(other.estimate(column)),
    )
    name, base = difference_name(column.name), comparison.base_name(column.name)
    title = f"{column.head}, difference to {base}{unit}"
    return value, _Shown(TableColumn(name, title, column.up), difference)


def _best_cells(
    found: Sequence[_Shown], models: Sequence[ComparedModel], first: int
) -> frozenset[tuple[int, int]]:
    """Cells (row, column) of the best of the ``models``, whose rows begin at ``first``."""
    best = set()
    for k, shown in enumerate(found):
        if shown.value is None or shown.apart is None or shown.column.up is None:
            continue
        # the best, and those that are tied with it
        values = {model.label: shown.value(model) for model in models}
        there = [model for model in models if math.isfinite(values[model.label])]
        if len(there) < 2:
            continue
        top = (max if shown.column.up else min)(there, key=lambda model: values[model.label])
        for row, model in enumerate(models, first):
            if model not in there:
                continue
            tied, apart = shown.text(model) == shown.text(top), shown.apart(model, top)
            if tied or (apart is not None and abs(apart.mean) <= TIED * apart.standard_error):
                best.add((row, k))
    return frozenset(best)


def _format_estimate(
    estimate: Estimate | None, digits: int, scale: float = 1, sign: str = ""
) -> str:
    if estimate is None:
        return ""
    return with_error(scale * estimate.mean, scale * estimate.standard_error, digits, sign=sign)


def _format_metric(metrics: Mapping[str, float], column: Column) -> str:
    if column in COST or column.name not in metrics:
        return ""
    return _format_number((100 if column.share else 1) * metrics[column.name], column.digits)


def table_notes(comparison: Comparison) -> list[str]:
    """Notes on the numbers, in sentences."""
    # measures and errors
    models, seeds = comparison.models, comparison.seeds
    names = sorted(comparison.measures, key=lambda name: name != "nelbo")  # the bound first
    notes = [note for name in names for note in comparison.measured[name].notes(comparison)]
    notes.append(_error_note(comparison))
    if comparison.against is not None:
        notes.append(
            f"Differences are to {comparison.against} with the same backbone, or with the one that "
            "another stands in for."
        )
    if len(seeds) == 1:
        notes.append(
            f"One training seed ({seeds[0]}): no error says what training with another would give."
        )
    # numbers of samples and of parameters
    drawn = sorted({int(n) for m in models if math.isfinite(n := m.mean("num_samples"))})
    if drawn:
        each = "every model and seed" if len(seeds) > 1 else "every model"
        notes.append(f"{' or '.join(counted(n, 'sample') for n in drawn)} of {each}.")
    sizes = sorted({model.parameters for model in models})
    notes.append(
        f"Parameters: {' to '.join(f'{size:,}' for size in dict.fromkeys((sizes[0], sizes[-1])))}."
    )
    # caveats
    notes += _distinct_notes(comparison)
    first, *others = zip(comparison.short_names(), models, strict=True)
    base = first[1].parameters
    notes += [
        f"{name} has {abs(model.parameters / base - 1):.1%} "
        f"{'more' if model.parameters > base else 'fewer'} parameters than {first[0]}."
        for name, model in others
        if abs(model.parameters / base - 1) > 0.05
    ]
    notes += [
        f"{model.algorithm} cannot use {model.instead_of}: it has {model.backbone} "
        f"({model.model}, {model.parameters:,} parameters) in its place."
        for model in models
        if model.instead_of
    ]
    return notes


def _distinct_notes(comparison: Comparison) -> list[str]:
    """Notes on columns of a model that are measured on fewer than 100 distinct samples."""
    notes = []
    for name, model in zip(comparison.short_names(), comparison.models, strict=True):
        # columns by their number of samples
        few: dict[tuple[int, int], list[str]] = {}
        for column in comparison.columns:
            num = model.mean(column.counted)
            distinct = model.mean("num_distinct") if column.counted == "num_samples" else num
            fewest = min(num, distinct) if math.isfinite(distinct) else num
            if math.isfinite(model.mean(column.name)) and fewest < 100:
                few.setdefault((round(fewest), round(num)), []).append(column.head)
        notes += [
            f"{', '.join(heads)} of {name}: of few distinct samples, {distinct:,} of {num:,}."
            for (distinct, num), heads in few.items()
        ]
    return notes


def _error_note(comparison: Comparison) -> str:
    """Note on the meaning of ±."""
    models, several = comparison.models, len(comparison.seeds) > 1
    over = "over held-out samples and seeds" if several else "over held-out samples"
    # sources of error of each kind of number
    shares = any(
        math.isfinite(m.mean(c.name)) for m in models for c in comparison.columns if c.of_samples
    )
    drawn = f"; of shares over the samples drawn{' and seeds' * several}" * shares
    others = "; of other numbers over seeds" * several
    of = " and ".join(comparison.measured[name].title for name in comparison.measures)
    return (
        f"± is one standard error: of {of} {over}"
        + f"; of a difference too, paired by sample{' and seed' * several}" * (len(models) > 1)
        + f"{drawn}{others}."
    )


def with_error(value: float, error: float, digits: int, *, sign: str = "") -> str:
    """Format ``value ± error``; the value alone without an error, "" without a value."""
    text = _format_number(value, digits, sign)
    return f"{text} ± {_format_number(error, digits)}" if text and math.isfinite(error) else text


def _format_number(value: Any, digits: int, sign: str = "") -> str:
    if not isinstance(value, int | float) or not math.isfinite(value):
        return ""
    if round(value, digits) == 0:  # neither below nor above: no sign
        value, sign = 0.0, ""
    return f"{value:{sign}.4g}" if abs(value) >= 1e6 else f"{value:{sign},.{digits}f}"
