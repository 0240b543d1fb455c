"""Text files: UTF-8, plain or gzipped."""

from __future__ import annotations

import codecs
import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class TextSource:
    """``text``, and the ``name`` of where it was found: a path, or the embedded text."""

    name: str
    text: str


def read_text(path: str | Path) -> TextSource:
    """The text of a UTF-8 file, line ends as they are; gzip is recognised by its first bytes.

    A byte order mark at the start is left out. Raises ``FileNotFoundError`` or ``ValueError`` with
    one sentence: no such file, damaged gzip, no text in it, not UTF-8 (and at which byte).
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give one text file")
    if not path.exists():
        raise FileNotFoundError(f"no text file at {path.absolute()}")
    content = path.read_bytes()
    if content.startswith(_GZIP_MAGIC):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path} is a damaged gzip file: {error}") from error
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
