"""From a ``data`` config to a ``FieldDataset`` or ``EITLevels``: simulated phantoms, or a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from einops import rearrange
from torch import Tensor

from continuous_states.eit.dataset import EITLevels, FieldDataset
from continuous_states.eit.files import Phantoms, read_phantoms
from continuous_states.eit.levels import (
    LEVELS,
    MASK_ID,
    VOCAB_SIZE,
    are_levels,
    conductivity_to_levels,
)
from continuous_states.eit.simulator import (
    SIMULATOR_VERSION,
    Maps,
    SimulationSettings,
    background_map,
    cached_phantoms,
)
from discrete_diffusion.config import is_number, set_derived, unknown_name
from discrete_diffusion.data import Examples, shares_of
from discrete_diffusion.domains import data_state
from discrete_diffusion.layout import Numbers, Sequences, Vocabulary

if TYPE_CHECKING:
    from omegaconf import DictConfig

DTN_TRANSFORMS = ("ratio", "difference", "none")

_NOISE_STREAM = 1


def complete_eit(config: DictConfig) -> None:
    """Write what ``size`` decides into ``config``: ``channels`` and ``field_size`` of fields, the
    layout of ids. Raises ``ValueError`` for a number that is not that of the data."""
    if data_state(config) == "field":
        sizes = {"channels": 1, "field_size": config.size}
    else:
        sizes = {"length": config.size**2, "vocab_size": VOCAB_SIZE, "mask_id": MASK_ID}
    set_derived(config, "data", sizes)


def eit_vocabulary(config: Mapping[str, Any]) -> Vocabulary:
    """What images of a completed config are: fields, or ids of levels."""
    if data_state(config) == "tokens":
        return Sequences.of(config)
    return Numbers({key: config[key] for key in ("field_size", "channels")})


def build_eit(config: DictConfig) -> FieldDataset | EITLevels:
    """Phantoms, simulated if ``path`` is null, else read from it: as fields, or in the state
    ``tokens`` as ids of the six levels.

    Raises ``ValueError`` or ``FileNotFoundError`` with one sentence for settings out of range, a
    file that cannot be read or does not go with the settings, a split without a sample and, of
    ids, a conductivity that is no level.
    """
    if config.dtn_transform not in DTN_TRANSFORMS:
        raise ValueError(unknown_name("data.dtn_transform", config.dtn_transform, DTN_TRANSFORMS))
    phantoms = _simulated(config) if config.path is None else _read(config, "set data.{}={}")
    return _built(phantoms, config)


def build_test_images(config: DictConfig) -> FieldDataset | EITLevels:
    """Images of the file ``path`` as a test split of the data of a model with this config; errors
    as of ``build_eit``."""
    remedy = "the model takes no other; give such images, or train a model with data.{}={}"
    config = config.copy()
    config.split = [0.0, 0.0, 1.0]
    return _built(_read(config, remedy), config)


def _built(phantoms: Phantoms, config: DictConfig) -> FieldDataset | EITLevels:
    noisy = _noisy(phantoms.dtn, config.noise_level, config.phantom_seed)
    maps = torch.from_numpy(_transformed(noisy, phantoms.background, config.dtn_transform))
    made_by = None
    if phantoms.settings is not None:
        made_with = (float(config.noise_level), config.dtn_transform)
        made_by = repr((SIMULATOR_VERSION, phantoms.settings, *made_with))
    media = torch.from_numpy(phantoms.media)
    if data_state(config) == "field":
        x0 = rearrange(media, "m h w -> m 1 h w")
        splits = _splits(config, phantoms.source, x0, maps, num_positions=1)
        return FieldDataset(splits, source=phantoms.source, made_by=made_by)
    _check_levels(media, phantoms.source)
    x0 = rearrange(conductivity_to_levels(media), "m h w -> m (h w)")
    splits = _splits(config, phantoms.source, x0, maps, num_positions=x0.shape[1])
    return EITLevels(splits, source=phantoms.source, made_by=made_by)


def _simulated(config: DictConfig) -> Phantoms:
    settings = SimulationSettings(
        num_samples=config.num_samples,
        size=config.size,
        phantoms=config.phantoms,
        mesh_rings=config.mesh_rings,
        num_boundary=config.num_boundary,
        phantom_seed=config.phantom_seed,
    )
    drawn = cached_phantoms(settings)
    media = np.asarray(LEVELS, np.float32)[drawn.levels]
    background = background_map(settings.mesh_rings, settings.num_boundary)
    source = f"simulated {settings.phantoms} of seed {settings.phantom_seed}"
    return Phantoms(media, drawn.dtn, background.astype(np.float32), source, settings)


def _read(config: DictConfig, remedy: str) -> Phantoms:
    """Images of the file ``path``, which must go with the settings; ``remedy``: what to do if one
    does not, with places for its key and what is found."""
    phantoms = read_phantoms(config.path)
    source = phantoms.source
    for key, array, found in (
        ("size", "media", phantoms.media.shape[1]),
        ("num_boundary", "dtn", phantoms.dtn.shape[1]),
    ):
        if config[key] != found:
            raise ValueError(
                f"{source}: {array} holds {found} x {found} numbers a sample, but "
                f"data.{key}={config[key]}; {remedy.format(key, found)}"
            )
    if phantoms.background is None and config.dtn_transform != "none":
        raise ValueError(
            f"{source} has no array 'background', the map of conductivity 1, which "
            f"data.dtn_transform={config.dtn_transform} needs; add it, or set "
            "data.dtn_transform=none"
        )
    return phantoms


def _transformed(dtn: Maps, background: Maps | None, name: str) -> Maps:
    """Float32[M, n, n] divided by the map of conductivity 1, Float32[n, n], entry by entry
    (``ratio``), less it (``difference``) or as they are (``none``). Symmetric maps stay symmetric.
    """
    if name == "none" or background is None:
        return dtn
    return dtn / background if name == "ratio" else dtn - background


def _noisy(dtn: Maps, noise_level: float, seed: int) -> Maps:
    """Float32[M, n, n] with every entry times 1 + noise_level e, e ~ N(0, 1).

    Each entry has an e of its own: a noisy map is not symmetric, and its rows do not sum to 0.
    Raises ``ValueError`` for a level below 0.
    """
    if not is_number(noise_level) or not 0 <= noise_level < np.inf:
        raise ValueError(f"data.noise_level={noise_level}: expected a number, at least 0")
    if noise_level == 0:
        return dtn
    noisy = np.empty_like(dtn)
    for k, matrix in enumerate(dtn):
        rng = np.random.default_rng([seed, _NOISE_STREAM, k])
        noisy[k] = matrix * (1 + noise_level * rng.standard_normal(matrix.shape))
    return noisy


def _splits(
    config: DictConfig, source: str, x0: Tensor, maps: Tensor, *, num_positions: int
) -> dict[str, Examples]:
    """Samples are independent of each other: the first are train, the next val, the last test."""
    real = torch.ones(len(x0), num_positions, dtype=torch.bool)
    splits = {
        name: Examples(x0[share], real[share], conditions={"dtn": maps[share]})
        for name, share in shares_of(len(x0), config.split).items()
    }
    for (name, examples), share in zip(splits.items(), config.split, strict=True):
        if share > 0 and len(examples) == 0:
            more = "data.num_samples" if config.path is None else "samples"
            raise ValueError(
                f"{source}: the {name} share of data.split={list(config.split)} has no sample; "
                f"give more {more} or another data.split"
            )
    return splits


def _check_levels(media: Tensor, source: str) -> None:
    wrong = (~are_levels(media)).nonzero()
    if len(wrong):
        sample, row, column = wrong[0].tolist()
        raise ValueError(
            f"{source}: media[{sample}, {row}, {column}] is "
            f"{media[sample, row, column].item():.6g}; data=eit-levels takes {LEVELS} only: use "
            "data=eit"
        )
