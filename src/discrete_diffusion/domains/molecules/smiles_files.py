"""Files of molecules: lists of SMILES, tables with a column of them, SDF; compressed ones too."""

from __future__ import annotations

import io
import logging
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from discrete_diffusion.data.text_files import TableError, read_text, split_lines, table_rows
from discrete_diffusion.domains.molecules.file_kinds import SDF, SMILES_TABLE
from discrete_diffusion.runtime.file_kinds import JSON_LINES, FileKind, check_kind
from discrete_diffusion.runtime.inputs import GivenObjects, suffix_of

_MARKS = (",", "\t", ";")
_END_OF_BLOCK = "$$$$"
_DATA_FIELD = re.compile(r">.*<([^<>]+)>")

_EXPECTED = "a list of SMILES, a table with a column smiles, or SDF"

logger = logging.getLogger(__name__)


class Row(NamedTuple):
    """``line``: its number in the file, from 1 on. ``text``: SMILES, or a mol block."""

    line: int
    text: str


def kind_of_molecules(path: str | Path) -> FileKind | None:
    """``SDF``, ``SMILES_TABLE``, ``JSON_LINES`` of graphs, or None of a list; ``ValueError`` naming
    the kind of another file."""
    if not Path(path).is_file():
        return None  # what reads it says so
    return check_kind(Path(path), (SDF, SMILES_TABLE, JSON_LINES), _EXPECTED)


def read_rows(
    path: str | Path | GivenObjects, column: str | None = None, *, keep_blank: bool = False
) -> list[Row]:
    """The molecules of a file, as SMILES or mol blocks, or of the text of objects.

    A table has a header; ``column`` names the one to read, None is ``smiles``, in whatever case.
    SDF has mol blocks, whose data fields are not read. Of any other text the first word of a line
    counts, what follows is its name; a first line ``smiles`` is a header. Blank lines are skipped.
    ``keep_blank``: they are rows without SMILES, as in a file of samples each stands for one that
    is no molecule.

    Raises ``FileNotFoundError`` or ``ValueError`` with one sentence: no such file, another kind of
    file, no such column, no SMILES in it, not text.
    """
    source = read_text(path, SDF, SMILES_TABLE, expected=_EXPECTED)
    path = Path(source.name)
    if source.kind is SMILES_TABLE:
        rows = list(_tabulated(path, source.text, column, keep_blank))
    elif column is not None:
        raise ValueError(
            f"data.column={column}: {path} is a list, not a table; leave it out, or name the "
            "file .csv or .tsv"
        )
    elif source.kind is SDF:
        rows = _mol_blocks(path, source.text)
    else:
        rows = list(_listed(source.text, keep_blank))
    if not rows:
        raise ValueError(f"{path} holds no SMILES; expected one per line")
    return rows


def _mol_blocks(path: Path, text: str) -> list[Row]:
    """Each with the number of its first line."""
    rows, first, lines = [], 1, split_lines(text)
    for number, line in enumerate([*lines, _END_OF_BLOCK], start=1):
        if line.startswith(_END_OF_BLOCK):
            block = "\n".join([*lines[first - 1 : number - 1], ""])
            if block.strip():
                rows.append(Row(first, block))
            first = number + 1
    fields = Counter(found[1] for line in lines if (found := _DATA_FIELD.match(line)))
    if fields:
        named = ", ".join(f"{name} of {num:,}" for name, num in fields.items())
        logger.info("%s: data fields that are not read: %s", path, named)
    return rows


def _listed(text: str, keep_blank: bool) -> Iterator[Row]:
    for number, line in enumerate(split_lines(text), start=1):
        words = line.split()
        if not words and keep_blank:
            yield Row(number, "")
        elif words and not (number == 1 and words[0].lower() == "smiles"):
            yield Row(number, words[0])


def _tabulated(path: Path, text: str, column: str | None, keep_blank: bool) -> Iterator[Row]:
    first = text.partition("\n")[0]
    default = "\t" if suffix_of(path) == ".tsv" else ","
    wanted = "smiles" if column is None else column.lower()
    fitting = (
        mark
        for mark in (default, *_MARKS)
        if wanted in {name.strip(' "\r').lower() for name in first.split(mark)}
    )
    rows = table_rows(io.StringIO(text, newline=""), next(fitting, default))
    try:
        _, header = next(rows, (1, []))
        place = _column(path, [name.strip() for name in header], column)
        for line, cells in rows:
            smiles = cells[place].strip() if place < len(cells) else ""
            if any(cells) or keep_blank:
                yield Row(line, smiles)
    except TableError as error:
        raise ValueError(f"{path}, {error}") from error


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
