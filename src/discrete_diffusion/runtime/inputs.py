"""Files to read: compression, kinds of files, and Python objects given instead of a file.

The kind of a file is recognised by its content, then by its name. General formats are listed here;
kinds of data register their own. A reader says which kinds it reads, and ``check_kind`` refuses all
other kinds by name.
"""

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

# --- compressed files ---

_PACKINGS: dict[str, tuple[bytes, Callable[[BinaryIO], Any]]] = {
    "gzip": (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    "xz": (b"\xfd7zXZ\x00", lzma.LZMAFile),
    "bzip2": (b"BZh", bz2.BZ2File),
}
"""Compression formats: first bytes of the file, and class or function that unpacks it."""

_BUFFER = 1 << 16

_ENDINGS = (".gz", ".xz", ".bz2")
_BZIP2_BLOCK = (b"1AY&SY", b"\x17rE8P\x90")
"""Bytes 4 to 9 of a bzip2 file: a block, or the end of an empty one."""

MOST_UNPACKED = 1 << 30
"""Largest size in bytes of an unpacked file whose content stays in memory."""


class CompressedFileError(ValueError):
    """Error of a file that cannot be opened or unpacked; the message lacks the file's name."""


class _Bounded(io.RawIOBase):
    """Stream of an unpacked file; raises ``CompressedFileError`` after more than ``most`` bytes."""

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
    """Open a file for reading bytes; gzip, xz and bzip2 are recognised and unpacked on the fly.

    ``in_parts``: True if the caller does not keep the content, so that any size is allowed. Raises
    ``CompressedFileError`` for a file that is damaged, or larger than ``MOST_UNPACKED``."""
    packing = packing_of(path)
    with path.open("rb") as file:
        if packing is None:
            yield file
            return
        try:
            with _PACKINGS[packing][1](file) as unpacked:
                bounded = _Bounded(unpacked, MOST_UNPACKED)
                yield unpacked if in_parts else io.BufferedReader(bounded, _BUFFER)
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            # bz2 reports damage as an OSError without a number; with a number it is the system's
            of_system = isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile)
            if of_system and (packing != "bzip2" or getattr(error, "errno", None) is not None):
                raise
            raise CompressedFileError(f"a damaged {packing} file: {error}; copy it anew") from error


def packing_of(path: Path) -> str | None:
    """Compression of a file by its first bytes: ``gzip``, ``xz``, ``bzip2`` or None.

    Raises ``CompressedFileError`` for a pipe or a device, which cannot be read twice."""
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
    """Suffix of a file name in lower case, ignoring that of compression: ``.jsonl`` for
    ``plans.jsonl.gz``."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in _ENDINGS else suffix


# --- objects instead of a file ---


@dataclass(frozen=True)
class GivenObjects:
    """Python objects given instead of the lines of a file.

    ``name``: name of the option, such as ``given``; errors call the third object ``given[2]``.
    """

    name: str
    objects: tuple[Any, ...]

    @classmethod
    def of(cls, name: str, value: Any) -> GivenObjects:
        """Wrap one object or several: JSON objects, dataclasses, objects with ``to_json``, lines of
        text.

        Raises ``TypeError`` for anything else, and ``ValueError`` for an empty list and for text of
        several lines.
        """
        # one object, or several
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
        """Lines of JSON, one per object; raises ``TypeError`` naming an object that is not JSON."""
        lines = []
        for k, value in enumerate(self.objects):
            try:
                as_json = value.to_json() if hasattr(value, "to_json") else value
                lines.append(value if isinstance(value, str) else json.dumps(as_json))
            except (TypeError, ValueError) as error:
                problem = f"{self.name}[{k}]: {error}; expected what JSON can hold"
                raise TypeError(problem) from error
        return tuple(lines)

    @property
    def text(self) -> str:
        """Text of all lines, each with its line end."""
        return "".join(f"{line}\n" for line in self.lines)

    def one_object(self) -> Any:
        """Return the only object as JSON; raise ``ValueError`` if there are several."""
        if len(self.objects) > 1:
            raise ValueError(f"{self.name}: {len(self.objects)} objects; give one")
        return json.loads(self.lines[0])

    def numbered_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield (line number from 1, line), as for a file."""
        for number, line in enumerate(self.lines, start=1):
            yield number, line.encode()


def place_of_line(given: object, number: int) -> str:
    """Name a line in a message: ``plans.jsonl, line 3`` of a file, ``given[2]`` of objects."""
    if isinstance(given, GivenObjects):
        return f"{given}[{number - 1}]"
    return f"{given}, line {number}"


# --- kinds of files ---

_HEAD_BYTES, _LONGEST_LINE = 1 << 16, 1 << 24
_CONTROL_BYTES = bytes({*range(32)} - {*b"\t\n\r\f\x1b"})
_LINES_SUFFIXES = (".jsonl", ".ndjson")
_MOST_CONTROL = 0.02
"""Largest share of control characters in a text; random bytes have 11 %."""


@dataclass(frozen=True)
class Head:
    """Beginning of a file.

    ``content``: first bytes, unpacked; of JSON up to a line end. ``packing``: see ``packing_of``.
    """

    path: Path
    content: bytes
    packing: str | None

    @classmethod
    def of(cls, path: Path) -> Head:
        """Read the beginning of a file; raise ``CompressedFileError`` if it cannot be unpacked."""
        with open_unpacked(path) as file:
            content = file.read(_HEAD_BYTES)
            if len(content) == _HEAD_BYTES and content.lstrip().startswith(b"{"):
                content += file.readline(_LONGEST_LINE)
        return cls(path, content, packing_of(path))

    @cached_property
    def text(self) -> str:
        """Content as text without a byte order mark; bytes that are not UTF-8 become U+FFFD."""
        return self.content.decode("utf-8-sig", errors="replace")

    @cached_property
    def lines(self) -> list[str]:
        """Lines of the text, without trailing spaces."""
        return [line.rstrip() for line in self.text.split("\n")]

    @cached_property
    def last_byte(self) -> bytes:
        """Last byte of the file on disk; empty for an empty file."""
        with self.path.open("rb") as file:
            file.seek(max(file.seek(0, SEEK_END) - 1, 0))
            return file.read(1)

    @property
    def control_share(self) -> float:
        """Share of control characters in the content."""
        num = len(self.content) - len(self.content.translate(None, _CONTROL_BYTES))
        return num / max(len(self.content), 1)

    @cached_property
    def members(self) -> list[str] | None:
        """Names of the files in a ZIP archive; None if the file is not a ZIP archive."""
        if not self.content.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            return None
        try:
            with zipfile.ZipFile(self.path) as archive:
                return archive.namelist()
        except zipfile.BadZipFile:
            return []

    @cached_property
    def objects(self) -> list[bool]:
        """True or False for each of the first two lines that are not blank: is it a JSON object."""
        return [_is_object(line) for line in [line for line in self.lines if line][:2]]


Test = Callable[[Head], bool]
"""Function that recognises a kind of files by the beginning of a file."""


@dataclass(frozen=True)
class FileKind:
    """Kind of files.

    ``name``: name with its article; ``fits``: test of the content; ``remedy``: advice where this
    kind is not read, or ""; ``suffixes``: suffixes of file names, used if no test recognises the
    content."""

    name: str
    fits: Test
    remedy: str = ""
    is_text: bool = True
    suffixes: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Name and remedy: ``a ZIP archive; unpack it first``."""
        return f"{self.name}; {self.remedy}" if self.remedy else self.name


def begins_with_bytes(*magic: bytes) -> Test:
    """Make a test for the first bytes of a file."""
    return lambda head: head.content.startswith(magic)


def begins_with_text(pattern: str) -> Test:
    """Make a test for the beginning of a text by a pattern, upper or lower case."""
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda head: compiled.match(head.text) is not None


def _holding(test: Callable[[list[str]], bool]) -> Test:
    """Make a test for the names of the files in a ZIP archive."""
    return lambda head: head.members is not None and test(head.members)


def never(head: Head) -> bool:
    """Return False: the test of a kind that only the file name shows."""
    return False


def _binary(name: str, fits: Test, remedy: str, *suffixes: str) -> FileKind:
    return FileKind(name, fits, remedy, is_text=False, suffixes=suffixes)


_OLE = begins_with_bytes(b"\xd0\xcf\x11\xe0")
_UNPACK, _AS_CSV, _AS_LINES = "unpack it first", "save it as CSV", "write its rows as JSON lines"

NPZ = _binary(
    "arrays of NumPy (.npz)",
    _holding(lambda names: bool(names) and all(name.endswith(".npy") for name in names)),
    *("", ".npz"),
)
NPY = _binary("arrays of NumPy (.npy)", begins_with_bytes(b"\x93NUMPY"), "", ".npy")
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
CSV = FileKind("CSV", never, _AS_LINES, suffixes=(".csv",))
TSV = FileKind("TSV", never, _AS_LINES, suffixes=(".tsv",))
_FIRST = (
    # ZIP archives, from special kinds to any archive
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
        _AS_CSV,
    ),
    _binary(
        "a spreadsheet",
        lambda head: _OLE(head) and head.path.suffix.lower() == ".xls",
        _AS_CSV,
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
    # other archives
    _binary("a 7z archive", begins_with_bytes(b"7z\xbc\xaf"), _UNPACK),
    _binary("a RAR archive", begins_with_bytes(b"Rar!\x1a"), _UNPACK),
    _binary("a tar archive", lambda head: head.content[257:262] == b"ustar", _UNPACK),
    _binary(
        "compressed by zstd", begins_with_bytes(b"\x28\xb5\x2f\xfd"), f"{_UNPACK}, zstd -d FILE"
    ),
    _binary("compressed by lz4", begins_with_bytes(b"\x04\x22\x4d\x18"), f"{_UNPACK}, lz4 -d FILE"),
    # formats of data, pictures and documents
    _binary(
        "a pickle, which is never loaded because it could run code",
        # of few first bytes the last byte must match too
        lambda head: (
            head.content.startswith((b"\x80\x02\x8a\n", b"(lp0", b"(dp0"))
            or (re.match(rb"\x80[\x02-\x05]", head.content) is not None and head.last_byte == b".")
        ),
        *("convert it", ".pickle", ".pkl"),
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
"""Kinds recognised by their first bytes, special kinds before general ones."""

_LAST = (GRAPHML, HTML, JSON_LINES, JSON, CSV, TSV)
_NOT_TEXT = _binary("not text", lambda head: head.control_share > _MOST_CONTROL, "convert it")
_PACKED = _binary(
    "a compressed file or archive of something else than text", lambda head: True, _UNPACK
)

Kinds = Callable[[], Iterable[FileKind]]

_REGISTERED: list[Kinds] = []


def register_kinds(kinds: Kinds) -> Kinds:
    """Register a function that lists further kinds of files; a decorator."""
    _REGISTERED.append(kinds)
    return kinds


def kind_of(path: Path, own: Sequence[FileKind] = ()) -> FileKind | None:
    """Return the kind of a file; None for text that no test recognises.

    ``own``: kinds that the reader reads, tested before other kinds. Raises ``CompressedFileError``
    if the file cannot be unpacked."""
    head, suffix = Head.of(path), suffix_of(path)
    # special kinds before general ones
    registered = [kind for kinds in _REGISTERED for kind in kinds()]
    kinds = [*_FIRST, *own, *registered, *_LAST, _NOT_TEXT]
    found = next((kind for kind in kinds if kind.fits(head)), None)
    # UTF-16 without a byte order mark
    if found is not None and found.is_text and _NOT_TEXT.fits(head):
        found = _NOT_TEXT
    if found is None:
        return next((kind for kind in kinds if suffix in kind.suffixes), None)
    return found if head.packing is None or found.is_text else _PACKED


def check_kind(path: Path, own: Sequence[FileKind], expected: str) -> FileKind | None:
    """Return the kind of a file if it is None or one of ``own``.

    Raises ``ValueError`` for another kind, naming the file, its kind, the remedy and what was
    ``expected``."""
    try:
        found = kind_of(path, own)
    except CompressedFileError as error:
        raise ValueError(f"{path} is {error}") from error
    if found is not None and found not in own:
        raise ValueError(f"{path} is {found.sentence()}; expected {expected}")
    return found


def _is_object(line: str) -> bool:
    if not line.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _is_json_lines(head: Head) -> bool:
    """True if the first two lines are JSON objects, or one in a file called ``.jsonl``."""
    first, *others = [line for line in head.lines if line] or [""]
    is_whole = first.lstrip().startswith("{") and (first.endswith("}") or not others)
    is_named = suffix_of(head.path) in _LINES_SUFFIXES
    return head.objects == [True, True] or (is_named and is_whole)


def _is_json(head: Head) -> bool:
    """True for JSON or the beginning of it: an object or a list, not a number in brackets."""
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
