"""Simulated windows kept on disk where drawing them takes longer than a few seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from discrete_diffusion.data.cache import cache_dir, cached_arrays
from discrete_diffusion.domains.regions.simulator import (
    SIMULATOR_VERSION,
    SimulatedWindows,
    SimulationSettings,
    simulate_windows,
)

WORDS_WORTH_CACHING = 1_000_000_000
"""About 3 seconds of scanning on one core."""


def cache_file(settings: SimulationSettings) -> Path:
    """Where ``cached_windows(settings)`` keeps its windows."""
    s = settings
    sizes = f"w{s.num_windows}-n{s.rows}-k{s.num_motifs}-g{s.num_programmes}-l{s.peak_length}"
    return cache_dir() / f"regions-v{SIMULATOR_VERSION}-{sizes}-s{s.region_seed}.npz"


def cached_windows(settings: SimulationSettings) -> SimulatedWindows:
    """What ``simulate_windows(settings)`` returns, by way of the cache if that is worth it.

    Trouble with the cache warns (``RuntimeWarning``) and does no harm.
    """
    if settings.num_words < WORDS_WORTH_CACHING:
        return simulate_windows(settings)
    peaks = (settings.num_windows, settings.rows)
    expected = {
        "scores": (np.float32, (*peaks, settings.num_motifs)),
        "accessibility": (np.float32, peaks),
        "programmes": (np.int64, peaks),
    }
    arrays = cached_arrays(
        cache_file(settings), "regions", expected, lambda: vars(simulate_windows(settings))
    )
    return SimulatedWindows(**arrays)
