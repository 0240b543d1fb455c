"""Tables of a comparison: its files, and what the terminal shows."""

from __future__ import annotations

import csv
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.compare.folder import write_json
from discrete_diffusion.evaluation.comparison_table import TIED
from discrete_diffusion.evaluation.typesetting import HEAD_WIDTH
from discrete_diffusion.runtime.atomic_files import atomic_write, write_text

if TYPE_CHECKING:
    from rich.console import JustifyMethod

    from discrete_diffusion.evaluation.typesetting import Table

_IDENTITY = ("algorithm", "backbone", "instead_of", "model", "parameters", "quantity")
"""Keys of a row of ``table.csv`` that it has whatever columns are chosen."""

_WITH_ERRORS = ("", "_standard_error", "_error_over_samples", "_error_over_seeds", "_low", "_high")
"""What follows the name of a number in the names of its own ones."""


def write_tables(
    out: Path,
    table: Table,
    notes: Sequence[str],
    results: dict[str, Any],
    columns: Sequence[str] | None,
) -> list[str]:
    """Write tables and numbers; names of the files."""
    listed = "\n".join(f"* {note}" for note in notes)
    write_text(out / "table.md", f"{table.markdown()}\n{listed}\n")
    bold = f"Bold: the best of the models, and what is within {TIED:g} standard errors of it."
    write_text(out / "table.tex", table.latex([*notes, bold]))
    write_json(out / "results.json", results)
    _write_csv(out / "table.csv", results["models"], columns)
    return ["table.md", "table.csv", "table.tex", "results.json"]


def _write_csv(
    path: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None
) -> None:
    """A column for each name that any of the rows has; or, behind those that say which model it
    is, the chosen ones with their errors."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    if columns is not None:
        chosen = [f"{name}{ending}" for name in columns for ending in _WITH_ERRORS]
        names = [*_IDENTITY, *(n for n in chosen if n in names and n not in _IDENTITY)]
    with atomic_write(path) as unfinished, unfinished.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def print_table(table: Table, notes: Sequence[str]) -> None:
    """Print to standard output, as wide as it needs to be, whatever it is read on."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as PrintedTable

    printed = PrintedTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in table.columns:
        side: JustifyMethod = "left" if column.is_text else "right"
        printed.add_column(textwrap.fill(column.head, HEAD_WIDTH), justify=side, no_wrap=True)
    for row in table.rows:
        printed.add_row(*row)
    width = sum(max(map(len, cells), default=0) + 3 for cells in zip(*table.rows, strict=True))
    console = Console(highlight=False, width=width + 20 * len(table.columns))  # never cut
    console.print(printed)
    for note in notes:
        console.print(f"* {note}", markup=False, soft_wrap=True)
