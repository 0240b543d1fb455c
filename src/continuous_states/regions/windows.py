"""Windows of neighbouring peaks, cut from a table so that no peak is on both sides of a split."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from continuous_states.regions.dataset import RegionDataset
from continuous_states.regions.table import ACCESSIBILITY, RegionTable
from discrete_diffusion.config import counted
from discrete_diffusion.data import Examples, shares_of

logger = logging.getLogger(__name__)

Ints = NDArray[np.int64]

FEWEST_ROWS = 2
"""A window of one row has nothing to predict it from."""

_PEAK_NAME = re.compile(r"([^\s:]+):(\d{1,12})-(\d{1,12})")


@dataclass(frozen=True)
class PeakPositions:
    """Places of P peaks: ``chromosome`` Int64[P], numbered in natural order (chr2 before chr10),
    ``start`` and ``end`` Int64[P] in base pairs."""

    chromosome: Ints
    start: Ints
    end: Ints

    def genome_order(self) -> Ints:
        """Int64[P]: peaks sorted by chromosome, then start, then end."""
        return np.lexsort((self.end, self.start, self.chromosome))


def read_positions(names: Sequence[str], source: str) -> PeakPositions:
    """Positions of peaks named ``CHROMOSOME:START-END``.

    Raises ``ValueError`` naming ``source`` and line for a name of another form, or one given twice.
    """
    chromosomes: list[str] = []
    ends = np.zeros((len(names), 2), np.int64)
    lines: dict[str, int] = {}
    for row, name in enumerate(names):
        match = _PEAK_NAME.fullmatch(name)
        if match is None or int(match[2]) >= int(match[3]):
            raise ValueError(
                f"{source}: peak_names, line {row + 1}: {name!r} is not a peak name; "
                "expected CHROMOSOME:START-END with START < END, e.g. chr1:100-600"
            )
        if (first := lines.setdefault(name, row)) != row:
            raise ValueError(
                f"{source}: peak_names, line {row + 1}: {name!r} is in line {first + 1} too; "
                "give every peak once"
            )
        chromosomes.append(match[1])
        ends[row] = int(match[2]), int(match[3])
    numbers = {name: k for k, name in enumerate(sorted(set(chromosomes), key=_natural))}
    chromosome = np.array([numbers[name] for name in chromosomes], np.int64)
    return PeakPositions(chromosome, ends[:, 0], ends[:, 1])


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Runs of digits compare as numbers and come before letters."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(not p.isdigit(), int(p) if p.isdigit() else 0, p) for p in parts]


def cut_table(
    table: RegionTable,
    *,
    rows: int,
    fractions: Sequence[float],
    max_span: int,
    quantitative_atac: bool,
) -> RegionDataset:
    """Windows of ``rows`` consecutive peaks of one chromosome that span less than ``max_span`` bp.

    All peaks, in genome order (chromosomes in natural order, then start), are cut into the shares
    ``fractions`` first; each share is cut into windows by itself, cell type by cell type. So no
    peak is on both sides of a split, whatever the cell type; the peaks next to a cut are neighbours
    all the same. A cell type has the peaks with aTPM above 0; without any, one cell type has all.
    A window with fewer than ``rows`` peaks (the end of a chromosome or share, a gap) is padded. How
    many peaks are left out, counted once per cell type, is logged.
    """
    positions = read_positions(table.peak_names, table.source)
    order = positions.genome_order()
    named = np.array([*table.peak_names, ""])  # -1, past the end, takes the last
    splits, peak_names, cell_types, num_left_out = {}, {}, {}, 0
    for split, share in shares_of(len(order), fractions).items():
        x0, cut, of = [], [], []
        for cell_type, values in table.atpm.items() or [("", None)]:
            peaks = order[share]
            peaks = peaks if values is None else peaks[values[peaks] > 0]
            windows = cut_windows(peaks, positions, rows, max_span)
            num_left_out += len(peaks) - int((windows >= 0).sum())
            x0.append(_features(table.scores, values if quantitative_atac else None, windows))
            cut.append(windows)
            of.append(np.full(len(windows), cell_type))
        peaks = np.concatenate(cut)
        splits[split] = Examples(torch.from_numpy(np.concatenate(x0)), torch.from_numpy(peaks >= 0))
        peak_names[split], cell_types[split] = named[peaks], np.concatenate(of)
    if num_left_out:
        logger.warning(
            "%s: left out %s without a neighbour in the same split and chromosome, within "
            "data.max_span=%d",
            table.source,
            counted(num_left_out, "peak"),
            max_span,
        )
    kinds = counted(len(table.atpm), "cell type") if table.atpm else "no atpm"
    return RegionDataset(
        splits,
        feature_names=(*table.motif_names, ACCESSIBILITY),
        source=f"{table.source} ({counted(len(order), 'peak')}, {kinds})",
        places={"peak_names": peak_names} | ({"cell_types": cell_types} if table.atpm else {}),
    )


def cut_windows(peaks: Ints, positions: PeakPositions, rows: int, max_span: int) -> Ints:
    """Int64[W, N] peaks of every window, -1 past its end; ``peaks`` Int64[P] in genome order.

    Each window takes as many peaks as it may from where the last one ended: up to ``rows``, of one
    chromosome, from first start to last end less than ``max_span`` bp. One of a single peak is left
    out.
    """
    chromosome, start = positions.chromosome[peaks], positions.start[peaks]
    windows, first = [], 0
    while first < len(peaks):
        block = slice(first, first + rows)
        reach = np.maximum.accumulate(positions.end[peaks[block]]) - start[first]
        fits = (chromosome[block] == chromosome[first]) & (reach < max_span)
        num = max(1, len(fits) if fits.all() else int(np.argmin(fits)))
        if num >= FEWEST_ROWS:
            windows.append(np.pad(peaks[first : first + num], (0, rows - num), constant_values=-1))
        first += num
    return np.array(windows, np.int64).reshape(len(windows), rows)


def _features(
    scores: NDArray[np.float32], access: NDArray[np.float32] | None, windows: Ints
) -> NDArray[np.float32]:
    """Float32[W, N, K + 1] with accessibility (1 if None) last; 0 past the end of a window."""
    real = windows >= 0
    x0 = np.zeros((*windows.shape, scores.shape[1] + 1), np.float32)
    x0[real, :-1] = scores[windows[real]]
    x0[real, -1] = 1.0 if access is None else access[windows[real]]
    return x0
