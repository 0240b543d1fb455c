"""Files of data: text in UTF-8, cached arrays, and checks of arrays in files."""

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
    """Error in a table; the message names the line but not the file."""


@dataclass(frozen=True)
class TextSource:
    """Text with its source.

    ``name``: path of the file, or name of the objects or the embedded text; ``given``: objects that
    replace a file; ``kind``: kind of the file, None if not recognised."""

    name: str
    text: str
    given: GivenObjects | None = None
    kind: FileKind | None = None

    def place(self, line: int) -> str:
        """Name a line in an error message, see ``place_of_line``."""
        return place_of_line(self.name if self.given is None else self.given, line)


def split_lines(text: str) -> list[str]:
    r"""Lines of a file, which end at ``\n``, ``\r\n`` or ``\r``; ``str.splitlines`` also cuts at a
    form feed or U+2028, which JSON has inside of strings."""
    return [line.removesuffix("\n") for line in StringIO(text, newline=None)]


def table_rows(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of its last line, cells) for each row of a table.

    Raises ``TableError`` for a quote that is not closed, or is followed by text."""
    # an error names the first line of its row
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
    """Parse JSON; ``ValueError`` if it is invalid, nested too deeply, or repeats a key."""

    def refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        if twice := [key for key in keys if keys.count(key) > 1]:
            raise ValueError(
                f"the key {twice[0]!r} is given twice in one object; leave one of them out"
            )
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=refuse_repeats)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def read_text(
    path: str | Path | GivenObjects, *own: FileKind, expected: str = "text"
) -> TextSource:
    """Read the text of objects, or of a UTF-8 file, plain or compressed.

    Line ends are kept, a byte order mark is dropped. ``own``: kinds of files that are allowed in
    addition to plain text; ``expected``: description of the allowed files. Raises
    ``FileNotFoundError`` or ``ValueError`` with one sentence for a file that is missing, of another
    kind, damaged, empty or not UTF-8 (with the byte).
    """
    if isinstance(path, GivenObjects):
        return TextSource(str(path), path.text, path)
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give one text file")
    if not path.exists():
        raise FileNotFoundError(f"no text file at {path.absolute()}")
    # kind of the file, then its bytes, then its characters
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
"""Patterns of cached files: ``KIND-vVERSION-...npz``, or ``.sqlite3`` and its journal."""

UNREADABLE = (
    *(OSError, EOFError, ValueError, LookupError, ArithmeticError, MemoryError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)
"""Exceptions on reading arrays that are damaged, encrypted, or of impossible shapes."""


def cache_dir() -> Path:
    """Return the folder in which generated data is cached; it need not exist.

    ``$DISCRETE_DIFFUSION_CACHE``, else ``$XDG_CACHE_HOME/discrete_diffusion``, else
    ``~/.cache/discrete_diffusion``.
    """
    # the user's choice, or the system's
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
    """Read arrays from the ``.npz`` file ``path``, or compute them by ``draw()`` and write it.

    ``expected``: type and shape of every array, None for any size; ``kind``: name of the data.
    Pickles are not loaded. A file with other content is replaced; if the folder cannot be written
    to, nothing is cached. Both are logged as warnings.
    """
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            cached = {name: file[name] for name in expected}
        # types and shapes as expected
        for name, (dtype, shape) in expected.items():
            array = cached[name]
            sizes = zip(array.shape, shape, strict=False)
            fits = array.ndim == len(shape) and all(m is None or n == m for n, m in sizes)
            if not fits or array.dtype != dtype:
                raise ValueError(
                    f"{name} is {array.dtype} {array.shape}, expected {np.dtype(dtype)} {shape}"
                )
        return cached
    except (FileNotFoundError, NotADirectoryError):
        logger.info("generating %s, once; kept in %s", kind, path.parent)
    except UNREADABLE as error:
        logger.warning(
            "%s is not a readable cache file (%s); its %s are generated again", path, error, kind
        )
    # compute the arrays, then write them
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


def cached_files() -> list[Path]:
    """Cached files of any generator version, and unfinished files of killed processes."""
    return sorted({file for pattern in _PATTERNS for file in cache_dir().glob(pattern)})


def clear_cache() -> list[Path]:
    """Delete the cached files of any generator version; return their paths."""
    files = cached_files()
    for file in files:
        file.unlink(missing_ok=True)
    return files


_MOST, _MOST_TIMES = 1 << 30, 200
"""Size in bytes of an array from which on its compression ratio is limited, and the limit."""


def check_members(file: NpzFile, source: str) -> None:
    """Raise ``ValueError`` for a repeated array name, and as ``check_expansion``."""
    seen = set()
    for member in file.zip.infolist() if file.zip else ():
        if member.filename in seen:
            raise ValueError(f"{source} has {member.filename} twice; write it anew with one")
        seen.add(member.filename)
        check_expansion(member.file_size, member.compress_size, f"{source}: {member.filename}")


def check_expansion(num_bytes: int, num_stored: int, array: str) -> None:
    """Raise ``ValueError`` for an ``array`` that is small in its file and would fill memory."""
    if num_bytes > max(_MOST, _MOST_TIMES * num_stored):
        raise ValueError(
            f"{array} is stored in {num_stored:,} bytes and takes {num_bytes:,} in memory; write "
            "it anew without compression if that is right"
        )
