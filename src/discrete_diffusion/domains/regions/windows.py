"""Windows of neighbouring peaks, cut from a table so that no peak is on both sides of a split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from discrete_diffusion.data.base import Examples, shares_of
from discrete_diffusion.domains.regions.dataset import Names
from discrete_diffusion.domains.regions.peak_names import PeakPositions, read_positions
from discrete_diffusion.domains.regions.table import RegionTable

Ints = NDArray[np.int64]

FEWEST_ROWS = 2
"""A window of one row has nothing to predict it from."""


@dataclass(frozen=True)
class CutTable:
    """``splits``: windows by split. ``num_left_out``: peaks, counted once per cell type, that had
    no second one near enough to make a window. ``peak_names``, ``cell_types``: of the windows, as
    in ``RegionDataset``."""

    splits: dict[str, Examples]
    num_left_out: int
    peak_names: dict[str, Names]
    cell_types: dict[str, Names] | None


def cut_table(
    table: RegionTable,
    *,
    rows: int,
    fractions: Sequence[float],
    max_span: int,
    quantitative_atac: bool,
) -> CutTable:
    """Windows of ``rows`` consecutive peaks of one chromosome that span less than ``max_span`` bp.

    All peaks, in genome order (chromosomes in natural order, then start), are cut into the shares
    ``fractions`` first; each share is cut into windows by itself, cell type by cell type. So no
    peak is on both sides of a split, whatever the cell type; the peaks next to a cut are neighbours
    all the same. A cell type has the peaks with aTPM above 0; without any, one cell type has all.
    A window with fewer than ``rows`` peaks (the end of a chromosome or share, a gap) is padded.
    """
    positions = read_positions(table.peak_names, table.source)
    order = positions.genome_order()
    named = np.array([*table.peak_names, ""])  # -1, past the end, takes the last
    splits, peak_names, cell_types, num_left_out = {}, {}, {}, 0
    for name, share in shares_of(len(order), fractions).items():
        parts, cut, of = [], [], []
        for cell_type, values in table.atpm.items() or [("", None)]:
            peaks = order[share]
            peaks = peaks if values is None else peaks[values[peaks] > 0]
            windows = cut_windows(peaks, positions, rows, max_span)
            num_left_out += len(peaks) - int((windows >= 0).sum())
            access = values if quantitative_atac else None
            parts.append(_features(table.scores, access, windows))
            cut.append(windows)
            of.append(np.full(len(windows), cell_type))
        x0 = torch.from_numpy(np.concatenate([part for part, _ in parts]))
        real = torch.from_numpy(np.concatenate([part for _, part in parts]))
        splits[name] = Examples(x0, real)
        peak_names[name], cell_types[name] = named[np.concatenate(cut)], np.concatenate(of)
    return CutTable(splits, num_left_out, peak_names, cell_types if table.atpm else None)


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
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Rows Float32[W, N, K + 1] with accessibility (1 if None) last, 0 past the end; Bool[W, N]."""
    real = windows >= 0
    x0 = np.zeros((*windows.shape, scores.shape[1] + 1), np.float32)
    x0[real, :-1] = scores[windows[real]]
    x0[real, -1] = 1.0 if access is None else access[windows[real]]
    return x0, real
