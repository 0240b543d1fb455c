"""Motifs of binding sites as position weight matrices, invented by a seed; their scores in DNA."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NUM_LETTERS = 4
"""A, C, G, T are letters 0 to 3, so that 3 - b is the complement of b."""

SHORTEST_MOTIF, LONGEST_MOTIF = 8, 14

THRESHOLD_SHARE = 0.5
"""Threshold of a motif as a share of the log-odds of its best word."""

PEAKS_AT_ONCE = 32
"""Peaks at once, so few that the output of the convolution stays in the cache of a core."""

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
    """Names of ``num`` random motifs."""
    return tuple(f"motif_{k}" for k in range(1, num + 1))


def sample_motifs(num: int, rng: np.random.Generator) -> Motifs:
    """``num`` motifs of 8 to 14 letters; the probabilities at a position are Dirichlet(0.2) with
    2 % of uniform mixed in, about 1.1 bits of information per position."""
    lengths = rng.integers(SHORTEST_MOTIF, LONGEST_MOTIF + 1, num)
    letters = rng.dirichlet([_LETTER_CONCENTRATION] * NUM_LETTERS, (num, LONGEST_MOTIF))
    probs = (1 - _LEAST_LETTER_SHARE) * letters + _LEAST_LETTER_SHARE / NUM_LETTERS
    inside = np.arange(LONGEST_MOTIF) < lengths[:, None]
    return Motifs(np.where(inside[..., None], probs, 1 / NUM_LETTERS), lengths)


def scan(
    dna: NDArray[np.uint8], motifs: Motifs, *, peaks_at_once: int = PEAKS_AT_ONCE
) -> NDArray[np.float32]:
    """Raw scores Float32[P, K] in bits of ``dna`` UInt8[P, L], L at least the longest motif.

    With the log-odds W of motif k over its J_k letters, and W' of its reverse complement:

        score[p, k] = sum over i <= L - J_k and V in (W, W') of
                      max(0, sum_j V[k, j, dna[p, i + j]] - threshold[k])

    A convolution in float32, ``peaks_at_once`` peaks at a time. Every sum is a multiple of 1/64 bit
    below 2^18, so scores do not depend on ``peaks_at_once``, threads or machine.
    """
    filters, bias, outside = _filters(motifs)
    with torch.inference_mode():
        scores = [
            _strand_scores(chunk, filters, bias, outside)
            for chunk in torch.from_numpy(dna).split(peaks_at_once)
        ]
    both = torch.cat(scores)
    return (both[:, : len(motifs)] + both[:, len(motifs) :]).numpy()


def _filters(motifs: Motifs) -> tuple[Tensor, Tensor, Tensor]:
    """Filters of both strands: Float32[2K, 4, 1, J], minus the thresholds Float32[2K], and
    Bool[2K, 1, J - 1]: starts in the last J - 1 letters at which a motif would reach past the end
    of the DNA."""
    both = np.concatenate([motifs.log_odds(), motifs.reverse_log_odds()]).astype(np.float32)
    filters = torch.from_numpy(both).movedim(2, 1).unsqueeze(2)
    bias = -torch.from_numpy(np.tile(motifs.thresholds(), 2).astype(np.float32))
    num_starts = filters.shape[3] - 1  # the last one has one letter left
    letters_left = num_starts - torch.arange(num_starts)
    outside = torch.from_numpy(np.tile(motifs.lengths, 2))[:, None] > letters_left
    return filters.contiguous(memory_format=torch.channels_last), bias, outside.unsqueeze(1)


def _strand_scores(dna: Tensor, filters: Tensor, bias: Tensor, outside: Tensor) -> Tensor:
    """UInt8[P, L] -> Float32[P, 2K]."""
    num_peaks, length = dna.shape
    past_end = filters.shape[3] - 1
    letters = torch.zeros(num_peaks, 1, length + past_end, NUM_LETTERS)
    letters[:, 0, :length] = torch.nn.functional.one_hot(dna.long(), NUM_LETTERS)
    # One row of pixels with the letters last: the layout in which this convolution is fast.
    excess = torch.conv2d(letters.permute(0, 3, 1, 2), filters, bias).relu_()
    excess[..., length - past_end :].masked_fill_(outside, 0.0)
    return excess.sum(dim=(2, 3))
