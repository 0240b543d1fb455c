"""Text files: UTF-8, plain or gzipped."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import BinaryIO

from discrete_diffusion.runtime.given_objects import GivenObjects, place_of_line

_GZIP_MAGIC = b"\x1f\x8b"


class DamagedGzipError(ValueError):
    """Fault of a gzipped file, without its name."""


@contextmanager
def open_unzipped(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file; gzip, recognised by its first bytes, is unpacked as it is read.

    Raises ``DamagedGzipError`` for gzip that cannot be unpacked to its end."""
    with path.open("rb") as file:
        if not is_gzipped(path):
            yield file
            return
        try:
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield unpacked  # type: ignore[misc]
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DamagedGzipError(f"a damaged gzip file: {error}") from error


def is_gzipped(path: Path) -> bool:
    """True if a file starts as gzip does."""
    with path.open("rb") as file:
        return file.read(2) == _GZIP_MAGIC


def suffix_of(path: Path) -> str:
    """The ending that decides what is in a file, in lower case: ``.jsonl`` of
    ``plans.jsonl.gz``."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix == ".gz" else suffix


@dataclass(frozen=True)
class TextSource:
    """``text``, and the ``name`` of where it was found: a path, the embedded text, or objects."""

    name: str
    text: str
    given: GivenObjects | None = None

    def place(self, line: int) -> str:
        """Place of a line, for errors."""
        return place_of_line(self.name if self.given is None else self.given, line)


def split_lines(text: str) -> list[str]:
    r"""The lines of a file: they end at ``\n``, ``\r\n`` or ``\r`` alone, where
    ``str.splitlines`` cuts at a form feed or U+2028 too, which JSON has inside of strings."""
    return [line.removesuffix("\n") for line in StringIO(text, newline=None)]


def read_text(path: str | Path | GivenObjects) -> TextSource:
    """The text of objects, or of a UTF-8 file, line ends as they are; gzip is recognised by its
    first bytes.

    A byte order mark at the start is left out. Raises ``FileNotFoundError`` or ``ValueError`` with
    one sentence: no such file, damaged gzip, no text in it, not UTF-8 (and at which byte).
    """
    if isinstance(path, GivenObjects):
        return TextSource(str(path), path.text, path)
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give one text file")
    if not path.exists():
        raise FileNotFoundError(f"no text file at {path.absolute()}")
    try:
        with open_unzipped(path) as file:
            content = file.read()
    except DamagedGzipError as error:
        raise ValueError(f"{path} is {error}") from error
    content = content.removeprefix(codecs.BOM_UTF8)
    if not content:
        raise ValueError(f"{path} is empty; expected text")
    try:
        return TextSource(str(path), content.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path} is not UTF-8: byte 0x{content[error.start]:02x} at offset {error.start:,} "
            f"(line {line:,}); convert it first, e.g. with iconv"
        ) from error
