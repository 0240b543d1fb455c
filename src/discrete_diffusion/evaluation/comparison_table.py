"""The table of a comparison: heads with direction and unit, texts, and what they mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from discrete_diffusion.config.naming import counted
from discrete_diffusion.evaluation.comparison import (
    Baseline,
    Column,
    ComparedModel,
    Comparison,
    Estimate,
)
from discrete_diffusion.evaluation.intervals import error_text

MISSING = "–"
"""In the place of a value that a model does not have."""

COST = (
    Column("network calls per sample", "network_calls", 1),
    Column("s of training", "seconds_training", 0),
    Column("s per 1,000 samples", "seconds_per_1000_samples", 1),
)
"""The last columns: neither real data nor baselines have them, and they have no errors."""

EQUAL_SIZES = 0.05
"""Numbers of parameters further apart than this share of the first one are spoken of."""

_LARGE = 1e6
"""Numbers from here on are shown as 1.234e+08."""

_ARROWS = {True: " ↑", False: " ↓", None: ""}
"""Behind a title: which way is better."""


def table_cells(
    comparison: Comparison, real: Mapping[str, float], *, with_sizes: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Heads and texts of the table; metrics that no model has are left out, and differences where
    there is one model. ``real``: what real data scores, the first row; baselines are the last.
    ``with_sizes``: the third column has the presets and their numbers of parameters."""
    models, measures = comparison.models, comparison.measures
    shown = [
        column
        for column in (*comparison.columns, *COST)
        if any(math.isfinite(model.mean(column.name)) for model in models)
    ]
    heads = ["algorithm", "backbone", *["model (parameters)"] * with_sizes]
    for name in measures:
        measure, first = comparison.measured[name], comparison.reference(name).algorithm
        heads.append(measure.head(comparison) + _ARROWS[measure.up])
        of = f"{measure.title.removeprefix('the ')}, " if len(measures) > 1 else ""
        heads += [f"{of}difference to {first}{_ARROWS[measure.up]}"] * (len(models) > 1)
    blank = [""] * (len(heads) - 1)
    rows = [["real data", *blank, *(_number(real, column) for column in shown)]] if real else []
    for model in models:
        backbone = model.backbone + (f" (for {model.instead_of})" if model.instead_of else "")
        metrics = [_mean(model, column) for column in shown]
        size = [f"{model.model} ({model.parameters:,})"] * with_sizes
        rows.append([model.algorithm, backbone, *size, *_measures(comparison, model), *metrics])
    for guess in comparison.baselines:
        metrics = [_number(guess.metrics, column) for column in shown]
        blank = [""] * (1 + with_sizes)
        rows.append([guess.name, *blank, *_measures(comparison, guess), *metrics])
    titles = [f"{c.head}{', %' if c.share else ''}{_ARROWS[c.up]}" for c in shown]
    return heads + titles, rows


def _measures(comparison: Comparison, model: ComparedModel | Baseline) -> list[str]:
    """Value and difference of every measure."""
    texts = []
    for name in comparison.measures:
        in_nats = name == "nelbo" and not str(comparison.quantity).startswith("bits")
        digits = 2 if in_nats else 3
        texts.append(_paired(comparison.value(model, name), digits) or MISSING)
        if len(comparison.models) > 1:
            texts.append(_paired(comparison.difference(model, name), digits, sign="+"))
    return texts


def _paired(found: Estimate | None, digits: int, sign: str = "") -> str:
    return "" if found is None else with_error(found.mean, found.standard_error, digits, sign=sign)


def _mean(model: ComparedModel, column: Column) -> str:
    """Mean of a metric over seeds, with its error."""
    scale, error = 100 if column.share else 1, math.nan
    if column not in COST:
        error = model.estimate(column).standard_error
    text = _shown(scale * model.mean(column.name), column.digits)
    if text and column.share and math.isfinite(error):
        return f"{text} ± {error_text(scale * error, column.digits)}"
    return with_error(scale * model.mean(column.name), scale * error, column.digits)


def _number(metrics: Mapping[str, float], column: Column) -> str:
    if column in COST or column.name not in metrics:
        return ""
    return _shown((100 if column.share else 1) * metrics[column.name], column.digits)


def table_notes(comparison: Comparison) -> list[str]:
    """Notes on what the numbers are, in sentences."""
    models, seeds = comparison.models, comparison.seeds
    names = sorted(comparison.measures, key=lambda name: name != "nelbo")  # the bound first
    notes = [note for name in names for note in comparison.measured[name].notes(comparison)]
    notes.append(_error_note(comparison))
    if len(seeds) == 1:
        notes.append(
            f"One training seed ({seeds[0]}): no error says what training with another would give."
        )
    drawn = sorted({int(n) for m in models if math.isfinite(n := m.mean("num_samples"))})
    if drawn:
        each = "every model and seed" if len(seeds) > 1 else "every model"
        notes.append(f"{' or '.join(counted(n, 'sample') for n in drawn)} of {each}.")
    sizes = sorted({model.parameters for model in models})
    notes.append(
        f"Parameters: {' to '.join(f'{size:,}' for size in dict.fromkeys((sizes[0], sizes[-1])))}."
    )
    notes += _size_notes(comparison)
    notes += [
        f"{model.algorithm} cannot use {model.instead_of}: it has {model.backbone} "
        f"({model.model}, {model.parameters:,} parameters) in its place."
        for model in models
        if model.instead_of
    ]
    return notes


def _size_notes(comparison: Comparison) -> list[str]:
    """Differences of the sizes of models from the first one's, where they are not equal."""
    first, *others = zip(comparison.short_names(), comparison.models, strict=True)
    base = first[1].parameters
    return [
        f"{name} has {abs(model.parameters / base - 1):.1%} "
        f"{'more' if model.parameters > base else 'fewer'} parameters than {first[0]}."
        for name, model in others
        if abs(model.parameters / base - 1) > EQUAL_SIZES
    ]


def _error_note(comparison: Comparison) -> str:
    models, several = comparison.models, len(comparison.seeds) > 1
    over = "over held-out samples and seeds" if several else "over held-out samples"
    shares = any(
        math.isfinite(m.mean(c.name)) for m in models for c in comparison.columns if c.of_samples
    )
    others = "; of other numbers over seeds" if several else "; of shares over the samples drawn"
    of = " and ".join(comparison.measured[name].title for name in comparison.measures)
    return (
        f"± is one standard error: of {of} {over}"
        + f"; of a difference too, paired by sample{' and seed' * several}" * (len(models) > 1)
        + others * (several or shares)
        + "."
    )


def markdown_table(
    heads: Sequence[str], cells: Sequence[Sequence[str]], *, num_left: int = 2
) -> str:
    """The table, the first ``num_left`` columns to the left."""
    lines = [heads, [*["---"] * num_left, *["---:"] * (len(heads) - num_left)], *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def with_error(value: float, error: float, digits: int, *, sign: str = "") -> str:
    """``value ± error``; the value alone without an error, nothing without a value."""
    text = _shown(value, digits, sign)
    return f"{text} ± {_shown(error, digits)}" if text and math.isfinite(error) else text


def _shown(value: Any, digits: int, sign: str = "") -> str:
    if not isinstance(value, int | float) or not math.isfinite(value):
        return ""
    if round(value, digits) == 0:  # neither below nor above: no sign
        value, sign = 0.0, ""
    return f"{value:{sign}.4g}" if abs(value) >= _LARGE else f"{value:{sign},.{digits}f}"
