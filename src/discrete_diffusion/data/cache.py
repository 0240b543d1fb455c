"""Generated data kept on disk, so that the second run starts at once."""

from __future__ import annotations

import os
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from discrete_diffusion.whole_files import written_whole

CACHE_VARIABLE = "DISCRETE_DIFFUSION_CACHE"
"""Environment variable that names the cache folder."""

_KINDS = ("plans", "regions", "eit")
"""Cached files are called ``KIND-vVERSION-...npz``."""

_UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)

Data = TypeVar("Data")


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


def cached(
    path: Path,
    kind: str,
    *,
    draw: Callable[[], Data],
    read: Callable[[Path], Data],
    write: Callable[[Path, Data], None],
) -> Data:
    """What ``draw()`` returns, read from ``path`` if it is there, else drawn and written to it.

    A file that ``read`` cannot make sense of is drawn and written again, and a folder that cannot
    be written to does no harm; both warn (``RuntimeWarning``). ``kind``: what the data is called.
    """
    try:
        return read(path)
    except (FileNotFoundError, NotADirectoryError):
        pass  # nothing cached yet
    except _UNREADABLE as error:
        warnings.warn(
            f"{path} is not a readable cache file ({error}); its {kind} are generated again",
            RuntimeWarning,
            stacklevel=3,  # the caller of the function that calls this one
        )
    data = draw()
    try:
        with written_whole(path) as unfinished:
            write(unfinished, data)
    except OSError as error:
        warnings.warn(
            f"the {kind} could not be cached in {path.parent} ({error}); set {CACHE_VARIABLE} to a "
            "folder that can be written to",
            RuntimeWarning,
            stacklevel=3,  # the caller of the function that calls this one
        )
    return data


def cached_files() -> list[Path]:
    """The cached data, of any generator version, and what a killed process left unfinished."""
    patterns = [p for kind in _KINDS for p in (f"{kind}-v*.npz", f".{kind}-v*.unfinished")]
    return sorted(file for pattern in patterns for file in cache_dir().glob(pattern))


def clear_cache() -> list[Path]:
    """Delete the cached data, of any generator version; returns the files that were there."""
    files = cached_files()
    for file in files:
        file.unlink(missing_ok=True)
    return files
