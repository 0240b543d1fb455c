"""Text files: UTF-8, plain or compressed by gzip, xz or bzip2."""

from __future__ import annotations

import codecs
import csv
import json
import logging
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import DTypeLike, NDArray

from discrete_diffusion.runtime.atomic_files import UNFINISHED, atomic_write
from discrete_diffusion.runtime.inputs import (
    CompressedFileError,
    FileKind,
    GivenObjects,
    check_kind,
    open_unpacked,
    place_of_line,
)


class TableError(ValueError):
    """Fault of a table, which names the line but not the file."""


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


def table_rows(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row of a table, and the number of its last line. Raises ``TableError`` for
    a quote that is never closed, or has text behind it."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    first = 1
    try:
        for cells in reader:
            yield reader.line_num, cells
            first = reader.line_num + 1
    except csv.Error as error:
        raise TableError(
            f"line {first:,}: {error}; close every quote, and write a quote within quotes twice"
        ) from error


def load_json(text: str) -> Any:
    """The value of a JSON text. Raises ``ValueError`` with one sentence for what is none, is nested
    too deeply, or gives a key twice."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in found if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} is given twice in one object; leave one of them out")
    return found


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


logger = logging.getLogger(__name__)

CACHE_VARIABLE = "DISCRETE_DIFFUSION_CACHE"
"""Environment variable that names the cache folder."""

_PATTERNS = ("*-v*.npz", f".*-v*{UNFINISHED}*", "*-v*.sqlite3*")
"""Cached files are called ``KIND-vVERSION-...npz``, or ``.sqlite3`` with a journal beside it."""

_UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


def cache_dir() -> Path:
    """The folder that generated data is cached in; it need not exist.

    ``$DISCRETE_DIFFUSION_CACHE``, else ``$XDG_CACHE_HOME/discrete_diffusion``, else
    ``~/.cache/discrete_diffusion``.
    """
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~")) / ".cache"
    return root / "discrete_diffusion"


def cached_arrays(
    path: Path,
    kind: str,
    expected: Mapping[str, tuple[DTypeLike, tuple[int | None, ...]]],
    draw: Callable[[], Mapping[str, NDArray[Any]]],
    *,
    compressed: bool = True,
) -> dict[str, NDArray[Any]]:
    """Arrays of ``draw()``, read from the ``.npz`` file ``path`` if it is there, else computed and
    written to it. ``expected``: type and shape of every array, None for a size that may be any;
    ``kind``: what the data is called. No pickle is loaded.

    A file that holds anything else is replaced, and a folder that cannot be written to is left
    alone; both are logged as warnings.
    """
    try:
        return _read_cached(path, expected)
    except (FileNotFoundError, NotADirectoryError):
        logger.info("generating %s, once; kept in %s", kind, path.parent)
    except _UNREADABLE as error:
        logger.warning(
            "%s is not a readable cache file (%s); its %s are generated again", path, error, kind
        )
    arrays = {name: array.astype(expected[name][0]) for name, array in draw().items()}
    write: Callable[..., None] = np.savez_compressed if compressed else np.savez
    try:
        with atomic_write(path) as unfinished, unfinished.open("wb") as file:
            write(file, **arrays)
    except OSError as error:
        logger.warning(
            "the %s could not be cached in %s (%s); set %s to a folder that can be written to",
            *(kind, path.parent, error, CACHE_VARIABLE),
        )
    return arrays


def _read_cached(
    path: Path, expected: Mapping[str, tuple[DTypeLike, tuple[int | None, ...]]]
) -> dict[str, NDArray[Any]]:
    arrays = {}
    with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
        for name, (dtype, shape) in expected.items():
            array = file[name]
            sizes = zip(array.shape, shape, strict=False)
            fits = array.ndim == len(shape) and all(m is None or n == m for n, m in sizes)
            if not fits or array.dtype != dtype:
                raise ValueError(
                    f"{name} is {array.dtype} {array.shape}, expected {np.dtype(dtype)} {shape}"
                )
            arrays[name] = array
    return arrays


def cached_files() -> list[Path]:
    """The cached data, of any generator version, and what a killed process left unfinished."""
    return sorted({file for pattern in _PATTERNS for file in cache_dir().glob(pattern)})


def clear_cache() -> list[Path]:
    """Delete the cached data, of any generator version; returns the files that were there."""
    files = cached_files()
    for file in files:
        file.unlink(missing_ok=True)
    return files


UNREADABLE = (
    *(OSError, EOFError, ValueError, LookupError, ArithmeticError, MemoryError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)
"""Errors of readers of arrays that are damaged, encrypted, or claim impossible shapes."""

_MOST, _MOST_TIMES = 1 << 30, 200
"""Bytes of an array from which on it may not be more than so many times as large as in its file."""


def check_members(file: NpzFile, source: str) -> None:
    """Raise ``ValueError`` for a name that comes twice, and for an array that is tiny in the file
    and would fill memory."""
    seen = set()
    for member in file.zip.infolist() if file.zip else ():
        if member.filename in seen:
            raise ValueError(f"{source} has {member.filename} twice; write it anew with one")
        seen.add(member.filename)
        check_expansion(member.file_size, member.compress_size, f"{source}: {member.filename}")


def check_expansion(num_bytes: int, num_stored: int, array: str) -> None:
    """Raise ``ValueError`` for an ``array`` of so many bytes that would fill memory and are next to
    nothing where they are stored."""
    if num_bytes > max(_MOST, _MOST_TIMES * num_stored):
        raise ValueError(
            f"{array} is stored in {num_stored:,} bytes and takes {num_bytes:,} in memory; write "
            "it anew without compression if that is right"
        )
