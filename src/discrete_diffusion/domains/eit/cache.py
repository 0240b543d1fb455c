"""Simulated phantoms kept on disk where simulating them takes longer than a second or so."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from discrete_diffusion.data.cache import cache_dir, cached, read_arrays, write_arrays
from discrete_diffusion.domains.eit.simulator import (
    SIMULATOR_VERSION,
    SimulatedPhantoms,
    SimulationSettings,
    simulate_phantoms,
)

logger = logging.getLogger(__name__)

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
    return cached(
        cache_file(settings),
        "phantoms",
        draw=lambda: _simulate(settings),
        read=lambda path: _read(path, settings),
        write=_write,
    )


def _simulate(settings: SimulationSettings) -> SimulatedPhantoms:
    logger.info(
        "simulating %d phantoms of %s and their Dirichlet-to-Neumann maps, once; kept in %s",
        *(settings.num_samples, settings.phantoms, cache_dir()),
    )
    return simulate_phantoms(settings)


def _read(path: Path, settings: SimulationSettings) -> SimulatedPhantoms:
    s = settings
    expected = {
        "levels": (np.uint8, (s.num_samples, s.size, s.size)),
        "dtn": (np.float32, (s.num_samples, s.num_boundary, s.num_boundary)),
    }
    return SimulatedPhantoms(**read_arrays(path, expected))


def _write(path: Path, phantoms: SimulatedPhantoms) -> None:
    # maps hardly shrink, and compressing them takes longer than reading more
    write_arrays(path, vars(phantoms), compressed=False)
