"""Kinds of files, known by what stands in them before their names are believed.

Formats of any field are listed here; kinds of data register theirs. A reader says which kinds it
reads, and ``check_kind`` refuses the others as what they are.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import SEEK_END
from pathlib import Path

from discrete_diffusion.runtime.inputs import (
    CompressedFileError,
    open_unpacked,
    packing_of,
    suffix_of,
)

_HEAD_BYTES, _LONGEST_LINE = 1 << 16, 1 << 24
_CONTROL_BYTES = bytes({*range(32)} - {*b"\t\n\r\f\x1b"})
_LINES_SUFFIXES = (".jsonl", ".ndjson")
_MOST_CONTROL = 0.02
"""Share of control characters: none of text, 11 % of random bytes."""


@dataclass(frozen=True)
class Head:
    """Beginning of a file. ``content``: its first bytes, unpacked, of JSON to the end of a line;
    ``packing``: of ``packing_of``."""

    path: Path
    content: bytes
    packing: str | None

    @classmethod
    def of(cls, path: Path) -> Head:
        """Read the head of a file. Raises ``CompressedFileError`` if it cannot be unpacked."""
        with open_unpacked(path) as file:
            content = file.read(_HEAD_BYTES)
            if len(content) == _HEAD_BYTES and content.lstrip().startswith(b"{"):
                content += file.readline(_LONGEST_LINE)
        return cls(path, content, packing_of(path))

    @cached_property
    def text(self) -> str:
        """The head as text, without a byte order mark; bytes that are not UTF-8 are U+FFFD."""
        return self.content.decode("utf-8-sig", errors="replace")

    @cached_property
    def lines(self) -> list[str]:
        """Lines of the head, without spaces at their ends."""
        return [line.rstrip() for line in self.text.split("\n")]

    @cached_property
    def last_byte(self) -> bytes:
        """The last byte of the file, as it lies on disk; nothing of an empty one."""
        with self.path.open("rb") as file:
            file.seek(max(file.seek(0, SEEK_END) - 1, 0))
            return file.read(1)

    @cached_property
    def members(self) -> list[str] | None:
        """Names in a ZIP archive; None of another file."""
        if not self.content.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            return None
        try:
            with zipfile.ZipFile(self.path) as archive:
                return archive.namelist()
        except zipfile.BadZipFile:
            return []

    @cached_property
    def objects(self) -> list[bool]:
        """For the first two lines that are not blank, whether each is a JSON object."""
        return [_is_object(line) for line in [line for line in self.lines if line][:2]]


@dataclass(frozen=True)
class FileKind:
    """Kind of files. ``name``: what a file of it is called, with its article. ``fits``: True of the
    head of such a file. ``remedy``: what to do with one where it is not read, empty if nothing is
    known. ``suffixes``: endings of names that tell the kind where contents do not."""

    name: str
    fits: Callable[[Head], bool]
    remedy: str = ""
    is_text: bool = True
    suffixes: tuple[str, ...] = ()

    def sentence(self) -> str:
        """``a ZIP archive; unpack it first``."""
        return f"{self.name}; {self.remedy}" if self.remedy else self.name


def begins_with_bytes(*magic: bytes) -> Callable[[Head], bool]:
    """Test for the first bytes of a file."""
    return lambda head: head.content.startswith(magic)


def begins_with_text(pattern: str) -> Callable[[Head], bool]:
    """Test for the first characters of a text, in any case."""
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda head: compiled.match(head.text) is not None


def _binary(name: str, fits: Callable[[Head], bool], remedy: str) -> FileKind:
    return FileKind(name, fits, remedy, is_text=False)


def _holding(test: Callable[[list[str]], bool]) -> Callable[[Head], bool]:
    """Test for the names in a ZIP archive."""
    return lambda head: head.members is not None and test(head.members)


def _is_pickle(head: Head) -> bool:
    """True of the first bytes of a pickle, the short ones with the last byte of one."""
    if head.content.startswith((b"\x80\x02\x8a\n", b"(lp0", b"(dp0")):
        return True
    return re.match(rb"\x80[\x02-\x05]", head.content) is not None and head.last_byte == b"."


def by_name_alone(head: Head) -> bool:
    """Test of a kind that only names tell."""
    return False


_OLE = begins_with_bytes(b"\xd0\xcf\x11\xe0")

NPZ = FileKind(
    "arrays of NumPy (.npz)",
    _holding(lambda names: bool(names) and all(name.endswith(".npy") for name in names)),
    is_text=False,
    suffixes=(".npz",),
)
NPY = FileKind(
    "arrays of NumPy (.npy)", begins_with_bytes(b"\x93NUMPY"), is_text=False, suffixes=(".npy",)
)
GRAPHML = FileKind(
    "GraphML",
    begins_with_text(r"\s*(<\?xml[^>]*>\s*)?(<!(?s:.){0,2000}?>\s*)*<graphml\b"),
    "write its graphs as JSON lines",
    suffixes=(".graphml",),
)
JSON_LINES = FileKind("JSON lines", lambda head: _is_json_lines(head), suffixes=_LINES_SUFFIXES)
JSON = FileKind("JSON", lambda head: _is_json(head), suffixes=(".json",))
HTML = FileKind(
    "an HTML page", begins_with_text(r"\s*(<!doctype html|<html\b)"), "download the file itself"
)
CSV = FileKind("CSV", by_name_alone, "write its rows as JSON lines", suffixes=(".csv",))
TSV = FileKind("TSV", by_name_alone, "write its rows as JSON lines", suffixes=(".tsv",))
_UNPACK = "unpack it first"
_FIRST = (
    NPZ,
    NPY,
    _binary(
        "a file of PyTorch, a pickle, which is never loaded",
        _holding(lambda names: any(name.endswith("data.pkl") for name in names)),
        "convert it",
    ),
    _binary(
        "a spreadsheet",
        _holding(lambda names: any(name.startswith("xl/") for name in names)),
        "save it as CSV",
    ),
    _binary(
        "a spreadsheet",
        lambda head: _OLE(head) and head.path.suffix.lower() == ".xls",
        "save it as CSV",
    ),
    _binary(
        "a document of an office program",
        _holding(lambda names: bool({"[Content_Types].xml", "mimetype"} & {*names})),
        "save it as text",
    ),
    _binary("a document of an office program", _OLE, "save it as text"),
    _binary(
        "a damaged ZIP archive or file of arrays",
        lambda head: head.members == [] and head.content.startswith(b"PK\x03"),
        "copy it anew",
    ),
    _binary("a ZIP archive", _holding(lambda names: True), _UNPACK),
    _binary("a 7z archive", begins_with_bytes(b"7z\xbc\xaf"), _UNPACK),
    _binary("a RAR archive", begins_with_bytes(b"Rar!\x1a"), _UNPACK),
    _binary("a tar archive", lambda head: head.content[257:262] == b"ustar", _UNPACK),
    _binary(
        "compressed by zstd",
        begins_with_bytes(b"\x28\xb5\x2f\xfd"),
        "unpack it first, zstd -d FILE",
    ),
    _binary(
        "compressed by lz4", begins_with_bytes(b"\x04\x22\x4d\x18"), "unpack it first, lz4 -d FILE"
    ),
    FileKind(
        "a pickle, which is never loaded because it could run code",
        lambda head: _is_pickle(head),
        "convert it",
        is_text=False,
        suffixes=(".pickle", ".pkl"),
    ),
    _binary(
        "Arrow", begins_with_bytes(b"ARROW1", b"FEA1"), "write it as Parquet, or as JSON lines"
    ),
    _binary("an HDF5 file", begins_with_bytes(b"\x89HDF"), "convert it"),
    _binary("a database of SQLite", begins_with_bytes(b"SQLite format 3\x00"), "export its table"),
    _binary(
        "a picture",
        begins_with_bytes(b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\x00", b"MM\x00*"),
        "trace what it shows first",
    ),
    _binary("a PDF document", begins_with_bytes(b"%PDF"), "save its text"),
    FileKind(
        "a pointer of Git LFS, not the file itself",
        begins_with_bytes(b"version https://git-lfs"),
        "fetch the file, git lfs pull",
    ),
    _binary("text in UTF-16", begins_with_bytes(b"\xff\xfe", b"\xfe\xff"), "save it as UTF-8"),
)
"""Kinds that are told by their first bytes, and none of which holds another."""

_LAST = (
    GRAPHML,
    HTML,
    JSON_LINES,
    JSON,
    CSV,
    TSV,
)
_NO_TEXT = _binary("not text", lambda head: _is_binary(head.content), "convert it")
_PACKED = _binary(
    "a compressed file or archive of something else than text", lambda head: True, _UNPACK
)

Kinds = Callable[[], Iterable[FileKind]]

_REGISTERED: list[Kinds] = []


def register_kinds(kinds: Kinds) -> Kinds:
    """Decorator: add the kinds of files that a function lists when a file is looked at."""
    _REGISTERED.append(kinds)
    return kinds


def kind_of(path: Path, own: Sequence[FileKind] = ()) -> FileKind | None:
    """Kind of a file; None of text that nothing tells. ``own``: kinds that its reader reads, which
    come before those of others. Raises ``CompressedFileError`` for one that cannot be unpacked."""
    head, suffix = Head.of(path), suffix_of(path)
    registered = [kind for kinds in _REGISTERED for kind in kinds()]
    kinds = [*_FIRST, *own, *registered, *_LAST, _NO_TEXT]
    found = next((kind for kind in kinds if kind.fits(head)), None)
    if found is not None and found.is_text and _NO_TEXT.fits(head):  # UTF-16 without its mark
        found = _NO_TEXT
    if found is None:
        return next((kind for kind in kinds if suffix in kind.suffixes), None)
    return found if head.packing is None or found.is_text else _PACKED


def check_kind(path: Path, own: Sequence[FileKind], expected: str) -> FileKind | None:
    """The kind of a file, one of ``own``, or None. Raises ``ValueError`` naming the file, its kind
    and remedy, and what was ``expected``, if it is another."""
    try:
        found = kind_of(path, own)
    except CompressedFileError as error:
        raise ValueError(f"{path} is {error}") from error
    if found is not None and found not in own:
        raise ValueError(f"{path} is {found.sentence()}; expected {expected}")
    return found


def _is_binary(content: bytes) -> bool:
    return len(content) - len(content.translate(None, _CONTROL_BYTES)) > (
        _MOST_CONTROL * len(content)
    )


def _is_object(line: str) -> bool:
    if not line.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _is_json_lines(head: Head) -> bool:
    """True if the first two lines are objects, or the name says so and the first one looks like
    an object, however long it is."""
    first, *others = [line for line in head.lines if line] or [""]
    is_whole = first.lstrip().startswith("{") and (first.endswith("}") or not others)
    is_named = suffix_of(head.path) in _LINES_SUFFIXES
    return head.objects == [True, True] or (is_named and is_whole)


def _is_json(head: Head) -> bool:
    """True if the head is JSON, or the beginning of it: an object, or a list of more than
    numbers in brackets, which prose has too."""
    text = head.text.strip()
    if re.match(r'\{\s*["}]|\[\s*[\[{"\]]|\[\s*-?\d[\d.eE+-]*\s*,', text) is None:
        return False
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        is_cut = len(head.content) >= _HEAD_BYTES
        return is_cut and (error.msg.startswith("Unterminated") or error.pos >= len(text) - 8)
    except (ValueError, RecursionError):
        return True
    return True
