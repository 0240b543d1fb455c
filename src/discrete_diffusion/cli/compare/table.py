"""What stands around the numbers of a comparison: its setting, notes, the row of real data."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.compare.folder import read_json, write_json

if TYPE_CHECKING:
    from discrete_diffusion.cli.compare.cells import Cell
    from discrete_diffusion.data import Dataset
    from discrete_diffusion.domains.cell_measurement import CellMeasurement
    from discrete_diffusion.evaluation.comparison import Comparison
    from discrete_diffusion.evaluation.equal_terms import EqualTerms

REAL_DATA = "real_data.json"
"""In ``out``: what real data scores."""


def setting_of(cells: Sequence[Cell], result: dict[str, Any]) -> str:
    """Data, steps and model of a comparison, whose model is whose where they differ. ``result``: of
    the first cell."""
    from discrete_diffusion.cli.compare.cells import names_beside

    models: dict[str, dict[str, None]] = {}
    for cell, name in zip(cells, names_beside(cells), strict=True):
        models.setdefault(cell.model, {})[name] = None
    whose = [f"{model} ({', '.join(names)})" for model, names in models.items()]
    said = f"model {cells[0].model}" if len(models) == 1 else f"models {' and '.join(whose)}"
    steps, size = result["steps"], cells[0].config.data.batch_size
    return (
        f"{' and '.join(dict.fromkeys(cell.data for cell in cells))}, {steps:,} "
        f"step{'' if steps == 1 else 's'} of batch size {size}, {said}"
    )


def said_of_table(
    comparison: Comparison,
    cells: Sequence[Cell],
    data: Mapping[str, Dataset],
    result: dict[str, Any],
    terms: EqualTerms,
    real: dict[str, Any],
) -> list[str]:
    """What the numbers of the table are. ``result``: of the first cell; ``real``: its row."""
    from discrete_diffusion.evaluation.comparison_table import table_notes

    seeds = ", ".join(map(str, comparison.seeds))
    path = str(cells[0].config.data.get("path") or "")
    summary = next(iter(data.values())).summary()
    summary = summary.replace(path, Path(path).name) if path else summary
    notes = [
        f"{setting_of(cells, result)}, seed{'s' * (len(comparison.seeds) > 1)} {seeds}. "
        f"Data: {summary}.",
        *table_notes(comparison, split=result["split"], draws=terms.bound_draws),
    ]
    if real:
        notes.append(
            f"Real data: {real['num_samples']:,} training samples in place of a model's, against "
            f"the same {result['split']} split, mean of {real['draws']} draws."
        )
    return [*notes, *cells[0].measurement.notes(cells), f"{result['hardware']}."]


def real_data(
    path: Path, data: Dataset, comparison: Comparison, measurement: CellMeasurement
) -> dict[str, Any]:
    """What real data scores at the sizes of the samples, kept in ``path``; {} without samples, and
    where these are measured against true ones."""
    from discrete_diffusion.evaluation.equal_terms import REAL_DRAWS

    measured = [
        model.metrics["num_samples"][0]
        for model in comparison.models
        if "num_samples" in model.metrics
    ]
    if not measured:
        return {}
    num = min(int(measured[0]), len(data.splits["train"]))
    made_of = {"data_fingerprint": data.fingerprint(), "num_samples": num, "draws": REAL_DRAWS}
    kept = read_json(path, ("metrics", *made_of))
    if kept is None or any(kept[key] != value for key, value in made_of.items()):
        kept = {**made_of, "metrics": measurement.real_data(data, num)}
        write_json(path, kept)
    return kept if kept["metrics"] else {}


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> None:
    """To standard output, as wide as it needs to be, whatever it is read on."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for k, head in enumerate(heads):
        table.add_column(
            textwrap.fill(head, 16), justify="left" if k < 2 else "right", no_wrap=True
        )
    for row in rows:
        table.add_row(*row)
    width = sum(max(map(len, column), default=0) + 3 for column in zip(*rows, strict=True))
    console = Console(highlight=False, width=width + 20 * len(heads))  # never cut
    console.print(table)
    for note in notes:
        console.print(f"* {note}", markup=False, soft_wrap=True)
