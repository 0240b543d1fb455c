"""From a ``data`` config to a ``FieldDataset`` or ``EITLevels``: simulated phantoms, or a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from einops import rearrange
from torch import Tensor

from discrete_diffusion.data.base import Examples, shares_of
from discrete_diffusion.domains.eit.cache import cached_phantoms
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
from discrete_diffusion.domains.eit.maps import add_noise, check_transform, transform_maps
from discrete_diffusion.domains.eit.simulator import (
    SIMULATOR_VERSION,
    SimulationSettings,
    background_map,
)

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True)
class _Phantoms:
    """``media``: Float32[M, H, W] conductivity. ``dtn``: Float32[M, n, n], transformed. The rest
    as in the data sets."""

    media: Tensor
    dtn: Tensor
    source: str
    made_by: str | None


def complete_eit(config: DictConfig) -> None:
    """Write ``field_size``, height and width of the field, into ``config``.

    Raises ``ValueError`` for a number that is not that of the data.
    """
    _state(config, "channels", 1)
    _state(config, "field_size", config.size)


def complete_eit_levels(config: DictConfig) -> None:
    """Write the layout into ``config``: ``length`` H W, ``vocab_size``, ``mask_id``.

    Raises ``ValueError`` for a number that is not that of the data.
    """
    _state(config, "length", config.size**2)
    _state(config, "vocab_size", VOCAB_SIZE)
    _state(config, "mask_id", MASK_ID)


def _state(config: DictConfig, key: str, value: int) -> None:
    if config.get(key) not in (None, value):
        raise ValueError(f"data.{key}={config[key]}, but the data makes it {value}; leave it out")
    config[key] = value


def build_eit(config: DictConfig) -> FieldDataset:
    """``data=eit``: phantoms as fields, simulated if ``path`` is null, else read from it.

    Raises ``ValueError`` or ``FileNotFoundError`` with one sentence for settings out of range, a
    file that cannot be read or does not go with the settings, and a split without a sample.
    """
    phantoms = _phantoms(config)
    x0 = rearrange(phantoms.media, "m h w -> m 1 h w")
    return FieldDataset(
        _splits(config, phantoms, x0, num_positions=1),
        source=phantoms.source,
        made_by=phantoms.made_by,
    )


def build_eit_levels(config: DictConfig) -> EITLevels:
    """``data=eit-levels``: the same phantoms as ids of the six levels; errors likewise, and for
    a file with another conductivity."""
    phantoms = _phantoms(config)
    _check_levels(phantoms)
    x0 = rearrange(conductivity_to_levels(phantoms.media), "m h w -> m (h w)")
    return EITLevels(
        _splits(config, phantoms, x0, num_positions=x0.shape[1]),
        source=phantoms.source,
        made_by=phantoms.made_by,
    )


def _phantoms(config: DictConfig) -> _Phantoms:
    check_transform(config.dtn_transform)
    return _simulated(config) if config.path is None else _read(config)


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
    noisy = add_noise(drawn.dtn, noise, settings.phantom_seed)
    background = background_map(settings.mesh_rings, settings.num_boundary)
    return _Phantoms(
        levels_to_conductivity(torch.from_numpy(drawn.levels)),
        torch.from_numpy(transform_maps(noisy, background, transform)),
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
    noisy = add_noise(file.dtn, config.noise_level, config.phantom_seed)
    return _Phantoms(
        torch.from_numpy(file.media),
        torch.from_numpy(transform_maps(noisy, file.background, config.dtn_transform)),
        source=file.source,
        made_by=None,
    )


def _splits(
    config: DictConfig, phantoms: _Phantoms, x0: Tensor, *, num_positions: int
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
