"""YAML values of a brief with their keys and lines, and ``BriefError`` for wrong values."""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import yaml

MAX_BYTES = 100_000  # largest size of the file of a brief, in bytes
_LONGEST_TEXT = 80  # most characters of a rule that a message quotes


class BriefError(ValueError):
    """Error at a ``key`` of a brief, such as ``rooms.Bathroom``, and a ``line`` if it is a file."""

    def __init__(
        self, reason: str, *, key: str = "", line: int | None = None, path: Path | None = None
    ) -> None:
        parts = [str(path)] if path else []
        parts += [f"line {line}"] if line else []
        parts += [f"key '{_printable(key)}'"] if key else []
        super().__init__(": ".join(filter(None, [", ".join(parts), _printable(reason)])))
        self.reason, self.key, self.line, self.path = reason, key, line, path

    def located(self, path: Path) -> BriefError:
        """Return this error with the path of its file."""
        return BriefError(self.reason, key=self.key, line=self.line, path=path)


def _printable(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]


@dataclass(frozen=True)
class Source:
    """Place of a rule in a file. ``key``: such as ``rooms.Bedroom``. ``text``: the rule as written.
    ``line``: from 1; None for a rule of a Python object."""

    key: str = ""
    text: str = ""
    line: int | None = None


@dataclass(frozen=True)
class Node:
    """A value of a brief, with its place.

    ``value``: a dict or a tuple of nodes, or text, an int, a bool or None; other numbers are text.
    ``text``: the value as written, in a dict together with its key. ``words``: the value as
    written, without the key; for example ``no``, which YAML reads as false.
    """

    key: str
    value: Any
    text: str
    line: int | None = None
    words: str = ""

    def error(self, reason: str) -> BriefError:
        return BriefError(reason, key=self.key, line=self.line)

    @property
    def source(self) -> Source:
        return Source(self.key, self.text, self.line)

    @property
    def shown(self) -> str:
        """Text of the value for error messages."""
        if isinstance(self.value, dict):
            return "keys with values" if self.value else "no keys"
        if isinstance(self.value, tuple):
            return "a list"
        if self.value is None or self.value == "":
            return "nothing"
        return reprlib.repr(self.value) if isinstance(self.value, str) else self.words

    def entries(self, expected: str) -> dict[str, Node]:
        """Values by key; ``BriefError`` unless the node is a dict with entries."""
        if not isinstance(self.value, dict) or not self.value:
            raise self.error(f"expected {expected}, got {self.shown}")
        return self.value

    def items(self, expected: str) -> tuple[Node, ...]:
        """Elements of a list; ``BriefError`` unless the node is a list with elements."""
        if not isinstance(self.value, tuple) or not self.value:
            shown = "an empty list" if self.value == () else self.shown
            raise self.error(f"expected {expected}, got {shown}")
        return self.value


def node_of(value: Any, key: str = "", text: str = "") -> Node:
    """Build the node of a Python object: dicts, lists, text, numbers."""
    words = str(value)[:_LONGEST_TEXT]
    text = text or words
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise BriefError(f"expected text as a key, got {name!r}", key=key)
        entries = {
            name: node_of(each, _joined(key, name), f"{name}: {each}"[:_LONGEST_TEXT])
            for name, each in value.items()
        }
        return Node(key, entries, text)
    if isinstance(value, list | tuple):
        value = tuple(node_of(each, f"{key}[{k}]") for k, each in enumerate(value))
    elif isinstance(value, Integral) and not isinstance(value, bool):
        value = int(value)
    elif not (isinstance(value, str | bool) or value is None):
        value = words  # other numbers are kept as text
    return Node(key, value, text, words=words)


def read_node(
    path: str | os.PathLike[str], noun: str = "brief", keys: str = "rooms: and relations:"
) -> Node:
    """Read a YAML or JSON file as a node; messages use ``noun`` for the file and suggest ``keys``.
    Raises ``FileNotFoundError`` and ``BriefError``."""
    path = Path(path)
    if path.is_dir():
        raise BriefError("a folder; expected a YAML or JSON file", path=path)
    if not path.exists():
        raise FileNotFoundError(f"no {noun} at {path.absolute()}")
    if (size := path.stat().st_size) > MAX_BYTES:
        reason = f"{size:,} bytes, more than the {MAX_BYTES:,} of a {noun}; are these plans?"
        raise BriefError(reason, path=path)
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BriefError("not UTF-8 text", line=line, path=path) from error
    try:
        return parse_yaml(text, noun, keys)
    except BriefError as error:
        raise error.located(path) from error


def parse_yaml(text: str, noun: str = "brief", keys: str = "rooms: and relations:") -> Node:
    """Parse YAML or JSON; ``BriefError`` with the line of other text, repeated keys, no text."""
    if text.lstrip().startswith("{"):
        text = text.replace("\t", " ")  # JSON may be indented by tabs, YAML may not
    try:
        # nodes of YAML know their lines, which values do not
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        line, shown = text[: error.position].count("\n") + 1, ascii(chr(error.character))
        raise BriefError(f"the character {shown} is not a text character", line=line) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        number = None if mark is None else mark.line + 1
        lines = text.splitlines()
        if number is not None and number <= len(lines) and re.match(r" *\t", lines[number - 1]):
            reason = "a tab; indent with spaces"
        elif error.problem and "but found another document" in error.problem:
            reason = f"a second document begins; write one {noun} per file"
        else:
            problems = "; ".join(filter(None, (error.context, error.problem)))
            reason = f"neither YAML nor JSON: {problems}"
        raise BriefError(reason, line=number) from error
    except RecursionError as error:
        raise BriefError(f"nested too deeply for a {noun}") from error
    if root is None:
        raise BriefError(f"the file is empty; expected keys such as {keys}")
    return _Reading(text).node(root, "", root)


class _Reading:
    """Conversion of YAML nodes to ``Node``."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[int] = []

    def node(self, source: Any, key: str, first: Any) -> Node:
        """Convert a YAML node; ``first``: the node at which its text begins, such as its key."""
        line = first.start_mark.line + 1
        if id(source) in self._open:
            raise BriefError("holds itself", key=key, line=line)
        self._open.append(id(source))
        if isinstance(source, yaml.MappingNode):
            value: Any = dict(self._entries(source, key))
        elif isinstance(source, yaml.SequenceNode):
            items = enumerate(source.value)
            value = tuple(self.node(item, f"{key}[{k}]", item) for k, item in items)
        else:
            value, kind = source.value, source.tag.rpartition(":")[2]
            if kind == "null":
                value = None
            elif kind == "bool":
                value = yaml.SafeLoader.bool_values.get(value.lower(), value)
            elif kind == "int" and re.fullmatch(r"[+-]?\d{1,9}", value):
                value = int(value)
        self._open.pop()
        text, own = self._written(first, source), self._written(source, source)
        words = source.value if isinstance(source, yaml.ScalarNode) else own
        return Node(key, value, text, line, words)

    def _entries(self, source: Any, key: str) -> Iterator[tuple[str, Node]]:
        lines: dict[str, int] = {}
        for name, value in source.value:
            line = name.start_mark.line + 1
            if not isinstance(name, yaml.ScalarNode):
                raise BriefError("expected text as a key", key=key, line=line)
            where = _joined(key, name.value)
            if name.value in lines:
                reason = f"given twice, first in line {lines[name.value]}; leave one out"
                raise BriefError(reason, key=where, line=line)
            lines[name.value] = line
            yield name.value, self.node(value, where, name)

    def _written(self, first: Any, last: Any) -> str:
        if last.start_mark.index < first.start_mark.index:  # an alias
            last = first
        written = self._text[first.start_mark.index : last.end_mark.index]
        return " ".join(written.split())[:_LONGEST_TEXT]


def _joined(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name
