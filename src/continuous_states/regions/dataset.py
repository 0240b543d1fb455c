"""Regions as a data set: windows of peaks, simulated or cut from a table."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from omegaconf import DictConfig
from torch import Tensor

from continuous_states.regions.files import (
    ACCESSIBILITY,
    RegionTable,
    read_motif_names,
    read_regions,
    shortened_names,
)
from continuous_states.regions.simulator import SimulationSettings, cached_windows, motif_names
from discrete_diffusion.config import check_whole_number, counted
from discrete_diffusion.data import SPLITS, Dataset, Examples, shares_of
from discrete_diffusion.layout import Sequences

logger = logging.getLogger(__name__)

Ints = NDArray[np.int64]

FEWEST_ROWS = 2
"""Smallest number of rows of a window; a single row could not be predicted from other rows."""

_CHUNK = 16
"""Number of windows compared at once, to save memory."""

_PEAK_NAME = re.compile(r"([^\s:]+):(\d{1,12})-(\d{1,12})")


class RegionDataset(Dataset):
    """W windows of N neighbouring peaks with M features each.

    ``splits[...].x0``: Float32[W, N, M] raw: K motif scores, then accessibility; 0 in rows that are
    not ``real`` Bool[W, N], which pad a shorter window.
    ``feature_names``: names of the M features.
    ``programmes``: by split Int64[W, N], the regulatory programme from which each peak was
    simulated, -1 where not real; None for data that was read. No prediction of a row from other
    rows is better than the mean row of its programme.
    ``places``: origin of the windows as text, by name and split: ``peak_names`` text[W, N] ("" if
    not real) and ``cell_types`` text[W] (if the data names them); empty for simulated data.
    ``source``: name of the data in the log.
    """

    state = "features"
    bound = "gaussian"

    def __init__(
        self,
        splits: dict[str, Examples],
        *,
        feature_names: tuple[str, ...],
        source: str,
        programmes: dict[str, Tensor] | None = None,
        places: Mapping[str, dict[str, NDArray[np.str_]]] = MappingProxyType({}),
    ) -> None:
        self.splits, self.feature_names, self.source = splits, feature_names, source
        self.programmes, self.places = programmes, places

    def with_training_split(self, trained_on: RegionDataset | None) -> RegionDataset:
        """Data set with the training split of ``trained_on``, if given; its programmes are dropped,
        as programmes of different data sets do not correspond."""
        data = super().with_training_split(trained_on)
        if trained_on is not None:
            data.__dict__.pop("constant_features", None)  # of other training rows
            data.programmes = None
        return data

    @cached_property
    def constant_features(self) -> tuple[str, ...]:
        """Names of the features that are constant over all training rows; empty without a row."""
        examples = self.splits["train"]
        if not examples.real.any():
            return ()
        # compare all rows with the first
        window, row = examples.real.nonzero()[0].tolist()
        first = examples.x0[window, row]
        constant = torch.ones_like(first, dtype=torch.bool)
        for x0, real in zip(examples.x0.split(_CHUNK), examples.real.split(_CHUNK), strict=True):
            constant &= (x0[real] == first).all(dim=0)
        return tuple(self.feature_names[k] for k in constant.nonzero().flatten().tolist())

    def _meaning(self) -> str:
        return repr(self.feature_names)

    def summary(self) -> str:
        parts = ", ".join(f"{len(self.splits[name]):,} {name}" for name in SPLITS)
        rows = self.splits["train"].x0.shape[1]
        summary = (
            f"{self.source}: {parts} windows of up to {rows} regions, "
            f"{len(self.feature_names)} features each"
        )
        if constant := self.constant_features:
            summary += f", {len(constant):,} constant ({shortened_names(constant, most=4)})"
        return summary


def complete_regions(config: DictConfig) -> None:
    """Write the settings that follow from the data into ``config``: ``num_features`` (motifs and
    accessibility) and ``feature_names``, which are later compared with a model's. Raises
    ``ValueError`` if ``config`` states another number of features."""
    names = _feature_names(config)
    if config.num_features not in (None, len(names)):
        raise ValueError(
            f"data.num_features={config.num_features}, but the data has {len(names)} (motifs and "
            "accessibility); leave it out"
        )
    config.num_features, config.feature_names = len(names), list(names)


def region_vocabulary(config: Mapping[str, Any]) -> Sequences:
    """Vocabulary in which every row is a token: 0 for a row, 1 for a row masked by absorbing noise,
    2 for an absent row."""
    return Sequences(config["rows"], 3, mask_id=1, pad_id=2)


def build_regions(config: DictConfig) -> RegionDataset:
    """Build the data set ``data=regions``, simulated if ``path`` is null, else read from it. Raises
    ``ValueError`` or ``FileNotFoundError`` with one sentence for settings out of range, a table
    that cannot be read, a split without a window, and training rows that are all the same."""
    check_whole_number("data.rows", config.rows, least=FEWEST_ROWS)
    if not isinstance(config.quantitative_atac, bool):
        raise ValueError(
            f"data.quantitative_atac={config.quantitative_atac}: expected true or false"
        )
    # simulated or read, and refused without anything to predict
    dataset = _simulated_regions(config) if config.path is None else _read_table(config)
    if not any(len(examples) for examples in dataset.splits.values()):
        raise ValueError(
            f"{dataset.source}: no window of at least {FEWEST_ROWS} peaks with aTPM above 0 is "
            "left; give another cell type or a larger data.max_span"
        )
    # every split with a share has a window
    fix = "give more data.num_windows or another data.split"
    if config.path is not None:
        fix = "give more peaks or another data.split: each share needs two neighbouring peaks"
    for (name, examples), share in zip(dataset.splits.items(), config.split, strict=True):
        if share > 0 and len(examples) == 0:
            raise ValueError(
                f"{dataset.source}: the {name} share of data.split={list(config.split)} has no "
                f"window; {fix}"
            )
    if len(dataset.constant_features) == len(dataset.feature_names):
        raise ValueError(
            f"{dataset.source}: all {len(dataset.feature_names)} features have one value in the "
            "training rows; there is nothing to predict"
        )
    return dataset


def build_test_regions(config: DictConfig) -> RegionDataset:
    """Data set of a model with this config, with the table at ``path`` as its test split. Raises
    ``ValueError`` naming the first feature that differs from the model's, and the errors of
    ``build_regions``."""
    names, known = _feature_names(config), tuple(config.feature_names)
    if names != known:
        # the first name that differs
        pairs = list(zip_longest(names, known, fillvalue="none"))
        k = next(k for k, (name, expected) in enumerate(pairs) if name != expected)
        others = [name for name in names if name not in known]
        unknown = f"; the model does not know {shortened_names(others, most=4)}" if others else ""
        raise ValueError(
            f"{config.path}: feature {k + 1} of {len(names)} is {pairs[k][0]}, but the model was "
            f"trained on {pairs[k][1]} there, of {len(known)}{unknown}; give the motifs of "
            "training, in the same order"
        )
    config = config.copy()
    config.split = [0.0, 0.0, 1.0]
    return build_regions(config)


def _simulation_settings(config: DictConfig) -> SimulationSettings:
    keys = ("num_windows", "rows", "num_motifs", "num_programmes", "peak_length", "generator_seed")
    return SimulationSettings(**{key: config[key] for key in keys})


def _feature_names(config: DictConfig) -> tuple[str, ...]:
    if config.path is None:
        return (*motif_names(_simulation_settings(config).num_motifs), ACCESSIBILITY)
    return (*read_motif_names(config.path), ACCESSIBILITY)


def _simulated_regions(config: DictConfig) -> RegionDataset:
    """Simulate independent windows and split them in their order: train, val, test."""
    settings = _simulation_settings(config)
    shares = shares_of(settings.num_windows, config.split)
    if config.cell_types is not None:
        raise ValueError("data.cell_types chooses from a table; give data.path or leave it out")
    # scores and accessibility side by side
    windows = cached_windows(settings)
    access = windows.accessibility[..., None]
    if not config.quantitative_atac:
        access = np.ones_like(access)
    x0 = torch.from_numpy(np.concatenate([windows.scores, access], axis=2))
    real = torch.ones(x0.shape[:2], dtype=torch.bool)
    programmes = torch.from_numpy(windows.programmes)
    return RegionDataset(
        {name: Examples(x0[share], real[share]) for name, share in shares.items()},
        feature_names=_feature_names(config),
        source=f"simulated regions of seed {settings.generator_seed}",
        programmes={name: programmes[share] for name, share in shares.items()},
    )


def _read_table(config: DictConfig) -> RegionDataset:
    check_whole_number("data.max_span", config.max_span, least=1)
    cell_types = config.cell_types
    # one name or a list
    if cell_types is not None:
        cell_types = [cell_types] if isinstance(cell_types, str) else list(map(str, cell_types))
        if not cell_types:
            raise ValueError("data.cell_types=[]: expected names of cell types, or null for all")
    return cut_table(
        read_regions(config.path, cell_types=cell_types),
        rows=config.rows,
        fractions=config.split,
        max_span=config.max_span,
        quantitative_atac=config.quantitative_atac,
    )


@dataclass(frozen=True)
class PeakPositions:
    """Positions of P peaks. ``chromosome``: Int64[P], numbered in natural order (chr2 before
    chr10). ``start``, ``end``: Int64[P] in base pairs."""

    chromosome: Ints
    start: Ints
    end: Ints

    def genome_order(self) -> Ints:
        """Indices Int64[P] of the peaks sorted by chromosome, then start, then end."""
        return np.lexsort((self.end, self.start, self.chromosome))


def read_positions(names: Sequence[str], source: str) -> PeakPositions:
    """Read positions of peaks from names ``CHROMOSOME:START-END``. Raises ``ValueError`` naming
    ``source`` and line for a name of another form, or a repeated name."""
    chromosomes: list[str] = []
    ends = np.zeros((len(names), 2), np.int64)
    lines: dict[str, int] = {}
    # chromosome and ends of each peak, each peak once
    for row, name in enumerate(names):
        match, place = _PEAK_NAME.fullmatch(name), f"{source}: peak_names, line {row + 1}: {name!r}"
        if match is None or int(match[2]) >= int(match[3]):
            raise ValueError(
                f"{place} is not a peak name; expected CHROMOSOME:START-END with START < END, "
                "e.g. chr1:100-600"
            )
        if (first := lines.setdefault(name, row)) != row:
            raise ValueError(f"{place} is in line {first + 1} too; give every peak once")
        chromosomes.append(match[1])
        ends[row] = int(match[2]), int(match[3])

    def natural(chromosome: str) -> list[tuple[bool, int, str]]:
        # runs of digits compare as numbers and come before letters
        parts = re.findall(r"[0-9]+|[^0-9]+", chromosome)
        return [(not p.isdigit(), int(p) if p.isdigit() else 0, p) for p in parts]

    numbers = {name: k for k, name in enumerate(sorted(set(chromosomes), key=natural))}
    chromosome = np.array([numbers[name] for name in chromosomes], np.int64)
    return PeakPositions(chromosome, ends[:, 0], ends[:, 1])


def cut_table(
    table: RegionTable,
    *,
    rows: int,
    fractions: Sequence[float],
    max_span: int,
    quantitative_atac: bool,
) -> RegionDataset:
    """Cut a table into windows of ``rows`` consecutive peaks of one chromosome, spanning less than
    ``max_span`` bp.

    All peaks, in genome order (chromosomes in natural order, then start), are first split into the
    shares ``fractions``; each share is cut into windows separately, cell type by cell type. So no
    peak is in two splits in any cell type, though the peaks next to a cut are neighbours. A cell
    type has the peaks with aTPM above 0; without cell types, all peaks are used.
    A window with fewer than ``rows`` peaks (the end of a chromosome or share, a gap) is padded. The
    number of peaks that are left out, counted once per cell type, is logged.
    """
    # all peaks in genome order, shared out to the splits
    positions = read_positions(table.peak_names, table.source)
    order = positions.genome_order()
    named = np.array([*table.peak_names, ""])  # -1, past the end, takes the last
    splits, peak_names, cell_types, num_left_out = {}, {}, {}, 0
    for split, share in shares_of(len(order), fractions).items():
        x0, cut, kinds = [], [], []
        for cell_type, access in table.atpm.items() or [("", None)]:
            # peaks of this share that the cell type has, cut into windows
            peaks = order[share]
            peaks = peaks if access is None else peaks[access[peaks] > 0]
            windows = cut_windows(peaks, positions, rows, max_span)
            num_left_out += len(peaks) - int((windows >= 0).sum())
            # rows that exist, with accessibility behind the scores; 0 past the end of a window
            rows_of = np.zeros((*windows.shape, table.scores.shape[1] + 1), np.float32)
            real = windows >= 0
            rows_of[real, :-1] = table.scores[windows[real]]
            rows_of[real, -1] = 1.0
            if access is not None and quantitative_atac:
                rows_of[real, -1] = access[windows[real]]
            x0.append(rows_of)
            cut.append(windows)
            kinds.append(np.full(len(windows), cell_type))
        peaks = np.concatenate(cut)
        splits[split] = Examples(torch.from_numpy(np.concatenate(x0)), torch.from_numpy(peaks >= 0))
        peak_names[split], cell_types[split] = named[peaks], np.concatenate(kinds)
    if num_left_out:
        logger.warning(
            "%s: left out %s without a neighbour in the same split and chromosome, within "
            "data.max_span=%d",
            *(table.source, counted(num_left_out, "peak"), max_span),
        )
    num_types = counted(len(table.atpm), "cell type") if table.atpm else "no atpm"
    return RegionDataset(
        splits,
        feature_names=(*table.motif_names, ACCESSIBILITY),
        source=f"{table.source} ({counted(len(order), 'peak')}, {num_types})",
        places={"peak_names": peak_names} | ({"cell_types": cell_types} if table.atpm else {}),
    )


def cut_windows(peaks: Ints, positions: PeakPositions, rows: int, max_span: int) -> Ints:
    """Indices Int64[W, N] of the peaks of every window, -1 past its end, from ``peaks`` Int64[P] in
    genome order. Each window starts after the previous window and takes as many peaks as possible:
    at most ``rows``, of one chromosome, spanning less than ``max_span`` bp from first start to last
    end. Windows of a single peak are left out."""
    chromosome, start = positions.chromosome[peaks], positions.start[peaks]
    windows, first = [], 0
    while first < len(peaks):
        block = slice(first, first + rows)
        reach = np.maximum.accumulate(positions.end[peaks[block]]) - start[first]
        # the peaks before the first that does not fit
        fits = (chromosome[block] == chromosome[first]) & (reach < max_span)
        num = max(1, len(fits) if fits.all() else int(np.argmin(fits)))
        if num >= FEWEST_ROWS:
            # a shorter window is padded
            windows.append(np.pad(peaks[first : first + num], (0, rows - num), constant_values=-1))
        first += num
    return np.array(windows, np.int64).reshape(len(windows), rows)
