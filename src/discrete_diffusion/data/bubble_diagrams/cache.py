"""Generated plans kept on disk, so that the second run starts at once."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np

from discrete_diffusion.data.bubble_diagrams.generator import (
    GENERATOR_VERSION,
    PlanArrays,
    draw_plans,
)
from discrete_diffusion.data.bubble_diagrams.programme import N_MAX
from discrete_diffusion.data.cache import cache_dir, cached


def cache_file(num: int, seed: int = 0) -> Path:
    """Where ``cached_plans(num, seed)`` keeps its plans."""
    return cache_dir() / f"plans-v{GENERATOR_VERSION}-n{num}-s{seed}.npz"


def cached_plans(num: int, seed: int = 0) -> PlanArrays:
    """What ``draw_plans(num, seed)`` returns, read from the cache if it is there.

    A file that cannot be read is drawn and written again, and a folder that cannot be written to
    does no harm; both warn (``RuntimeWarning``). Raises ``ValueError`` for a negative ``num`` or
    ``seed``.
    """
    return cached(
        cache_file(num, seed),
        "plans",
        draw=lambda: draw_plans(num, seed),
        read=lambda path: _read(path, num),
        write=_write,
    )


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
    with path.open("wb") as file:
        np.savez_compressed(file, **small)
