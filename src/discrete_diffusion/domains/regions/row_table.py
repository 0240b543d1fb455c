"""The tables of an evaluation of filled rows: who predicts them, and how well."""

from __future__ import annotations

from collections.abc import Mapping

from discrete_diffusion.domains.regions.row_scores import FillingScores, ScoresByMaskRate
from discrete_diffusion.evaluation.table import TableRow, TableSection

_WHO = {
    "": ("model", "its expected rows, one network call"),
    "filled_": ("model, filled", "the rows that the sampler filled in"),
    "column_mean_": ("column mean", "the mean training row"),
    "window_mean_": ("window mean", "of the observed rows of the window, shrunk"),
    "neighbour_mean_": ("neighbour mean", "of the observed rows near by, shrunk"),
    "oracle_": ("oracle", "the mean training row of the true programme: the ceiling"),
}
_WHAT = ("per_motif_r", "per_motif_r2", "masked_mse")


def row_section(shown: Mapping[str, str]) -> TableSection:
    """Who predicts hidden rows, from the texts of ``FillingScores.as_dict`` by name."""
    rows = []
    for prefix, (name, meaning) in _WHO.items():
        if prefix + _WHAT[0] in shown:
            r, r2, mse = (shown[prefix + what] for what in _WHAT)
            rows.append(TableRow(name, r, r2, mse, meaning))
    heads = ("hidden rows predicted by", *_WHAT)
    return TableSection("hidden rows, from those observed", tuple(rows), heads)


def rate_section(by_rate: ScoresByMaskRate) -> TableSection:
    """``per_motif_r`` by how much is hidden."""
    r = {name: [score.per_motif_r for score in scores] for name, scores in by_rate.by_name.items()}
    names = [name for name in ("model", "neighbour_mean", "oracle") if name in r]
    rows = [
        TableRow(f"{100 * rate:g} %", *(number(r[name][k]) for name in names))
        for k, rate in enumerate(by_rate.rates)
    ]
    heads = ("hidden", "per_motif_r", *(name.replace("_", " ") for name in names[1:]))
    return TableSection("by how much is hidden", tuple(rows), heads)


def row_notes(*by_seed: FillingScores) -> list[str]:
    """What the numbers of ``row_section`` are of, in sentences; ``by_seed``: one at least."""
    first = by_seed[0]
    hidden = sorted({scores.predicted.num_rows for scores in by_seed})
    shown = " to ".join(f"{num:,}" for num in dict.fromkeys((hidden[0], hidden[-1])))
    return [
        f"{shown} rows hidden in {first.num_windows:,} windows at mask rate {first.mask_rate:g}; "
        f"{first.predicted.num_columns:,} columns, {first.predicted.dropped_columns:,} constant "
        "ones left out.",
        "Means over columns: per_motif_r, the correlation with the truth; per_motif_r2, the share "
        "of the spread about the training mean that is explained; masked_mse, the squared error in "
        "training standard deviations.",
    ]


def number(value: float) -> str:
    """Four decimals, without a sign of 0."""
    return f"{round(value, 4) + 0.0:.4f}"
