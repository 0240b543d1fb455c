"""Simulation of windows of peaks: random motifs, sites planted in DNA by regulatory programmes, and
motif scores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discrete_diffusion.config import check_whole_number
from discrete_diffusion.data import cache_dir, cached_arrays

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NUM_LETTERS = 4
"""A, C, G, T are letters 0 to 3, so that 3 - b is the complement of b."""

SHORTEST_MOTIF, LONGEST_MOTIF = 8, 14

THRESHOLD_SHARE = 0.5
"""Threshold of a motif as a share of the log-odds of its best word."""

PEAKS_AT_ONCE = 32
"""Number of peaks scanned at once; the output of the convolution then fits into the cache of a
core."""

_LETTER_CONCENTRATION = 0.2
_LEAST_LETTER_SHARE = 0.02
_GRID = 64
"""Log-odds are multiples of 1/64 bit: their float32 sums are exact in any order."""

SIMULATOR_VERSION = 1
"""Version of the simulator; raise it whenever the same seed gives other windows. Part of the names
of cached files."""

WORDS_WORTH_CACHING = 1_000_000_000
"""Smallest number of scored words for which windows are cached: about 3 seconds of scanning on one
core."""

BLOCK_SIZE = 8
"""Windows are sampled in blocks of this many, each from its own random stream (seed, block)."""

SHORTEST_DOMAIN, LONGEST_DOMAIN = 8, 24

MOTIF_CONCENTRATION = 0.25
"""Dirichlet parameter of the shares of a motif in the programmes; smaller is more specific."""

MEAN_SITES = 5.0

_LEVEL_SPREAD, _SITE_WEIGHT, _NOISE = 0.3, 0.1, 0.5
_WORLD_STREAM, _WINDOW_STREAM = 0, 1


@dataclass(frozen=True)
class Motifs:
    """K motifs of up to J letters, as position weight matrices. ``letter_probs``: Float64[K, J, 4]
    probability of every letter by position, 1/4 past the end. ``lengths``: Int64[K]."""

    letter_probs: Floats
    lengths: Ints

    def __len__(self) -> int:
        return len(self.lengths)

    def log_odds(self) -> Floats:
        """Log-odds Float64[K, J, 4]: log2(p / (1/4)) in bits on a grid of 1/64 bit; 0 past the
        end."""
        return np.round(np.log2(self.letter_probs * NUM_LETTERS) * _GRID) / _GRID

    def reverse_log_odds(self) -> Floats:
        """Log-odds Float64[K, J, 4] of the reverse complement: positions reversed, letters
        complemented."""
        # positions and letters in reverse order
        places = self.lengths[:, None] - 1 - np.arange(self.letter_probs.shape[1])
        turned = np.take_along_axis(self.log_odds(), np.maximum(places, 0)[..., None], axis=1)
        return np.where(places[..., None] >= 0, turned[..., ::-1], 0.0)

    def thresholds(self) -> Floats:
        """Thresholds Float64[K] in bits, on the grid of ``log_odds``: ``THRESHOLD_SHARE`` of the
        best word's log-odds."""
        best = self.log_odds().max(axis=2).sum(axis=1)
        return np.round(best * THRESHOLD_SHARE * _GRID) / _GRID


def motif_names(num: int) -> tuple[str, ...]:
    """Names of ``num`` random motifs."""
    return tuple(f"motif_{k}" for k in range(1, num + 1))


def sample_motifs(num: int, rng: np.random.Generator) -> Motifs:
    """Sample motifs of 8 to 14 letters; the probabilities at a position are Dirichlet(0.2) with 2 %
    of uniform mixed in, about 1.1 bits of information per position."""
    lengths = rng.integers(SHORTEST_MOTIF, LONGEST_MOTIF + 1, num)
    letters = rng.dirichlet([_LETTER_CONCENTRATION] * NUM_LETTERS, (num, LONGEST_MOTIF))
    probs = (1 - _LEAST_LETTER_SHARE) * letters + _LEAST_LETTER_SHARE / NUM_LETTERS
    # uniform past the end
    inside = np.arange(LONGEST_MOTIF) < lengths[:, None]
    return Motifs(np.where(inside[..., None], probs, 1 / NUM_LETTERS), lengths)


def scan_motifs(dna: NDArray[np.uint8], motifs: Motifs) -> NDArray[np.float32]:
    """Score motifs in ``dna`` UInt8[P, L], L at least the longest motif; return raw scores
    Float32[P, K] in bits.

    With the log-odds W of motif k over its J_k letters, and W' of its reverse complement:

        score[p, k] = sum over i <= L - J_k and V in (W, W') of
                      max(0, sum_j V[k, j, dna[p, i + j]] - threshold[k])

    A convolution in float32, ``PEAKS_AT_ONCE`` peaks at a time. Every sum is a multiple of 1/64 bit
    below 2^18, so scores do not depend on this number, threads or machine.
    """
    filters, bias, outside = _motif_filters(motifs)
    past_end, scores = filters.shape[3] - 1, []
    with torch.inference_mode():
        for chunk in torch.from_numpy(dna).split(PEAKS_AT_ONCE):
            # letters as channels, with room for motifs that reach past the end
            num_peaks, length = chunk.shape
            letters = torch.zeros(num_peaks, 1, length + past_end, NUM_LETTERS)
            letters[:, 0, :length] = torch.nn.functional.one_hot(chunk.long(), NUM_LETTERS)
            # one row of pixels with the letters last: the layout in which conv2d is fast
            excess = torch.conv2d(letters.permute(0, 3, 1, 2), filters, bias).relu_()
            excess[..., length - past_end :].masked_fill_(outside, 0.0)
            scores.append(excess.sum(dim=(2, 3)))  # (P, 2K)
    # both strands count
    both = torch.cat(scores)
    return (both[:, : len(motifs)] + both[:, len(motifs) :]).numpy()


def _motif_filters(motifs: Motifs) -> tuple[Tensor, Tensor, Tensor]:
    """Filters of both strands Float32[2K, 4, 1, J], negative thresholds Float32[2K], and flags
    Bool[2K, 1, J - 1]. Flags are True for starts in the last J - 1 letters from which a motif would
    reach past the end of the DNA."""
    both = np.concatenate([motifs.log_odds(), motifs.reverse_log_odds()]).astype(np.float32)
    filters = torch.from_numpy(both).movedim(2, 1).unsqueeze(2)
    bias = -torch.from_numpy(np.tile(motifs.thresholds(), 2).astype(np.float32))
    # starts from which a motif reaches past the end
    num_starts = filters.shape[3] - 1  # the last one has one letter left
    letters_left = num_starts - torch.arange(num_starts)
    outside = torch.from_numpy(np.tile(motifs.lengths, 2))[:, None] > letters_left
    return filters.contiguous(memory_format=torch.channels_last), bias, outside.unsqueeze(1)


@dataclass(frozen=True)
class SimulationSettings:
    """Settings of the windows. Raises ``ValueError`` for a number out of range."""

    num_windows: int
    rows: int
    num_motifs: int
    num_programmes: int
    peak_length: int
    generator_seed: int

    def __post_init__(self) -> None:
        least = {"peak_length": LONGEST_MOTIF, "rows": 2, "generator_seed": 0}
        for key, value in vars(self).items():
            check_whole_number(f"data.{key}", value, least=least.get(key, 1))

    @property
    def num_words(self) -> int:
        """Number of words that are scored: the cost of a simulation."""
        return self.num_windows * self.rows * self.num_motifs * self.peak_length

    def cache_file(self) -> Path:
        """File in which ``cached_windows`` keeps the windows."""
        sizes = (
            f"w{self.num_windows}-n{self.rows}-k{self.num_motifs}-g{self.num_programmes}"
            f"-l{self.peak_length}-s{self.generator_seed}"
        )
        return cache_dir() / f"regions-v{SIMULATOR_VERSION}-{sizes}.npz"


@dataclass(frozen=True)
class SimulatedWindows:
    """W windows of N peaks. ``scores``: Float32[W, N, K] raw motif scores in bits.
    ``accessibility``: Float32[W, N], positive. ``programmes``: Int64[W, N], the programme of every
    peak."""

    scores: NDArray[np.float32]
    accessibility: NDArray[np.float32]
    programmes: Ints


def cached_windows(settings: SimulationSettings) -> SimulatedWindows:
    """Result of ``simulate_windows(settings)``, cached where simulating takes long; a cache that
    cannot be read or written is logged and ignored."""
    if settings.num_words < WORDS_WORTH_CACHING:
        return simulate_windows(settings)
    # arrays that the cache must hold
    peaks = (settings.num_windows, settings.rows)
    expected = {
        "scores": (np.float32, (*peaks, settings.num_motifs)),
        "accessibility": (np.float32, peaks),
        "programmes": (np.int64, peaks),
    }
    arrays = cached_arrays(
        settings.cache_file(), "regions", expected, lambda: vars(simulate_windows(settings))
    )
    return SimulatedWindows(**arrays)


def simulate_windows(settings: SimulationSettings) -> SimulatedWindows:
    """Simulate the windows of ``settings``; fewer windows of the same seed are the first of more.

    Given its programme z, a peak is independent of all other peaks:

        n ~ Poisson(5) sites, the motif of each ~ motif_probs[z], its letters ~ the motif
        scores = ``scan_motifs`` of uniform DNA with these sites in it
        accessibility = exp(level[z] + 0.1 (n - 5) + 0.5 e),  e ~ N(0, 1)
    """
    # motifs and programmes of all windows, then blocks of windows
    rng = np.random.default_rng([settings.generator_seed, _WORLD_STREAM])
    motifs = sample_motifs(settings.num_motifs, rng)
    programmes = sample_programmes(settings.num_programmes, settings.num_motifs, rng)
    blocks = [
        vars(_simulate_block(settings, motifs, programmes, block))
        for block in range(-(-settings.num_windows // BLOCK_SIZE))
    ]
    # blocks joined, cut to the number of windows
    joined = {
        name: np.concatenate([block[name] for block in blocks])[: settings.num_windows]
        for name in blocks[0]
    }
    return SimulatedWindows(**joined)


@dataclass(frozen=True)
class Programmes:
    """G regulatory programmes, which decide the motifs of a peak. ``motif_probs``: Float64[G, K],
    probabilities of the motif of a planted site. ``level``: Float64[G], contribution to the log of
    accessibility."""

    motif_probs: Floats
    level: Floats


def sample_programmes(num: int, num_motifs: int, rng: np.random.Generator) -> Programmes:
    """Sample ``num`` programmes over ``num_motifs`` motifs: the shares of a motif in them are
    Dirichlet, each programme's shares are scaled to sum to 1; level ~ N(0, 0.3^2)."""
    # shares of each motif in the programmes, then of each programme in motifs
    use = rng.dirichlet([MOTIF_CONCENTRATION] * num, num_motifs).T
    probs = use / use.sum(axis=1, keepdims=True)
    return Programmes(probs, _LEVEL_SPREAD * rng.standard_normal(num))


def sample_domains(num_windows: int, rows: int, num: int, rng: np.random.Generator) -> Ints:
    """Sample the programme of every peak, Int64[W, N], of ``num_windows`` windows of ``rows``
    peaks. Domains of 8 to 24 neighbouring peaks share a programme, and neighbouring domains have
    different programmes (unless ``num`` is 1). A window begins and ends at random positions within
    domains."""
    # enough domains for any window, the first one cut at its left
    num_domains = -(-rows // SHORTEST_DOMAIN) + 1
    lengths = rng.integers(SHORTEST_DOMAIN, LONGEST_DOMAIN + 1, (num_windows, num_domains))
    before = rng.integers(0, lengths[:, 0])
    ends = np.cumsum(lengths, axis=1) - before[:, None]
    # steps between programmes are never 0, so neighbours differ
    first = rng.integers(0, num, (num_windows, 1))
    steps = rng.integers(1, max(num, 2), (num_windows, num_domains - 1))
    programmes = np.cumsum(np.concatenate([first, steps], axis=1), axis=1) % num
    # the domain of each peak
    domain = (ends[:, None, :] <= np.arange(rows)[:, None]).sum(axis=2)
    return np.take_along_axis(programmes, domain, axis=1)


def _simulate_block(
    settings: SimulationSettings, motifs: Motifs, programmes: Programmes, block: int
) -> SimulatedWindows:
    rng = np.random.default_rng([settings.generator_seed, _WINDOW_STREAM, block])
    chosen = sample_domains(BLOCK_SIZE, settings.rows, settings.num_programmes, rng)
    programme = chosen.reshape(-1)  # by peak
    # sites in uniform DNA
    sites = sample_sites(programmes.motif_probs[programme], motifs, settings.peak_length, rng)
    dna = rng.integers(0, NUM_LETTERS, (len(programme), settings.peak_length), dtype=np.uint8)
    plant_sites(dna, sites, motifs)
    # accessibility by programme and number of sites
    num_sites = np.bincount(sites.peak, minlength=len(programme))
    log_access = programmes.level[programme] + _SITE_WEIGHT * (num_sites - MEAN_SITES)
    log_access += _NOISE * rng.standard_normal(len(programme))
    access = np.exp(log_access).astype(np.float32)
    scores = scan_motifs(dna, motifs).reshape(*chosen.shape, len(motifs))
    return SimulatedWindows(scores, access.reshape(chosen.shape), chosen)


@dataclass(frozen=True)
class Sites:
    """S binding sites, in the order of planting. ``peak``, ``motif``, ``start``: Int64[S].
    ``letters``: UInt8[S, J] as read along the peak; only the first ``lengths[motif]`` are used."""

    peak: Ints
    motif: Ints
    start: Ints
    letters: NDArray[np.uint8]


def sample_sites(
    motif_probs: Floats, motifs: Motifs, peak_length: int, rng: np.random.Generator
) -> Sites:
    """Sample Poisson(5) sites for each of P peaks, their motifs by ``motif_probs`` Float64[P, K],
    their letters by the motif; a site lies anywhere in the peak, on either strand."""
    # number, motif and start of the sites of each peak
    num_sites = rng.poisson(MEAN_SITES, len(motif_probs))
    peak = np.repeat(np.arange(len(motif_probs)), num_sites)
    motif = _sample_index(np.cumsum(motif_probs, axis=1)[peak], rng)
    length = motifs.lengths[motif]
    start = rng.integers(0, peak_length - length + 1)
    letters = _sample_index(np.cumsum(motifs.letter_probs, axis=2)[motif], rng)
    # half of the sites are on the other strand: reversed complements
    turned = rng.random(len(peak)) < 0.5
    places = np.maximum(length[:, None] - 1 - np.arange(letters.shape[1]), 0)
    reverse = NUM_LETTERS - 1 - np.take_along_axis(letters, places, axis=1)
    read = np.where(turned[:, None], reverse, letters)
    return Sites(peak, motif, start, read.astype(np.uint8))


def plant_sites(dna: NDArray[np.uint8], sites: Sites, motifs: Motifs) -> None:
    """Write ``sites`` into ``dna`` UInt8[P, L]; where sites overlap the later one wins."""
    width = sites.letters.shape[1]
    inside = np.arange(width) < motifs.lengths[sites.motif][:, None]
    site, place = np.nonzero(inside)  # sorted by site, and numpy lets the last value stand
    dna[sites.peak[site], sites.start[site] + place] = sites.letters[site, place]


def _sample_index(cumulative: Floats, rng: np.random.Generator) -> Ints:
    """Sample an index per row of cumulative probabilities Float64[..., K]."""
    u = rng.random(cumulative.shape[:-1])
    return (cumulative[..., :-1] <= u[..., None]).sum(axis=-1)
