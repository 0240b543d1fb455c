"""Strict reading of JSON text: repeated keys, cut texts and extreme numbers are errors."""

from __future__ import annotations

import difflib
import json
import reprlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from discrete_diffusion.runtime import CompressedFileError, open_unpacked
from floor_plans.diagrams.files.fields import DiagramError, finite_number

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

MAX_DEPTH = 64
"""Deepest nesting of lists and objects in a diagram's metadata."""


class RepeatedKeys(dict[str, Any]):
    """A JSON object with the key ``repeated`` several times, of which one value is kept."""

    def __init__(self, values: Mapping[str, Any], *, repeated: str) -> None:
        super().__init__(values)
        self.repeated = repeated


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file as ``open_unpacked`` does; ``DiagramError`` without a field for damaged gzip."""
    try:
        with open_unpacked(path) as file:
            yield file
    except CompressedFileError as error:
        raise DiagramError("", str(error)) from error


def read_document(path: Path) -> Any:
    """Read the single JSON value of a file, see ``load_json``."""
    with opened(path) as file:
        return load_json(file.read().removeprefix(BYTE_ORDER_MARK))


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file that are not blank, numbered from 1, without byte order marks."""
    with opened(path) as lines:
        for number, line in enumerate(lines, start=1):
            if (text := line.removeprefix(BYTE_ORDER_MARK)).strip():
                yield number, text


def one_document(path: Path) -> bool:
    """True if a file is one JSON object of several lines or one JSON list; its name is ignored."""
    _, first = next(numbered_lines(path), (0, b""))
    if not first.lstrip().startswith((b"{", b"[")) or _is_object(first):
        return False
    try:
        data = read_document(path)
    except DiagramError:
        return False
    return isinstance(data, dict | list)


def holds_lines(path: Path) -> bool:
    """True if a file is JSON lines: its first line is an object and there are more lines."""
    lines = numbered_lines(path)
    _, first = next(lines, (0, b""))
    return _is_object(first) and next(lines, None) is not None


def holds_object(path: Path) -> bool:
    """True if any line of a file is a JSON object."""
    return any(_is_object(line) for _, line in numbered_lines(path))


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(load_json(line), dict)
    except DiagramError:
        return False


def load_json(text: bytes) -> Any:
    """Parse the single JSON value of ``text`` (UTF-8); objects with repeated keys become
    ``RepeatedKeys``.

    Raises ``DiagramError`` without a field for invalid text.
    """
    if not text.strip():
        raise DiagramError("", "empty; expected a JSON object")
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=_object)
    # each error of the decoder becomes one sentence
    except UnicodeDecodeError as error:
        byte = text[error.start]
        raise DiagramError(
            "", f"not UTF-8 text: byte 0x{byte:02x} at position {error.start}"
        ) from error
    except json.JSONDecodeError as error:
        between = error.doc[: error.pos].lstrip()
        if error.msg == "Extra data" and "\r" in between and "\n" not in between:
            reason = "its lines end in CR alone, which ends no line here; save the file with LF"
            raise DiagramError("", reason) from error
        raise DiagramError("", f"not valid JSON{_reason(error)}") from error
    except ValueError as error:  # an integer of more digits than Python reads
        raise DiagramError("", f"not valid JSON: {error}") from error
    except RecursionError as error:
        raise DiagramError("", "not valid JSON: nested too deeply") from error


def _reason(error: json.JSONDecodeError) -> str:
    """Reason of a decoding error: the text ends too early, or is wrong at some place."""
    if error.msg.startswith("Unterminated string") or not error.doc[error.pos :].strip():
        end = error.doc.rstrip()
        shown = end[-20:] if len(end) <= 20 else f"...{end[-20:]}"
        return f", or cut short: it ends too early, after {shown!r}"
    line = f"line {error.lineno}, " if error.lineno > 1 else ""
    return f": {error.msg} at {line}character {error.colno - 1}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    counts = Counter(key for key, _ in pairs)
    return RepeatedKeys(found, repeated=next(key for key, num in counts.items() if num > 1))


def check_keys(data: Mapping[str, Any]) -> None:
    """Refuse an object with a repeated key, by ``DiagramError``, since its value is ambiguous."""
    if isinstance(data, RepeatedKeys):
        shown = reprlib.repr(data.repeated)
        raise DiagramError(data.repeated or shown, f"the key {shown} is given twice in one object")


def check_spelling(data: Mapping[str, Any], fields: Sequence[str]) -> None:
    """Refuse a misspelt key, by ``DiagramError``: it would be lost among the metadata.

    A key is misspelt if it is one letter off one of the ``fields``, or close to ``relations`` in an
    object without that key.
    """
    for key in data:
        if key in fields:
            continue
        # fields that the key may have been meant for
        meant = [field for field in fields if _is_one_letter_off(key.casefold(), field)]
        if "relations" not in data:
            meant += difflib.get_close_matches(key.casefold(), ["relations"], n=1, cutoff=0.8)
        if meant:
            both = " That is there too: take one of them out, or rename this one."
            both = both if meant[0] in data else ""
            raise DiagramError(key, f"unknown; did you mean {meant[0]!r}?{both}")


def _is_one_letter_off(word: str, other: str) -> bool:
    """True if words are equal, or differ by one letter inserted, removed or replaced."""
    k = next((k for k, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), None)
    k = min(len(word), len(other)) if k is None else k
    return other[k + 1 :] in (word[k:], word[k + 1 :]) or word[k + 1 :] == other[k:]


def check_metadata(metadata: Mapping[str, Any]) -> None:
    """Refuse metadata that JSON cannot write again, by ``DiagramError`` naming the key: numbers
    beyond float64, NaN, repeated keys, and nesting deeper than ``MAX_DEPTH``."""
    # depth first over nested lists and objects
    pending: list[tuple[str, Any, int]] = [
        (key or repr(key), value, 0) for key, value in metadata.items()
    ]
    while pending:
        field, value, depth = pending.pop()
        if isinstance(value, float):
            finite_number(value, field)
        elif isinstance(value, list | dict):
            if depth == MAX_DEPTH:
                raise DiagramError(
                    field[: field.find("[")], f"nested deeper than {MAX_DEPTH} levels"
                )
            if isinstance(value, dict):
                check_keys(value)
            inner = value.items() if isinstance(value, dict) else enumerate(value)
            pending.extend((f"{field}[{key}]", item, depth + 1) for key, item in inner)
