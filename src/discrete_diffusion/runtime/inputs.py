"""What is read: files, compressed by gzip, xz or bzip2 or not, and objects in their place."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from functools import cached_property
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
