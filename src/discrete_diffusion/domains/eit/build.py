"""From a ``data`` config to a ``FieldDataset`` or ``EITLevels``: simulated phantoms, or a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from einops import rearrange
from numpy.typing import NDArray
from torch import Tensor

from discrete_diffusion.data.base import Examples, shares_of
from discrete_diffusion.domains.eit.dataset import EITLevels, FieldDataset
from discrete_diffusion.domains.eit.files import read_phantoms
from discrete_diffusion.domains.eit.levels import (
    LEVELS,
    MASK_ID,
    VOCAB_SIZE,
    are_levels,
    conductivity_to_levels,
    levels_to_conductivity,
)
from discrete_diffusion.domains.eit.simulator import (
    SIMULATOR_VERSION,
    Maps,
    SimulationSettings,
    background_map,
    cached_phantoms,
)
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.options import is_number, set_derived

if TYPE_CHECKING:
    from omegaconf import DictConfig

DTN_TRANSFORMS = ("ratio", "difference", "none")

_NOISE_STREAM = 1


@dataclass(frozen=True)
class _Phantoms:
    """``media``: Float32[M, H, W] conductivity. ``dtn``: Float32[M, n, n], transformed. The rest
    as in the data sets."""

    media: Tensor
    dtn: Tensor
    source: str
    made_by: str | None


def complete_eit(config: DictConfig, state: str) -> None:
    """Write what ``size`` decides into ``config``: ``channels`` and ``field_size`` of fields, the
    layout of ids. Raises ``ValueError`` for a number that is not that of the data."""
    if state == "field":
        sizes = {"channels": 1, "field_size": config.size}
    else:
        sizes = {"length": config.size**2, "vocab_size": VOCAB_SIZE, "mask_id": MASK_ID}
    set_derived(config, "data", sizes)


def build_eit(config: DictConfig, state: str) -> FieldDataset | EITLevels:
    """Phantoms, simulated if ``path`` is null, else read from it: as fields, or in the state
    ``tokens`` as ids of the six levels.

    Raises ``ValueError`` or ``FileNotFoundError`` with one sentence for settings out of range, a
    file that cannot be read or does not go with the settings, a split without a sample and, of
    ids, a conductivity that is no level.
    """
    if config.dtn_transform not in DTN_TRANSFORMS:
        raise ValueError(unknown_name("data.dtn_transform", config.dtn_transform, DTN_TRANSFORMS))
    phantoms = _simulated(config) if config.path is None else _read(config)
    source, made_by = phantoms.source, phantoms.made_by
    if state == "field":
        x0 = rearrange(phantoms.media, "m h w -> m 1 h w")
        return FieldDataset(_splits(config, phantoms, x0, 1), source=source, made_by=made_by)
    _check_levels(phantoms)
    x0 = rearrange(conductivity_to_levels(phantoms.media), "m h w -> m (h w)")
    return EITLevels(_splits(config, phantoms, x0, x0.shape[1]), source=source, made_by=made_by)


def _simulated(config: DictConfig) -> _Phantoms:
    settings = SimulationSettings(
        num_samples=config.num_samples,
        size=config.size,
        phantoms=config.phantoms,
        mesh_rings=config.mesh_rings,
        num_boundary=config.num_boundary,
        phantom_seed=config.phantom_seed,
    )
    noise, transform = config.noise_level, config.dtn_transform
    drawn = cached_phantoms(settings)
    noisy = _noisy(drawn.dtn, noise, settings.phantom_seed)
    background = background_map(settings.mesh_rings, settings.num_boundary)
    return _Phantoms(
        levels_to_conductivity(torch.from_numpy(drawn.levels)),
        torch.from_numpy(_transformed(noisy, background, transform)),
        source=f"simulated {settings.phantoms} of seed {settings.phantom_seed}",
        made_by=repr((SIMULATOR_VERSION, settings, float(noise), transform)),
    )


def _read(config: DictConfig) -> _Phantoms:
    file = read_phantoms(config.path)
    for key, array, found in (
        ("size", "media", file.media.shape[1:]),
        ("num_boundary", "dtn", file.dtn.shape[1:]),
    ):
        if config[key] != found[0]:
            raise ValueError(
                f"{file.source}: {array} holds {found[0]} x {found[1]} numbers a sample, but "
                f"data.{key}={config[key]}; set data.{key}={found[0]}"
            )
    if file.background is None and config.dtn_transform != "none":
        raise ValueError(
            f"{file.source} has no array 'background', the map of conductivity 1, which "
            f"data.dtn_transform={config.dtn_transform} needs; add it, or set "
            "data.dtn_transform=none"
        )
    noisy = _noisy(file.dtn, config.noise_level, config.phantom_seed)
    return _Phantoms(
        torch.from_numpy(file.media),
        torch.from_numpy(_transformed(noisy, file.background, config.dtn_transform)),
        source=file.source,
        made_by=None,
    )


def _transformed(dtn: Maps, background: NDArray | None, name: str) -> Maps:
    """Float32[M, n, n] divided by the map of conductivity 1, Float[n, n], entry by entry
    (``ratio``), less it (``difference``) or as they are (``none``). Symmetric maps stay symmetric.
    """
    if name == "none" or background is None:
        return dtn
    reference = background.astype(np.float32)
    return dtn / reference if name == "ratio" else dtn - reference


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
    config: DictConfig, phantoms: _Phantoms, x0: Tensor, num_positions: int
) -> dict[str, Examples]:
    """Samples are independent of each other: the first are train, the next val, the last test."""
    real = torch.ones(len(x0), num_positions, dtype=torch.bool)
    splits = {
        name: Examples(x0[share], real[share], conditions={"dtn": phantoms.dtn[share]})
        for name, share in shares_of(len(x0), config.split).items()
    }
    for (name, examples), share in zip(splits.items(), config.split, strict=True):
        if share > 0 and len(examples) == 0:
            more = "data.num_samples" if config.path is None else "samples"
            raise ValueError(
                f"{phantoms.source}: the {name} share of data.split={list(config.split)} has no "
                f"sample; give more {more} or another data.split"
            )
    return splits


def _check_levels(phantoms: _Phantoms) -> None:
    wrong = ~are_levels(phantoms.media)
    if wrong.any():
        sample, row, column = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"{phantoms.source}: media[{sample}, {row}, {column}] is "
            f"{phantoms.media[sample, row, column].item():.6g}; data=eit-levels takes {LEVELS} "
            "only: use data=eit"
        )
