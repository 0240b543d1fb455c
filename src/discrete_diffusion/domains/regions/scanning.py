"""Motif scores of DNA: log-odds of every word on both strands, what exceeds a threshold summed."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discrete_diffusion.domains.regions.motifs import NUM_LETTERS, Motifs

PEAKS_AT_ONCE = 32
"""What the convolution writes then stays in the cache of a core."""


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
    peaks = torch.from_numpy(dna)
    with torch.inference_mode():
        parts = [
            _scores(chunk, filters, bias, outside, len(motifs))
            for chunk in peaks.split(peaks_at_once)
        ]
    return torch.cat(parts).numpy() if parts else np.zeros((0, len(motifs)), np.float32)


def _filters(motifs: Motifs) -> tuple[Tensor, Tensor, Tensor]:
    """Float32[2K, 4, 1, J], minus the thresholds Float32[2K], and Bool[2K, 1, J - 1]: starts in the
    last J - 1 letters at which a motif would reach past the end of the DNA."""
    both = np.concatenate([motifs.log_odds(), motifs.reverse_log_odds()]).astype(np.float32)
    filters = torch.from_numpy(both).movedim(2, 1).unsqueeze(2)
    bias = -torch.from_numpy(np.tile(motifs.thresholds(), 2).astype(np.float32))
    num_starts = filters.shape[3] - 1  # the last one has one letter left
    letters_left = num_starts - torch.arange(num_starts)
    outside = torch.from_numpy(np.tile(motifs.lengths, 2))[:, None] > letters_left
    return filters.contiguous(memory_format=torch.channels_last), bias, outside.unsqueeze(1)


def _scores(dna: Tensor, filters: Tensor, bias: Tensor, outside: Tensor, num_motifs: int) -> Tensor:
    """UInt8[P, L] -> Float32[P, K]."""
    num_peaks, length = dna.shape
    past_end = filters.shape[3] - 1
    letters = torch.zeros(num_peaks, 1, length + past_end, NUM_LETTERS)
    one_hot = torch.nn.functional.one_hot(dna.long(), NUM_LETTERS)
    letters[:, 0, :length] = one_hot
    # One row of pixels with the letters last: the layout in which this convolution is fast.
    excess = torch.conv2d(letters.permute(0, 3, 1, 2), filters, bias).relu_()
    excess[..., length - past_end :].masked_fill_(outside, 0.0)
    both = excess.sum(dim=(2, 3))
    return both[:, :num_motifs] + both[:, num_motifs:]
