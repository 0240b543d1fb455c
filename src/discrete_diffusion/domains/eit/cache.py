"""Simulated phantoms kept on disk where simulating them takes longer than a second or so."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from discrete_diffusion.data.cache import cache_dir, cached_arrays
from discrete_diffusion.domains.eit.simulator import (
    SIMULATOR_VERSION,
    SimulatedPhantoms,
    SimulationSettings,
    simulate_phantoms,
)

NODES_WORTH_CACHING = 100_000
"""Boundary nodes of all maps: 2 seconds of simulation at 32 a map, 4 at 128."""


def cache_file(settings: SimulationSettings) -> Path:
    """Where ``cached_phantoms(settings)`` keeps its phantoms."""
    s = settings
    sizes = f"{s.phantoms}-m{s.num_samples}-p{s.size}-r{s.mesh_rings}-n{s.num_boundary}"
    return cache_dir() / f"eit-v{SIMULATOR_VERSION}-{sizes}-s{s.phantom_seed}.npz"


def cached_phantoms(settings: SimulationSettings) -> SimulatedPhantoms:
    """What ``simulate_phantoms(settings)`` returns, by way of the cache if that is worth it.

    Trouble with the cache warns (``RuntimeWarning``) and does no harm.
    """
    if settings.num_samples * settings.num_boundary < NODES_WORTH_CACHING:
        return simulate_phantoms(settings)
    s = settings
    expected = {
        "levels": (np.uint8, (s.num_samples, s.size, s.size)),
        "dtn": (np.float32, (s.num_samples, s.num_boundary, s.num_boundary)),
    }
    arrays = cached_arrays(
        cache_file(s),
        "phantoms",
        expected,
        lambda: vars(simulate_phantoms(s)),
        compressed=False,  # maps hardly shrink, and it takes longer than reading more
    )
    return SimulatedPhantoms(**arrays)
