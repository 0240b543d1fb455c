"""Motifs of binding sites as position weight matrices, invented by a seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NUM_LETTERS = 4
"""A, C, G, T are letters 0 to 3, so that 3 - b is the complement of b."""

SHORTEST_MOTIF, LONGEST_MOTIF = 8, 14

THRESHOLD_SHARE = 0.5
"""Threshold of a motif as a share of the log-odds of its best word."""

_LETTER_CONCENTRATION = 0.2
_LEAST_LETTER_SHARE = 0.02
_GRID = 64
"""Log-odds are multiples of 1/64 bit: their float32 sums are exact in whatever order."""


@dataclass(frozen=True)
class Motifs:
    """K motifs of up to J letters.

    ``letter_probs``: Float64[K, J, 4] probability of every letter by position, 1/4 past the end.
    ``lengths``: Int64[K].
    """

    letter_probs: Floats
    lengths: Ints

    def __len__(self) -> int:
        return len(self.lengths)

    def log_odds(self) -> Floats:
        """Float64[K, J, 4], log2(p / (1/4)) in bits on a grid of 1/64 bit; 0 past the end."""
        return np.round(np.log2(self.letter_probs * NUM_LETTERS) * _GRID) / _GRID

    def reverse_log_odds(self) -> Floats:
        """Float64[K, J, 4], the log-odds of the reverse complement: letters and ends exchanged."""
        places = self.lengths[:, None] - 1 - np.arange(self.letter_probs.shape[1])
        turned = np.take_along_axis(self.log_odds(), np.maximum(places, 0)[..., None], axis=1)
        return np.where(places[..., None] >= 0, turned[..., ::-1], 0.0)

    def thresholds(self) -> Floats:
        """Float64[K] in bits, on the same grid: ``THRESHOLD_SHARE`` of the best word's log-odds."""
        best = self.log_odds().max(axis=2).sum(axis=1)
        return np.round(best * THRESHOLD_SHARE * _GRID) / _GRID


def motif_names(num: int) -> tuple[str, ...]:
    """What ``num`` drawn motifs are called."""
    return tuple(f"motif_{k}" for k in range(1, num + 1))


def draw_motifs(num: int, rng: np.random.Generator) -> Motifs:
    """``num`` motifs of 8 to 14 letters; the probabilities at a position are Dirichlet(0.2) with
    2 % of uniform mixed in, about 1.1 bits of information per position."""
    lengths = rng.integers(SHORTEST_MOTIF, LONGEST_MOTIF + 1, num)
    letters = rng.dirichlet([_LETTER_CONCENTRATION] * NUM_LETTERS, (num, LONGEST_MOTIF))
    probs = (1 - _LEAST_LETTER_SHARE) * letters + _LEAST_LETTER_SHARE / NUM_LETTERS
    inside = np.arange(LONGEST_MOTIF) < lengths[:, None]
    return Motifs(np.where(inside[..., None], probs, 1 / NUM_LETTERS), lengths)
