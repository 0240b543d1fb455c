"""Generated plans kept on disk, so that the second run starts at once."""

from __future__ import annotations

import os
import warnings
import zipfile
import zlib
from dataclasses import fields
from pathlib import Path

import numpy as np

from discrete_diffusion.data.bubble_diagrams.generator import (
    GENERATOR_VERSION,
    PlanArrays,
    draw_plans,
)
from discrete_diffusion.data.bubble_diagrams.programme import N_MAX
from discrete_diffusion.whole_files import written_whole

CACHE_VARIABLE = "DISCRETE_DIFFUSION_CACHE"
"""Environment variable that names the cache folder."""

_PATTERNS = ("plans-v*.npz", ".plans-v*.unfinished")
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


def cache_dir() -> Path:
    """The folder that plans are cached in; it need not exist.

    ``$DISCRETE_DIFFUSION_CACHE``, else ``$XDG_CACHE_HOME/discrete_diffusion``, else
    ``~/.cache/discrete_diffusion``.
    """
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~")) / ".cache"
    return root / "discrete_diffusion"


def cache_file(num: int, seed: int = 0) -> Path:
    """Where ``cached_plans(num, seed)`` keeps its plans."""
    return cache_dir() / f"plans-v{GENERATOR_VERSION}-n{num}-s{seed}.npz"


def cached_plans(num: int, seed: int = 0) -> PlanArrays:
    """What ``draw_plans(num, seed)`` returns, read from the cache if it is there.

    A file that cannot be read is drawn and written again, and a folder that cannot be written to
    does no harm; both warn (``RuntimeWarning``). Raises ``ValueError`` for a negative ``num`` or
    ``seed``.
    """
    path = cache_file(num, seed)
    try:
        return _read(path, num)
    except (FileNotFoundError, NotADirectoryError):
        pass  # nothing cached yet
    except _UNREADABLE as error:
        warnings.warn(
            f"{path} is not a readable cache file ({error}); its plans are generated again",
            RuntimeWarning,
            stacklevel=2,
        )
    plans = draw_plans(num, seed)
    try:
        _write(path, plans)
    except OSError as error:
        warnings.warn(
            f"the plans could not be cached in {path.parent} ({error}); set {CACHE_VARIABLE} to a "
            "folder that can be written to",
            RuntimeWarning,
            stacklevel=2,
        )
    return plans


def cached_files() -> list[Path]:
    """The cached plans, of any generator version, and what a killed process left unfinished."""
    return sorted(file for pattern in _PATTERNS for file in cache_dir().glob(pattern))


def clear_cache() -> list[Path]:
    """Delete the cached plans, of any generator version; returns the files that were there."""
    files = cached_files()
    for file in files:
        file.unlink(missing_ok=True)
    return files


def _shapes(num: int) -> dict[str, tuple[int, ...]]:
    return {
        "room_types": (num, N_MAX),
        "num_rooms": (num,),
        "boxes": (num, N_MAX, 4),
        "relations": (num, N_MAX, N_MAX),
    }


def _read(path: Path, num: int) -> PlanArrays:
    arrays = {}
    with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
        for name, shape in _shapes(num).items():
            array = file[name]
            if array.shape != shape or array.dtype != np.int16:
                raise ValueError(f"{name} is {array.dtype} {array.shape}, expected int16 {shape}")
            arrays[name] = array.astype(np.int64)
    return PlanArrays(**arrays)


def _write(path: Path, plans: PlanArrays) -> None:
    small = {f.name: getattr(plans, f.name).astype(np.int16) for f in fields(plans)}
    with written_whole(path) as unfinished, unfinished.open("wb") as file:
        np.savez_compressed(file, **small)
