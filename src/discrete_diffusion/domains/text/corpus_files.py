"""Documents of text files, JSON lines and Parquet, in parts that can be gone back to."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from discrete_diffusion.data.files import load_json
from discrete_diffusion.domains.text.file_kinds import PARQUET
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
    """The text of a line. ``ValueError`` naming ``place`` for what is no JSON, or no text."""
    try:
        value = load_json(line)
    except ValueError as error:
        raise ValueError(f"{place} is not JSON: {error}") from error
    return text_of(value, place, field)


def text_of(value: Any, place: str, field: str = "text") -> str:
    """A text, or that of an object with a ``field``; ``ValueError`` for another value."""
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
            "pair, which is no character; repair the text, or leave it out"
        ) from error
    return text


_PART = 1 << 22
"""Bytes of text that are read at once, and a little more, to the end of a line."""

_ROWS = 256
"""Rows of a Parquet file that are read at once."""

_LONGEST = 1 << 30
"""Bytes of a line, and of text in which nothing is found to cut it."""

_EXPECTED = "text, a JSON object or text a line (JSON lines), or Parquet"


@dataclass(frozen=True)
class Part:
    """Some text of a file.

    ``texts`` and, for each, whether it ``ends`` a document. ``after``: where the next part begins,
    in bytes, of Parquet in rows. ``num_nulls``: rows without a text, which are left out.
    """

    texts: Sequence[str]
    ends: Sequence[bool]
    after: int
    num_nulls: int = 0


def parts_of(path: Path, start: int, *, field: str, documents: str) -> Iterator[Part]:
    """The parts of a file from ``start``, the ``after`` of an earlier part, or 0.

    JSON lines have a document a line, text or an object with a ``field``, and Parquet has one a
    row, in the column ``field``; both are known by their content. Other files are text, compressed
    or not: one document (``documents`` is ``file``) or one a line that is not empty (``line``).

    Raises ``ValueError`` naming file and line for what cannot be read.
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


def encoded(
    vocabulary: TextVocabulary | SubwordVocabulary, part: Part
) -> tuple[np.ndarray, list[int]]:
    """Int64[N], the ids of a part with the token ``eos_id``, if there is one, behind each document;
    and the places behind documents. A document ends, too, where the text has that token."""
    ids, ends, num = [np.zeros(0, np.int64)], [], 0
    eos = vocabulary.eos_id
    for found, is_end in zip(vocabulary.encode_each(part.texts), part.ends, strict=True):
        if is_end and eos is not None and found[-1:].tolist() != [eos]:
            found = np.append(found, eos)
        places = [] if eos is None else (np.flatnonzero(found == eos) + 1).tolist()
        places += [len(found)] if is_end and eos is None else []
        ends += [num + place for place in places]
        num += len(found)
        ids.append(found)
    return np.concatenate(ids), ends


def _lines(path: Path, start: int, field: str | None) -> Iterator[Part]:
    """A document a line, JSON if there is a ``field``."""
    number, after = 0, 0
    with open_unpacked(path, in_parts=True) as file:
        while lines := _whole_lines(file, f"{path}, line {number + 1:,}"):
            begin, first = after, number
            after += sum(map(len, lines))
            lines = [piece for line in lines for piece in line.splitlines()]  # CR alone ends one
            number += len(lines)
            if begin == 0:
                lines[0] = lines[0].removeprefix(BOM_UTF8)
            if begin < start:
                continue
            places = (f"{path}, line {k:,}" for k in range(first + 1, number + 1))
            decoded = (_decoded(line, place) for line, place in zip(lines, places, strict=True))
            texts = [
                text if field is None else json_text(text, f"{path}, line {k:,}", field)
                for k, text in enumerate(decoded, first + 1)
                if text.strip()
            ]
            yield Part(texts, [True] * len(texts), after)


def _whole_lines(file: BinaryIO, place: str) -> list[bytes]:
    """Lines of ``_PART`` bytes, and a little more; ``place``: of the first."""
    lines, num = [], 0
    while num < _PART and (line := file.readline(_LONGEST)):
        lines.append(line)
        num += len(line)
        if len(line) == _LONGEST:
            raise _endless(place)
    return lines


def _endless(place: str) -> ValueError:
    return ValueError(
        f"{place} or behind it: {_LONGEST >> 30} GiB without an end of a line, which memory does "
        "not hold; cut the text into lines"
    )


def _decoded(line: bytes, place: str) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{place} is not UTF-8; convert the file first, e.g. with iconv"
        ) from error


def _text(path: Path, start: int) -> Iterator[Part]:
    """One document, cut where a tokenizer does not notice; a part depends on where it begins
    alone."""
    with open_unpacked(path, in_parts=True) as file:
        _skip(file, start)
        content, after, is_last = b"", start, False
        if start == 0 and (mark := file.read(len(BOM_UTF8))) == BOM_UTF8:
            after = len(mark)
        elif start == 0:
            content = mark
        while not is_last:
            wanted = _PART - len(content) if len(content) < _PART else len(content)  # the double
            if len(content) >= _LONGEST:
                raise _endless(str(path))
            new = file.read(wanted)
            content, is_last = content + new, len(new) < wanted
            if not content:  # an empty file, or one whose last part was read before
                return
            found = pieces(_whole(content, path, after, is_last), _PART // 2)
            if not is_last:
                found = found[:-1]  # which may go on
            num = sum(len(each.encode()) for each in found)
            content, after = content[num:], after + num
            if found:
                yield Part(found, [False] * (len(found) - 1) + [is_last], after)


def _whole(content: bytes, path: Path, offset: int, is_last: bool) -> str:
    """The text of bytes, but for a character at the end that has only begun."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        if not is_last and error.start > len(content) - 4:
            return content[: error.start].decode("utf-8")
        raise ValueError(
            f"{path} is not UTF-8: byte 0x{content[error.start]:02x} at offset "
            f"{offset + error.start:,}; convert it first, e.g. with iconv"
        ) from error


def _skip(file: Any, num: int) -> None:
    while num > 0 and (content := file.read(min(num, _PART))):
        num -= len(content)


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
    """``ValueError`` unless the column ``field`` is there and holds texts."""
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
