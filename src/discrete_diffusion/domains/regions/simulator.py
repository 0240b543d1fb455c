"""Windows of peaks whose motif content follows regulatory programmes, simulated from a seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from einops import rearrange
from numpy.typing import NDArray

from discrete_diffusion.domains.regions.motifs import (
    LONGEST_MOTIF,
    NUM_LETTERS,
    Motifs,
    draw_motifs,
)
from discrete_diffusion.domains.regions.peaks import MEAN_SITES, draw_sites, plant
from discrete_diffusion.domains.regions.programmes import Programmes, draw_domains, draw_programmes
from discrete_diffusion.domains.regions.scanning import scan
from discrete_diffusion.options import check_whole_number

SIMULATOR_VERSION = 1
"""To be raised whenever the same seed gives other windows: cached files carry it in their name."""

BLOCK_SIZE = 8
"""Windows are drawn in blocks of this many, each from its own random stream (seed, block)."""

_SITE_WEIGHT = 0.1
_NOISE = 0.5
_WORLD_STREAM, _WINDOW_STREAM = 0, 1


@dataclass(frozen=True)
class SimulationSettings:
    """What decides the windows. Raises ``ValueError`` for a number out of range."""

    num_windows: int
    rows: int
    num_motifs: int
    num_programmes: int
    peak_length: int
    region_seed: int

    def __post_init__(self) -> None:
        least = {"peak_length": LONGEST_MOTIF, "rows": 2, "region_seed": 0}
        for key, value in vars(self).items():
            check_whole_number(f"data.{key}", value, least=least.get(key, 1))

    @property
    def num_words(self) -> int:
        """Words that are scored: what a simulation costs."""
        return self.num_windows * self.rows * self.num_motifs * self.peak_length


@dataclass(frozen=True)
class SimulatedWindows:
    """W windows of N peaks.

    ``scores``: Float32[W, N, K] raw motif scores in bits. ``accessibility``: Float32[W, N],
    positive. ``programmes``: Int64[W, N], the programme of every peak.
    """

    scores: NDArray[np.float32]
    accessibility: NDArray[np.float32]
    programmes: NDArray[np.int64]


def draw_world(settings: SimulationSettings) -> tuple[Motifs, Programmes]:
    """The motifs and programmes of a seed."""
    rng = np.random.default_rng([settings.region_seed, _WORLD_STREAM])
    motifs = draw_motifs(settings.num_motifs, rng)
    return motifs, draw_programmes(settings.num_programmes, settings.num_motifs, rng)


def simulate_windows(settings: SimulationSettings) -> SimulatedWindows:
    """The windows of ``settings``; fewer windows of the same seed are the first of more.

    Given its programme z a peak is independent of every other peak:

        n ~ Poisson(5) sites, the motif of each ~ motif_probs[z], its letters ~ the motif
        scores = ``scan`` of uniform DNA with these sites in it
        accessibility = exp(level[z] + 0.1 (n - 5) + 0.5 e),  e ~ N(0, 1)
    """
    motifs, programmes = draw_world(settings)
    blocks = [
        _draw_block(settings, motifs, programmes, block)
        for block in range(-(-settings.num_windows // BLOCK_SIZE))
    ]
    joined = (
        np.concatenate([getattr(block, name) for block in blocks])[: settings.num_windows]
        for name in ("scores", "accessibility", "programmes")
    )
    return SimulatedWindows(*joined)


def _draw_block(
    settings: SimulationSettings, motifs: Motifs, programmes: Programmes, block: int
) -> SimulatedWindows:
    rng = np.random.default_rng([settings.region_seed, _WINDOW_STREAM, block])
    chosen = draw_domains(BLOCK_SIZE, settings.rows, len(programmes), rng)
    by_peak = rearrange(chosen, "w n -> (w n)")
    sites = draw_sites(programmes.motif_probs[by_peak], motifs, settings.peak_length, rng)
    shape = (len(by_peak), settings.peak_length)
    dna = rng.integers(0, NUM_LETTERS, shape, dtype=np.uint8)
    plant(dna, sites, motifs)
    num_sites = np.bincount(sites.peak, minlength=len(by_peak))
    log_access = programmes.level[by_peak] + _SITE_WEIGHT * (num_sites - MEAN_SITES)
    log_access += _NOISE * rng.standard_normal(len(by_peak))
    access = np.exp(log_access).astype(np.float32)
    return SimulatedWindows(
        rearrange(scan(dna, motifs), "(w n) k -> w n k", w=BLOCK_SIZE),
        rearrange(access, "(w n) -> w n", w=BLOCK_SIZE),
        chosen,
    )
