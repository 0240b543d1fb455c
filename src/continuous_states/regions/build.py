"""From a ``data`` config to a ``RegionDataset``: simulated windows, or a table by path."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from continuous_states.regions.dataset import RegionDataset
from continuous_states.regions.motifs import motif_names
from continuous_states.regions.simulator import SimulationSettings, cached_windows
from continuous_states.regions.table import (
    ACCESSIBILITY,
    first_names,
    read_motif_names,
    read_regions,
)
from continuous_states.regions.windows import FEWEST_ROWS, cut_table
from discrete_diffusion.config import check_whole_number
from discrete_diffusion.data import Examples, shares_of
from discrete_diffusion.layout import Sequences

if TYPE_CHECKING:
    from omegaconf import DictConfig


def complete_regions(config: DictConfig) -> None:
    """Write what the data decides into ``config``: ``num_features``, motifs and accessibility, and
    ``feature_names``, which are compared with a model's later.

    Raises ``ValueError`` for a number that is not that of the data.
    """
    names = _feature_names(config)
    found = len(names)
    if config.num_features not in (None, found):
        raise ValueError(
            f"data.num_features={config.num_features}, but the data has {found} (motifs and "
            "accessibility); leave it out"
        )
    config.num_features, config.feature_names = found, list(names)


def region_vocabulary(config: Mapping[str, Any]) -> Sequences:
    """Rows as tokens of one legal id, 0: one that absorbing noise masks becomes id 1, an absent one
    id 2."""
    return Sequences(config["rows"], 3, mask_id=1, pad_id=2)


def build_regions(config: DictConfig) -> RegionDataset:
    """``data=regions``: simulated if ``path`` is null, else read from it.

    Raises ``ValueError`` or ``FileNotFoundError`` with one sentence for settings out of range, a
    table that cannot be read, a split without a window, and training rows that are all the same.
    """
    check_whole_number("data.rows", config.rows, least=FEWEST_ROWS)
    if not isinstance(config.quantitative_atac, bool):
        raise ValueError(
            f"data.quantitative_atac={config.quantitative_atac}: expected true or false"
        )
    dataset = _simulated(config) if config.path is None else _read(config)
    _check_splits(dataset, config)
    if len(dataset.constant_features) == len(dataset.feature_names):
        raise ValueError(
            f"{dataset.source}: all {len(dataset.feature_names)} features have one value in the "
            "training rows; there is nothing to predict"
        )
    return dataset


def build_test_regions(config: DictConfig) -> RegionDataset:
    """The table at ``path`` as the test split of what a model with this config was trained on.

    Raises ``ValueError`` naming the first feature that is another than the model was trained on,
    and what ``build_regions`` raises.
    """
    names, known = _feature_names(config), tuple(config.feature_names)
    if names != known:
        pairs = list(zip_longest(names, known, fillvalue="none"))
        k = next(k for k, (name, expected) in enumerate(pairs) if name != expected)
        others = [name for name in names if name not in known]
        unknown = f"; the model does not know {first_names(others, most=4)}" if others else ""
        raise ValueError(
            f"{config.path}: feature {k + 1} of {len(names)} is {pairs[k][0]}, but the model was "
            f"trained on {pairs[k][1]} there, of {len(known)}{unknown}; give the motifs of "
            "training, in the same order"
        )
    config = config.copy()
    config.split = [0.0, 0.0, 1.0]
    return build_regions(config)


def _settings(config: DictConfig) -> SimulationSettings:
    keys = ("num_windows", "rows", "num_motifs", "num_programmes", "peak_length", "region_seed")
    return SimulationSettings(**{key: config[key] for key in keys})


def _feature_names(config: DictConfig) -> tuple[str, ...]:
    if config.path is None:
        return (*motif_names(_settings(config).num_motifs), ACCESSIBILITY)
    return (*read_motif_names(config.path), ACCESSIBILITY)


def _simulated(config: DictConfig) -> RegionDataset:
    """Windows are independent of each other: the first are train, the next val, the last test."""
    settings = _settings(config)
    shares = shares_of(settings.num_windows, config.split)
    if config.cell_types is not None:
        raise ValueError("data.cell_types chooses from a table; give data.path or leave it out")
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
        source=f"simulated regions of seed {settings.region_seed}",
        programmes={name: programmes[share] for name, share in shares.items()},
    )


def _read(config: DictConfig) -> RegionDataset:
    check_whole_number("data.max_span", config.max_span, least=1)
    cell_types = config.cell_types
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


def _check_splits(dataset: RegionDataset, config: DictConfig) -> None:
    """Every split that is to have a share has a window."""
    fix = "give more data.num_windows or another data.split"
    if config.path is not None:
        fix = "give more peaks or another data.split: each share needs two neighbouring peaks"
    if not any(len(examples) for examples in dataset.splits.values()):
        raise ValueError(
            f"{dataset.source}: no window of at least {FEWEST_ROWS} peaks with aTPM above 0 is "
            "left; give another cell type or a larger data.max_span"
        )
    for (name, examples), share in zip(dataset.splits.items(), config.split, strict=True):
        if share > 0 and len(examples) == 0:
            raise ValueError(
                f"{dataset.source}: the {name} share of data.split={list(config.split)} has no "
                f"window; {fix}"
            )
