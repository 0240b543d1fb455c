"""Documents of text files, JSON lines and Parquet, in parts from which reading can resume."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from discrete_diffusion.data.files import load_json
from discrete_diffusion.domains.text.domain import PARQUET
from discrete_diffusion.domains.text.subwords import SubwordVocabulary, pieces
from discrete_diffusion.domains.text.vocabulary import TextVocabulary
from discrete_diffusion.runtime.inputs import (
    HTML,
    JSON_LINES,
    CompressedFileError,
    check_kind,
    open_unpacked,
)
from discrete_diffusion.runtime.package import install_command


def json_text(line: str, place: str, field: str = "text") -> str:
    """Return the text in a line of JSON. Raises ``ValueError`` naming ``place`` if there is
    none."""
    try:
        value = load_json(line)
    except ValueError as error:
        raise ValueError(f"{place} is not JSON: {error}") from error
    return text_of(value, place, field)


def text_of(value: Any, place: str, field: str = "text") -> str:
    """Return a text, or the text in the ``field`` of an object; ``ValueError`` for another
    value."""
    is_object = isinstance(value, Mapping)
    text = value.get(field) if is_object else value
    if not isinstance(text, str):
        has = f"; its keys are {', '.join(map(str, value))}" if is_object else ""
        raise ValueError(f'{place}: expected a text, or {{"{field}": "..."}}{has}')
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{place}: character {error.start + 1:,} is {text[error.start]!a}, half of a surrogate "
            "pair, which is not a character; repair the text, or leave it out"
        ) from error
    return text


_PART = 1 << 22
"""Bytes of text that are read at once, up to the end of a line."""

_ROWS = 256
"""Rows of a Parquet file that are read at once."""

_MAX_LINE = 1 << 30
"""Bytes of a line, or of text that cannot be cut, from which on it is refused."""

_EXPECTED = "text, a JSON object or text a line (JSON lines), or Parquet"


@dataclass(frozen=True)
class Part:
    """Consecutive texts of a file.

    ``ends``: for each text, True if it ends a document. ``after``: start of the next part, in bytes
    or in rows of Parquet. ``num_nulls``: number of rows that were left out, having no text.
    """

    texts: Sequence[str]
    ends: Sequence[bool]
    after: int
    num_nulls: int = 0


def parts_of(path: Path, start: int, *, field: str, documents: str) -> Iterator[Part]:
    """Yield the parts of a file from ``start``, which is 0 or the ``after`` of an earlier part.

    JSON lines have a document in each line, a text or an object with ``field``; Parquet has a
    document in each row, in the column ``field``. Both formats are recognised by content. Other
    files are text, compressed or not: one document (``documents`` is ``file``), or one for each
    line that is not empty (``line``). Raises ``ValueError`` naming file and line for a document
    that cannot be read.
    """
    kind = check_kind(path, (PARQUET, JSON_LINES, HTML), _EXPECTED)
    try:
        if kind is PARQUET:
            yield from _rows(path, start, field)
        elif kind is JSON_LINES or documents == "line":
            yield from _lines(path, start, field if kind is JSON_LINES else None)
        else:
            yield from _text(path, start)
    except CompressedFileError as error:
        raise ValueError(f"{path} is {error}") from error


def encode_part(
    vocabulary: TextVocabulary | SubwordVocabulary, part: Part
) -> tuple[np.ndarray, list[int]]:
    """Return the ids of a part, Int64[N], and the positions after which documents end.

    If there is an ``eos_id``, it follows each document; a document also ends where the text itself
    has that token.
    """
    ids, ends, num = [np.zeros(0, np.int64)], [], 0
    eos = vocabulary.eos_id
    for row, is_end in zip(vocabulary.encode_each(part.texts), part.ends, strict=True):
        if is_end and eos is not None and row[-1:].tolist() != [eos]:
            row = np.append(row, eos)
        # ends of documents within this text
        places = [] if eos is None else (np.flatnonzero(row == eos) + 1).tolist()
        places += [len(row)] if is_end and eos is None else []
        ends += [num + place for place in places]
        num += len(row)
        ids.append(row)
    return np.concatenate(ids), ends


def _lines(path: Path, start: int, field: str | None) -> Iterator[Part]:
    """Yield parts with a document for each line, which is JSON if there is a ``field``."""
    number, after = 0, 0
    with open_unpacked(path, in_parts=True) as file:
        while lines := _whole_lines(file, f"{path}, line {number + 1:,}"):
            # read from the start of the file, to number the lines
            begin, first = after, number
            after += sum(map(len, lines))
            lines = [piece for line in lines for piece in line.splitlines()]  # CR alone ends one
            number += len(lines)
            if begin == 0:
                lines[0] = lines[0].removeprefix(BOM_UTF8)
            if begin < start:
                continue
            texts = []
            for k, line in enumerate(lines, first + 1):
                place = f"{path}, line {k:,}"
                try:
                    text = line.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise ValueError(
                        f"{place} is not UTF-8; convert the file first, e.g. with iconv"
                    ) from error
                if text.strip():
                    texts.append(text if field is None else json_text(text, place, field))
            yield Part(texts, [True] * len(texts), after)


def _whole_lines(file: BinaryIO, place: str) -> list[bytes]:
    """Read whole lines of at least ``_PART`` bytes together, or to the end of the file; ``place``
    names the first line."""
    lines, num = [], 0
    while num < _PART and (line := file.readline(_MAX_LINE)):
        lines.append(line)
        num += len(line)
        if len(line) == _MAX_LINE:
            raise _uncuttable(place)
    return lines


def _uncuttable(place: str) -> ValueError:
    return ValueError(
        f"{place} or behind it: {_MAX_LINE >> 30} GiB without an end of a line, which memory does "
        "not hold; cut the text into lines"
    )


def _text(path: Path, start: int) -> Iterator[Part]:
    """Yield parts of one document, cut where this does not change its tokens; each part depends
    only on its start."""
    with open_unpacked(path, in_parts=True) as file:
        num = start
        while num > 0 and (skipped := file.read(min(num, _PART))):
            num -= len(skipped)
        # without a byte order mark
        content, after, is_last = b"", start, False
        if start == 0 and (mark := file.read(len(BOM_UTF8))) == BOM_UTF8:
            after = len(mark)
        elif start == 0:
            content = mark
        while not is_last:
            # fill up a part, or double one that could not be cut
            wanted = _PART - len(content) if len(content) < _PART else len(content)
            if len(content) >= _MAX_LINE:
                raise _uncuttable(str(path))
            new = file.read(wanted)
            content, is_last = content + new, len(new) < wanted
            if not content:  # an empty file, or one whose last part was read before
                return
            # yield whole pieces; the last piece may go on in the next part
            texts = pieces(_whole_characters(content, path, after, is_last), _PART // 2)
            texts = texts if is_last else texts[:-1]
            num = sum(len(each.encode()) for each in texts)
            content, after = content[num:], after + num
            if texts:
                yield Part(texts, [False] * (len(texts) - 1) + [is_last], after)


def _whole_characters(content: bytes, path: Path, offset: int, is_last: bool) -> str:
    """Decode bytes as UTF-8, without an incomplete character at the end."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        if not is_last and error.start > len(content) - 4:
            return content[: error.start].decode("utf-8")
        raise ValueError(
            f"{path} is not UTF-8: byte 0x{content[error.start]:02x} at offset "
            f"{offset + error.start:,}; convert it first, e.g. with iconv"
        ) from error


def _rows(path: Path, start: int, field: str) -> Iterator[Part]:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ValueError(
            f"{path}: Parquet is read by pyarrow; {install_command('parquet')}"
        ) from error
    after = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            _check_column(path, file.schema_arrow, field)
            for batch in file.iter_batches(_ROWS, columns=[field]):
                begin, after = after, after + batch.num_rows
                if begin >= start:
                    texts = [text for text in batch.column(0).to_pylist() if text]
                    yield Part(texts, [True] * len(texts), after, batch.num_rows - len(texts))
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} is a damaged Parquet file: {error}; copy it anew") from error


def _check_column(path: Path, schema: Any, field: str) -> None:
    """Raise ``ValueError`` unless there is a column ``field`` that holds texts."""
    if field not in schema.names:
        names = ", ".join(schema.names)
        raise ValueError(f"{path} has no column '{field}'; it has {names}; see --field")
    kind = str(schema.field(field).type)
    if kind not in ("string", "large_string", "string_view", "null") and (
        "dictionary<values=string" not in kind
    ):
        raise ValueError(
            f"{path}: column '{field}' holds {' '.join(kind.split())}, not texts; write every row "
            "as one text (a chat: by its template) in a column of its own, and name it by --field"
        )
