"""Files that may be compressed by gzip, xz or bzip2, and are unpacked as they are read."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
