"""Files of SMILES: tables with a column of them, and lists of one per line; gzipped too."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from discrete_diffusion.data.text_files import read_text, split_lines, suffix_of
from discrete_diffusion.runtime.given_objects import GivenObjects

TABLES = {".csv": ",", ".tsv": "\t"}
"""Endings of tables, with what separates their columns."""


class Row(NamedTuple):
    """``line``: its number in the file, from 1 on."""

    line: int
    smiles: str


def read_rows(
    path: str | Path | GivenObjects, column: str | None = None, *, keep_blank: bool = False
) -> list[Row]:
    """The SMILES of a file, or of the text of objects.

    A ``.csv`` or ``.tsv`` has a header; ``column`` names the one to read, None is ``smiles``, in
    whatever case, or the only one. Of any other file the first word of a line counts, what follows
    is its name; a first line ``smiles`` is a header. Blank lines are skipped. ``keep_blank``:
    they are rows without SMILES, as in a file of samples each stands for one that is no molecule.

    Raises ``FileNotFoundError`` or ``ValueError`` with one sentence: no such file, no such column,
    no SMILES in it, not text.
    """
    text = read_text(path).text
    path = Path(str(path))
    separator = TABLES.get(suffix_of(path))
    if separator is None:
        if column is not None:
            raise ValueError(
                f"data.column={column}: {path} is a list, not a table; leave it out, or name the "
                "file .csv or .tsv"
            )
        rows = list(_listed(text, keep_blank))
    else:
        rows = list(_tabulated(path, text, separator, column, keep_blank))
    if not rows:
        raise ValueError(f"{path} holds no SMILES; expected one per line")
    return rows


def _listed(text: str, keep_blank: bool) -> Iterator[Row]:
    for number, line in enumerate(split_lines(text), start=1):
        words = line.split()
        if not words and keep_blank:
            yield Row(number, "")
        elif words and not (number == 1 and words[0].lower() == "smiles"):
            yield Row(number, words[0])


def _tabulated(
    path: Path, text: str, separator: str, column: str | None, keep_blank: bool
) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    header = [name.strip() for name in next(reader, [])]
    place = _column(path, header, column)
    for cells in reader:
        smiles = cells[place].strip() if place < len(cells) else ""
        if any(cells) or keep_blank:
            yield Row(reader.line_num, smiles)


def _column(path: Path, header: list[str], column: str | None) -> int:
    if column is not None and column in header:
        return header.index(column)
    lower = [name.lower() for name in header]
    if column is None and "smiles" in lower:
        return lower.index("smiles")
    there = f"its columns are {', '.join(header)}"
    if column is not None:
        raise ValueError(f"data.column={column}: {path} has no such column; {there}")
    raise ValueError(
        f"{path} has no column smiles; {there}: name the one to read, data.column=NAME (a list "
        "without a header is a .smi or .txt file)"
    )
