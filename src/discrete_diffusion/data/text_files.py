"""Text files: UTF-8, plain or compressed by gzip, xz or bzip2."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from discrete_diffusion.runtime.compressed_files import CompressedFileError, open_unpacked
from discrete_diffusion.runtime.file_kinds import FileKind, check_kind
from discrete_diffusion.runtime.given_objects import GivenObjects, place_of_line


@dataclass(frozen=True)
class TextSource:
    """``text``, and the ``name`` of where it was found: a path, the embedded text, or objects.
    ``kind``: of the file, None of text that nothing tells."""

    name: str
    text: str
    given: GivenObjects | None = None
    kind: FileKind | None = None

    def place(self, line: int) -> str:
        """Place of a line, for errors."""
        return place_of_line(self.name if self.given is None else self.given, line)


def split_lines(text: str) -> list[str]:
    r"""The lines of a file: they end at ``\n``, ``\r\n`` or ``\r`` alone, where
    ``str.splitlines`` cuts at a form feed or U+2028 too, which JSON has inside of strings."""
    return [line.removesuffix("\n") for line in StringIO(text, newline=None)]


def read_text(
    path: str | Path | GivenObjects, *own: FileKind, expected: str = "text"
) -> TextSource:
    """The text of objects, or of a UTF-8 file, line ends as they are; what is compressed is
    recognised by its first bytes.

    A byte order mark at the start is left out. ``own``: kinds of files that are read besides text
    that nothing tells; ``expected``: all of them in words. Raises ``FileNotFoundError`` or
    ``ValueError`` with one sentence: no such file, another kind of file, damaged, no text in it,
    not UTF-8 (and at which byte).
    """
    if isinstance(path, GivenObjects):
        return TextSource(str(path), path.text, path)
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give one text file")
    if not path.exists():
        raise FileNotFoundError(f"no text file at {path.absolute()}")
    kind = check_kind(path, own, expected)
    try:
        with open_unpacked(path) as file:
            content = file.read()
    except CompressedFileError as error:
        raise ValueError(f"{path} is {error}") from error
    content = content.removeprefix(codecs.BOM_UTF8)
    if not content:
        raise ValueError(f"{path} is empty; expected {expected}")
    try:
        return TextSource(str(path), content.decode("utf-8"), kind=kind)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path} is not UTF-8: byte 0x{content[error.start]:02x} at offset {error.start:,} "
            f"(line {line:,}); convert it first, e.g. with iconv"
        ) from error
