"""The table of a comparison: heads with direction and unit, texts, and what they mean."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from discrete_diffusion.evaluation.comparison import (
    Baseline,
    Column,
    ComparedModel,
    Comparison,
    Measure,
    PairedDifference,
    arrow,
)
from discrete_diffusion.naming import counted

MISSING = "–"
"""In the place of a value that a model does not have."""

_LARGE = 1e6
"""Numbers from here on are shown as 1.234e+08."""


COST = (
    Column("network calls per sample", "network_calls", 1, quality=False),
    Column("s of training", "seconds_training", 0, quality=False),
    Column("s per 1,000 samples", "seconds_per_1000_samples", 1, quality=False),
)
"""The last columns."""


def table_cells(
    comparison: Comparison, real: Mapping[str, float] | None = None
) -> tuple[list[str], list[list[str]]]:
    """Heads and texts of the table; metrics that no model has are left out, and differences where
    there is one model. ``real``: what real data scores, the first row; baselines are the last."""
    models, several = comparison.models, len(comparison.models) > 1
    columns = [
        column
        for column in (*comparison.columns, *COST)
        if any(math.isfinite(model.mean(column.name)) for model in models)
    ]
    heads = ["algorithm", "backbone"]
    for measure in comparison.measures:
        shown, first = _measure(comparison, measure), comparison.reference(measure).algorithm
        heads.append(shown.head(comparison) + arrow(shown.up))
        short = shown.said.removeprefix("the ")
        of = f"{short}, " if len(comparison.measures) > 1 else ""
        heads += [f"{of}difference to {first}{arrow(shown.up)}"] if several else []
    cells = []
    if real:
        blank = [""] * (len(heads) - 1)
        cells.append(["real data", *blank, *(_real(real, column) for column in columns)])
    heads += [column.title for column in columns]
    for model in models:
        backbone = model.backbone + (f" (for {model.instead_of})" if model.instead_of else "")
        row = [model.algorithm, backbone, *_compared(comparison, model, several)]
        cells.append([*row, *(_measured(model, column) for column in columns)])
    for baseline in comparison.baselines:
        row = [baseline.name, "", *_compared(comparison, baseline, several)]
        cells.append([*row, *(_real(baseline.metrics, column) for column in columns)])
    return heads, cells


_BOUND = Measure("the bound", lambda c: f"bound, {c.quantity}", lambda c, split: "")


def _measure(comparison: Comparison, name: str) -> Measure:
    return _BOUND if name == "nelbo" else comparison.measured[name]


def _compared(
    comparison: Comparison, model: ComparedModel | Baseline, several: bool
) -> Iterator[str]:
    """Value and difference of every measure."""
    for measure in comparison.measures:
        bits = (comparison.quantity or "").startswith("bits")
        digits = 2 if measure == "nelbo" and not bits else 3
        yield _paired(comparison.value(model, measure), digits) or MISSING
        if several:
            yield _paired(comparison.difference(model, measure), digits, sign="+")


def _paired(found: PairedDifference | None, digits: int, sign: str = "") -> str:
    return "" if found is None else with_error(found.mean, found.standard_error, digits, sign=sign)


def table_notes(comparison: Comparison, *, split: str, draws: int) -> list[str]:
    """What the numbers are, in sentences."""
    models, seeds = comparison.models, comparison.seeds
    notes = [*_said_of_samples(comparison, split, draws), _said_of_errors(comparison)]
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
    notes += [
        f"{model.algorithm} cannot use {model.instead_of}: it has {model.backbone} "
        f"({model.model}, {model.parameters:,} parameters) in its place."
        for model in models
        if model.instead_of
    ]
    return notes


def _said_of_samples(comparison: Comparison, split: str, draws: int) -> list[str]:
    """What the values of held-out samples are, a sentence per measure."""
    notes, models = [], comparison.models
    if "nelbo" in comparison.measures:
        num = comparison.reference("nelbo").values["nelbo"].shape[1]
        notes.append(
            f"The bound is of {counted(num, 'sample')} of the {split} split, the same for all, "
            f"{counted(draws, 'noise draw')} each."
        )
        without = [m.algorithm for m in models if "nelbo" not in m.values]
        if without:
            notes.append(
                f"No bound of {', '.join(dict.fromkeys(without))}: it would be of the density of "
                "numbers, the bound here is of the probability of ids; the two do not compare."
            )
    others = [name for name in comparison.measures if name != "nelbo"]
    return [*notes, *(comparison.measured[name].note(comparison, split) for name in others)]


def _said_of_errors(comparison: Comparison) -> str:
    models, several = comparison.models, len(comparison.seeds) > 1
    over = "over held-out samples and seeds" if several else "over held-out samples"
    shares = any(
        math.isfinite(m.mean(c.name)) for m in models for c in comparison.columns if c.of_samples
    )
    others = "; of other numbers over seeds" if several else "; of shares over the samples drawn"
    of = " and ".join(_measure(comparison, measure).said for measure in comparison.measures)
    return (
        f"± is one standard error: of {of} {over}"
        + f"; of a difference too, paired by sample{' and seed' * several}" * (len(models) > 1)
        + others * (several or shares)
        + "."
    )


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
    if round(value, digits) == 0:  # neither below nor above: no sign
        value, sign = 0.0, ""
    return f"{value:{sign}.4g}" if abs(value) >= _LARGE else f"{value:{sign},.{digits}f}"
