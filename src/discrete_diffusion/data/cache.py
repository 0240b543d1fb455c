"""Generated data kept on disk, so that the second run starts at once."""

from __future__ import annotations

import logging
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from discrete_diffusion.runtime.atomic_files import UNFINISHED, atomic_write

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
        return _read(path, expected)
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


def _read(
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
