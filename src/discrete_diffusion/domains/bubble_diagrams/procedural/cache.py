"""Generated plans kept on disk, so that the second run starts at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from discrete_diffusion.data.cache import cache_dir, cached_arrays
from discrete_diffusion.domains.bubble_diagrams.procedural.generator import (
    GENERATOR_VERSION,
    PlanArrays,
    draw_plans,
)
from discrete_diffusion.domains.bubble_diagrams.procedural.programme import N_MAX


def cache_file(num: int, seed: int = 0) -> Path:
    """Where ``cached_plans(num, seed)`` keeps its plans."""
    return cache_dir() / f"plans-v{GENERATOR_VERSION}-n{num}-s{seed}.npz"


def cached_plans(num: int, seed: int = 0) -> PlanArrays:
    """What ``draw_plans(num, seed)`` returns, read from the cache if it is there.

    A file that cannot be read is drawn and written again, and a folder that cannot be written to
    does no harm; both warn (``RuntimeWarning``). Raises ``ValueError`` for a negative ``num`` or
    ``seed``.
    """
    expected = {
        "room_types": (np.int16, (num, N_MAX)),
        "num_rooms": (np.int16, (num,)),
        "boxes": (np.int16, (num, N_MAX, 4)),
        "relations": (np.int16, (num, N_MAX, N_MAX)),
    }
    arrays = cached_arrays(
        cache_file(num, seed), "plans", expected, lambda: vars(draw_plans(num, seed))
    )
    return PlanArrays(**{name: array.astype(np.int64) for name, array in arrays.items()})
