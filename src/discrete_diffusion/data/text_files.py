"""Text files: UTF-8, plain or compressed by gzip, xz or bzip2."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from discrete_diffusion.runtime.file_kinds import FileKind, check_kind
from discrete_diffusion.runtime.inputs import (
    CompressedFileError,
    GivenObjects,
    open_unpacked,
    place_of_line,
)


class TableError(ValueError):
    """Fault of a table, which names the line but not the file."""


@dataclass(frozen=True)
class TextSource:
    """``text``, and the ``name`` of where it was found: a path, the embedded text, or objects.
    ``kind``: of the file, None of text that nothing tells."""

    name: str
    text: str
    given: GivenObjects | None = None
    kind: FileKind | None = None

    def place(self, line: int) -> str:
        """Place of a line, for errors."""
        return place_of_line(self.name if self.given is None else self.given, line)


def split_lines(text: str) -> list[str]:
    r"""The lines of a file: they end at ``\n``, ``\r\n`` or ``\r`` alone, where
    ``str.splitlines`` cuts at a form feed or U+2028 too, which JSON has inside of strings."""
    return [line.removesuffix("\n") for line in StringIO(text, newline=None)]


def table_rows(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row of a table, and the number of its last line. Raises ``TableError`` for
    a quote that is never closed, or has text behind it."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    first = 1
    try:
        for cells in reader:
            yield reader.line_num, cells
            first = reader.line_num + 1
    except csv.Error as error:
        raise TableError(
            f"line {first:,}: {error}; close every quote, and write a quote within quotes twice"
        ) from error


def load_json(text: str) -> Any:
    """The value of a JSON text. Raises ``ValueError`` with one sentence for what is none, is nested
    too deeply, or gives a key twice."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in found if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} is given twice in one object; leave one of them out")
    return found


def read_text(
    path: str | Path | GivenObjects, *own: FileKind, expected: str = "text"
) -> TextSource:
    """The text of objects, or of a UTF-8 file, line ends as they are; what is compressed is
    recognised by its first bytes.

    A byte order mark at the start is left out. ``own``: kinds of files that are read besides text
    that nothing tells; ``expected``: all of them in words. Raises ``FileNotFoundError`` or
    ``ValueError`` with one sentence: no such file, another kind of file, damaged, no text in it,
    not UTF-8 (and at which byte).
    """
    if isinstance(path, GivenObjects):
        return TextSource(str(path), path.text, path)
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give one text file")
    if not path.exists():
        raise FileNotFoundError(f"no text file at {path.absolute()}")
    kind = check_kind(path, own, expected)
    try:
        with open_unpacked(path) as file:
            content = file.read()
    except CompressedFileError as error:
        raise ValueError(f"{path} is {error}") from error
    content = content.removeprefix(codecs.BOM_UTF8)
    if not content:
        raise ValueError(f"{path} is empty; expected {expected}")
    try:
        return TextSource(str(path), content.decode("utf-8"), kind=kind)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path} is not UTF-8: byte 0x{content[error.start]:02x} at offset {error.start:,} "
            f"(line {line:,}); convert it first, e.g. with iconv"
        ) from error
