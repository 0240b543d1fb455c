"""Regulatory programmes: which motifs a peak carries, and which neighbours share a programme."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHORTEST_DOMAIN, LONGEST_DOMAIN = 8, 24

MOTIF_CONCENTRATION = 0.25
"""Dirichlet parameter by which a motif is shared out to programmes; less is more specific."""

_LEVEL_SPREAD = 0.3


@dataclass(frozen=True)
class Programmes:
    """G programmes.

    ``motif_probs``: Float64[G, K] which motif a planted site has.
    ``level``: Float64[G], the programme's part in the log of accessibility.
    """

    motif_probs: Floats
    level: Floats

    def __len__(self) -> int:
        return len(self.level)


def draw_programmes(num: int, num_motifs: int, rng: np.random.Generator) -> Programmes:
    """``num`` programmes over ``num_motifs`` motifs: each motif is shared out to them by a
    Dirichlet, each programme's shares are scaled to sum to 1; level ~ N(0, 0.3^2)."""
    use = rng.dirichlet([MOTIF_CONCENTRATION] * num, num_motifs).T
    probs = use / use.sum(axis=1, keepdims=True)
    return Programmes(probs, _LEVEL_SPREAD * rng.standard_normal(num))


def draw_domains(num_windows: int, rows: int, num: int, rng: np.random.Generator) -> Ints:
    """Int64[W, N] programme of every peak of ``num_windows`` windows of ``rows`` peaks.

    Domains of 8 to 24 neighbouring peaks share a programme, and neighbouring domains have different
    ones (if there are two). A window begins anywhere in its first domain and ends anywhere in its
    last.
    """
    num_domains = -(-rows // SHORTEST_DOMAIN) + 1
    lengths = rng.integers(SHORTEST_DOMAIN, LONGEST_DOMAIN + 1, (num_windows, num_domains))
    before = rng.integers(0, lengths[:, 0])
    ends = np.cumsum(lengths, axis=1) - before[:, None]
    first = rng.integers(0, num, (num_windows, 1))
    steps = rng.integers(1, max(num, 2), (num_windows, num_domains - 1))
    programmes = np.cumsum(np.concatenate([first, steps], axis=1), axis=1) % num
    domain = (ends[:, None, :] <= np.arange(rows)[:, None]).sum(axis=2)
    return np.take_along_axis(programmes, domain, axis=1)
