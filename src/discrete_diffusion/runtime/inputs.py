"""What is read: files, compressed by gzip, xz or bzip2 or not, and objects in their place."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO

_PACKINGS: dict[str, tuple[bytes, Callable[[BinaryIO], Any]]] = {
    "gzip": (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    "xz": (b"\xfd7zXZ\x00", lzma.LZMAFile),
    "bzip2": (b"BZh", bz2.BZ2File),
}
"""First bytes of a compressed file, and what unpacks it."""

_BUFFER = 1 << 16

_ENDINGS = (".gz", ".xz", ".bz2")
_BZIP2_BLOCK = (b"1AY&SY", b"\x17rE8P\x90")
"""Bytes 4 to 9 of a bzip2 file: a block, or the end of an empty one."""

MOST_UNPACKED = 1 << 30
"""Bytes that a compressed file may unpack to, where what is read of it stays in memory."""


class CompressedFileError(ValueError):
    """Fault of a file that cannot be opened or unpacked, without its name."""


class _Bounded(io.RawIOBase):
    """Bytes of an unpacked file up to ``most``; ``CompressedFileError`` for more."""

    def __init__(self, file: Any, most: int) -> None:
        self._file, self._left = file, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        num: int = self._file.readinto(buffer)
        self._left -= num
        if self._left < 0:
            raise CompressedFileError(
                f"compressed, and more than {MOST_UNPACKED >> 30} GiB when it is unpacked; unpack "
                "it first if that is right, and split it"
            )
        return num


@contextmanager
def open_unpacked(path: Path, *, in_parts: bool = False) -> Iterator[BinaryIO]:
    """Open the bytes of a file, unpacked as they are read if its first bytes are those of gzip, xz
    or bzip2.

    ``in_parts``: they are not kept, so that any number may come. Raises ``CompressedFileError`` for
    a file that cannot be unpacked to its end, or is more than ``MOST_UNPACKED`` then."""
    packing = packing_of(path)
    with path.open("rb") as file:
        if packing is None:
            yield file
            return
        try:
            with _PACKINGS[packing][1](file) as unpacked:
                bounded = _Bounded(unpacked, MOST_UNPACKED)
                yield unpacked if in_parts else io.BufferedReader(bounded, _BUFFER)
        except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as error:
            raise CompressedFileError(f"a damaged {packing} file: {error}; copy it anew") from error
        except OSError as error:
            if packing != "bzip2" or error.errno is not None:
                raise
            raise CompressedFileError(f"a damaged {packing} file: {error}; copy it anew") from error


def packing_of(path: Path) -> str | None:
    """``gzip``, ``xz`` or ``bzip2`` by the first bytes of a file; None of any other.

    Raises ``CompressedFileError`` for a pipe or a device, which can be read only once or not at
    all."""
    if path.exists() and not path.is_file():
        raise CompressedFileError(
            "not a file but a pipe, a device or a folder; write it into a file"
        )
    with path.open("rb") as file:
        head = file.read(10)
    for name, (magic, _) in _PACKINGS.items():
        if head.startswith(magic) and (name != "bzip2" or head[4:] in _BZIP2_BLOCK):
            return name
    return None


def suffix_of(path: Path) -> str:
    """Ending of a file before that of its compression, in lower case: ``.jsonl`` of
    ``plans.jsonl.gz``."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in _ENDINGS else suffix


@dataclass(frozen=True)
class GivenObjects:
    """The ``objects`` in the order in which a file would hold them.

    ``name``: of the request's option, such as ``given``; errors say ``given[2]`` for the third.
    """

    name: str
    objects: tuple[Any, ...]

    @classmethod
    def of(cls, name: str, value: Any) -> GivenObjects:
        """Take one object or several: JSON objects, dataclasses, objects with ``to_json``, text of
        a line.

        Raises ``TypeError`` for anything else, and ``ValueError`` for none at all and for text of
        several lines.
        """
        alone = isinstance(value, Mapping) or is_dataclass(value) or hasattr(value, "to_json")
        if not alone and not isinstance(value, Iterable):
            raise TypeError(f"{name}={value}: expected a file, an object or a list of objects")
        objects = (value,) if alone else tuple(value)
        if not objects:
            raise ValueError(f"{name}=[]: give at least one object")
        for k, each in enumerate(objects):
            if isinstance(each, str) and len(each.splitlines()) > 1:
                raise ValueError(f"{name}[{k}] has several lines; give an object for each")
        return cls(name, objects)

    def __str__(self) -> str:
        return self.name

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """One for each object. Raises ``TypeError`` naming an object that JSON cannot hold."""
        return tuple(_line(f"{self.name}[{k}]", each) for k, each in enumerate(self.objects))

    @property
    def text(self) -> str:
        """Content of a file with these lines."""
        return "".join(f"{line}\n" for line in self.lines)

    def one_object(self) -> Any:
        """JSON value of the one line that there is; ``ValueError`` if there are several."""
        if len(self.objects) > 1:
            raise ValueError(f"{self.name}: {len(self.objects)} objects; give one")
        return json.loads(self.lines[0])

    def numbered_lines(self) -> Iterator[tuple[int, bytes]]:
        """Lines with their numbers from 1 on, as those of a file."""
        for number, line in enumerate(self.lines, start=1):
            yield number, line.encode()


def place_of_line(given: object, number: int) -> str:
    """``plans.jsonl, line 3`` of a file, ``given[2]`` of objects."""
    if isinstance(given, GivenObjects):
        return f"{given}[{number - 1}]"
    return f"{given}, line {number}"


def _line(place: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value.to_json() if hasattr(value, "to_json") else value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{place}: {error}; expected what JSON can hold") from error


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
