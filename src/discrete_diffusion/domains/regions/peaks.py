"""DNA of peaks: uniform letters with planted binding sites."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.domains.regions.motifs import NUM_LETTERS, Motifs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MEAN_SITES = 5.0


@dataclass(frozen=True)
class Sites:
    """S binding sites to plant, in this order.

    ``peak``, ``motif``, ``start``: Int64[S]. ``letters``: UInt8[S, J] as read along the peak, of
    which the first ``lengths[motif]`` count.
    """

    peak: Ints
    motif: Ints
    start: Ints
    letters: NDArray[np.uint8]


def draw_sites(
    motif_probs: Floats, motifs: Motifs, peak_length: int, rng: np.random.Generator
) -> Sites:
    """Poisson(5) sites for each of P peaks; ``motif_probs`` Float64[P, K] says which motifs.

    A site's letters are drawn from its motif; it lies anywhere in the peak, on either strand.
    """
    num_sites = rng.poisson(MEAN_SITES, len(motif_probs))
    peak = np.repeat(np.arange(len(motif_probs)), num_sites)
    motif = _draw(np.cumsum(motif_probs, axis=1)[peak], rng)
    length = motifs.lengths[motif]
    start = rng.integers(0, peak_length - length + 1)
    letters = _draw(np.cumsum(motifs.letter_probs, axis=2)[motif], rng)
    turned = rng.random(len(peak)) < 0.5
    places = np.maximum(length[:, None] - 1 - np.arange(letters.shape[1]), 0)
    reverse = NUM_LETTERS - 1 - np.take_along_axis(letters, places, axis=1)
    read = np.where(turned[:, None], reverse, letters)
    return Sites(peak, motif, start, read.astype(np.uint8))


def plant(dna: NDArray[np.uint8], sites: Sites, motifs: Motifs) -> None:
    """Write ``sites`` into ``dna`` UInt8[P, L]; where sites overlap the later one stands."""
    width = sites.letters.shape[1]
    inside = np.arange(width) < motifs.lengths[sites.motif][:, None]
    site, place = np.nonzero(inside)  # sorted by site, and numpy lets the last value stand
    dna[sites.peak[site], sites.start[site] + place] = sites.letters[site, place]


def _draw(cumulative: Floats, rng: np.random.Generator) -> Ints:
    """One index per row of cumulative probabilities Float64[..., K]."""
    u = rng.random(cumulative.shape[:-1])
    return (cumulative[..., :-1] <= u[..., None]).sum(axis=-1)
