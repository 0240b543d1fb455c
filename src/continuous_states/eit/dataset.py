"""Phantoms with their Dirichlet-to-Neumann maps as a data set of fields or of token ids, simulated
or read from an ``.npz`` file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from einops import rearrange
from numpy.typing import NDArray
from omegaconf import DictConfig
from torch import Tensor

from continuous_states.arrays import StoredArrays, array_as_float32, open_npz, require_array
from continuous_states.eit.simulator import (
    LEVELS,
    MASK_ID,
    SIMULATOR_VERSION,
    VOCAB_SIZE,
    SimulationSettings,
    are_levels,
    background_map,
    cached_phantoms,
    conductivity_to_levels,
)
from discrete_diffusion.config import is_number, set_derived, unknown_name
from discrete_diffusion.data import SPLITS, Dataset, Examples, TokenDataset, shares_of
from discrete_diffusion.domains import data_state
from discrete_diffusion.layout import Numbers, Sequences, TokenLayout, Vocabulary

Floats = NDArray[np.float32]

DTN_TRANSFORMS = ("ratio", "difference", "none")

_EXPECTED = (
    "media (M, H, H), dtn (M, n, n) and, for data.dtn_transform=ratio or difference, background "
    "(n, n)"
)
_NOISE_STREAM = 1


class _MappedDataset(Dataset):
    """Samples with ``conditions["dtn"]`` Float32[M, n, n].

    ``made_by``: settings of the simulation of the maps, as text; None if the maps were read. The
    fingerprint uses these settings instead of the maps, whose last bits differ between machines.
    ``source``: name of the data in the log.
    """

    def __init__(
        self, splits: dict[str, Examples], *, source: str, made_by: str | None = None
    ) -> None:
        self.splits, self.source, self.made_by = splits, source, made_by

    def _meaning(self) -> str:
        return f"{super()._meaning()}{self.made_by or ''}"

    def _condition_tensors(self, examples: Examples) -> list[Tensor]:
        return super()._condition_tensors(examples) if self.made_by is None else []

    def _describe(self, what: str) -> str:
        parts = ", ".join(f"{len(self.splits[name]):,} {name}" for name in SPLITS)
        nodes = self.splits["train"].conditions["dtn"].shape[1]
        return f"{self.source}: {parts} {what}, with maps of {nodes} boundary nodes"


class FieldDataset(_MappedDataset):
    """Images of numbers. ``splits[...].x0``: Float32[M, 1, H, W] conductivity, background 1, raw.
    ``real``: Bool[M, 1], all True: a field is one position. ``levels``: the six levels of phantoms
    if all pixels of all splits have one of them, else None."""

    state = "field"
    bound = "gaussian"

    def __init__(
        self, splits: dict[str, Examples], *, source: str, made_by: str | None = None
    ) -> None:
        super().__init__(splits, source=source, made_by=made_by)
        if all(are_levels(examples.x0).all() for examples in splits.values()):
            self.levels = LEVELS

    def summary(self) -> str:
        height, width = self.splits["train"].x0.shape[2:]
        return self._describe(f"fields of {height} x {width}")


class EITLevels(_MappedDataset, TokenDataset):
    """Images of phantoms as ids of their six levels. ``splits[...].x0``: Int64[M, H W] ids 0..5,
    row by row from the top; 6 is MASK, and PAD does not occur. ``real``: Bool[M, H W], all True."""

    levels = LEVELS

    def __init__(
        self, splits: dict[str, Examples], *, source: str, made_by: str | None = None
    ) -> None:
        super().__init__(splits, source=source, made_by=made_by)
        length = splits["train"].x0.shape[1]
        self.layout = TokenLayout.flat(length, VOCAB_SIZE, mask_id=MASK_ID)

    def unit_of_bound(self, split: str, num_tokens: float) -> tuple[str, float]:
        return "nats per image", 1.0

    def summary(self) -> str:
        return self._describe(f"images of {self.layout.length:,} ids")


@dataclass(frozen=True)
class Phantoms:
    """``media``: Float32[M, H, H] conductivity, positive. ``dtn``: Float32[M, n, n].
    ``background``: Float32[n, n], the map of conductivity 1, or None. ``source``: path or name of
    the data. ``settings``: settings of the simulation, if simulated."""

    media: Floats
    dtn: Floats
    background: Floats | None
    source: str
    settings: SimulationSettings | None = None


def read_phantoms(path: str | Path) -> Phantoms:
    """Read the arrays ``media``, ``dtn`` and, if present, ``background`` of an ``.npz`` file.
    Raises ``FileNotFoundError`` or ``ValueError`` with file, array and fix for an array that is
    missing, damaged, of the wrong shape or type, or has an impossible value."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no phantoms at {path.absolute()}; data.path=null simulates them")
    if path.suffix != ".npz" or path.is_dir():
        raise ValueError(f"{path}: expected FILE.npz")
    with open_npz(path) as store:
        media, dtn = _read_phantom_numbers(store, "media"), _read_phantom_numbers(store, "dtn")
        background = (
            _read_phantom_numbers(store, "background") if "background" in store.keys else None
        )
        source = store.source
    # shapes that belong together
    if media.ndim != 3 or media.shape[1] != media.shape[2]:
        raise ValueError(
            f"{source}: media has shape {media.shape}; expected (M, H, H), M square images"
        )
    if dtn.ndim != 3 or dtn.shape[1] != dtn.shape[2] or len(dtn) != len(media):
        raise ValueError(
            f"{source}: dtn has shape {dtn.shape}; expected ({len(media)}, n, n), a map for each "
            "image of media"
        )
    if background is not None and background.shape != dtn.shape[1:]:
        raise ValueError(
            f"{source}: background has shape {background.shape}; expected {dtn.shape[1:]}, the map "
            "of conductivity 1 on the mesh of dtn"
        )
    # values that are possible
    _check_phantom_values(source, "media", media, media > 0, "a positive number")
    _check_phantom_values(source, "dtn", dtn, np.isfinite(dtn), "a finite number")
    if background is not None:
        _check_phantom_values(
            source, "background", background, background != 0, "a number other than 0"
        )
    return Phantoms(media, dtn, background, source)


def _read_phantom_numbers(store: StoredArrays, key: str) -> Floats:
    return array_as_float32(require_array(store, key, _EXPECTED), key, store.source)


def _check_phantom_values(
    source: str, key: str, values: Floats, right: NDArray[np.bool_], what: str
) -> None:
    wrong = np.argwhere(~(right & np.isfinite(values)))
    if len(wrong):
        place = tuple(wrong[0].tolist())
        raise ValueError(
            f"{source}: {key}{list(place)} is {values[place]}; expected {what} everywhere"
        )


def complete_eit(config: DictConfig) -> None:
    """Write the settings that follow from ``size`` into ``config``: ``channels`` and ``field_size``
    for fields, the layout for ids. Raises ``ValueError`` for a number that contradicts them."""
    # fields have channels, ids a vocabulary
    if data_state(config) == "field":
        sizes = {"channels": 1, "field_size": config.size}
    else:
        sizes = {"length": config.size**2, "vocab_size": VOCAB_SIZE, "mask_id": MASK_ID}
    set_derived(config, "data", sizes)


def eit_vocabulary(config: Mapping[str, Any]) -> Vocabulary:
    """Vocabulary of a completed config: fields, or ids of levels."""
    if data_state(config) == "tokens":
        return Sequences.of(config)
    return Numbers({key: config[key] for key in ("field_size", "channels")})


def build_eit(config: DictConfig) -> FieldDataset | EITLevels:
    """Build a data set of phantoms, simulated if ``path`` is null, else read from it: as fields, or
    in the state ``tokens`` as ids of the six levels. Raises ``ValueError`` or ``FileNotFoundError``
    with one sentence for settings out of range, a file that cannot be read or contradicts the
    settings, a split without a sample or, for ids, a conductivity that is not one of the levels."""
    if config.dtn_transform not in DTN_TRANSFORMS:
        raise ValueError(unknown_name("data.dtn_transform", config.dtn_transform, DTN_TRANSFORMS))
    phantoms = (
        _simulated_media(config)
        if config.path is None
        else _read_phantom_file(config, "set data.{}={}")
    )
    return _phantom_dataset(phantoms, config)


def build_test_images(config: DictConfig) -> FieldDataset | EITLevels:
    """Data set of a model with this config, with the images of the file ``path`` as its test split.
    Errors are those of ``build_eit``."""
    remedy = "the model takes no other; give such images, or train a model with data.{}={}"
    # all samples of the file are the test split
    config = config.copy()
    config.split = [0.0, 0.0, 1.0]
    return _phantom_dataset(_read_phantom_file(config, remedy), config)


def _simulated_media(config: DictConfig) -> Phantoms:
    keys = ("num_samples", "size", "phantoms", "mesh_rings", "num_boundary", "generator_seed")
    settings = SimulationSettings(**{key: config[key] for key in keys})
    simulated = cached_phantoms(settings)
    # conductivities of the levels
    media = np.asarray(LEVELS, np.float32)[simulated.levels]
    background = background_map(settings.mesh_rings, settings.num_boundary).astype(np.float32)
    source = f"simulated {settings.phantoms} of seed {settings.generator_seed}"
    return Phantoms(media, simulated.dtn, background, source, settings)


def _read_phantom_file(config: DictConfig, remedy: str) -> Phantoms:
    """Read the file ``path``; raise ``ValueError`` if it contradicts the settings. ``remedy``:
    format string for the error, with the key and the number in the file."""
    phantoms = read_phantoms(config.path)
    source = phantoms.source
    # sizes that contradict the config
    sizes = {"size": ("media", phantoms.media), "num_boundary": ("dtn", phantoms.dtn)}
    for key, (name, array) in sizes.items():
        found = array.shape[1]
        if config[key] != found:
            raise ValueError(
                f"{source}: {name} holds {found} x {found} numbers a sample, but "
                f"data.{key}={config[key]}; {remedy.format(key, found)}"
            )
    # maps cannot be transformed without a background
    if phantoms.background is None and config.dtn_transform != "none":
        raise ValueError(
            f"{source} has no array 'background', the map of conductivity 1, which "
            f"data.dtn_transform={config.dtn_transform} needs; add it, or set "
            "data.dtn_transform=none"
        )
    return phantoms


def _phantom_dataset(phantoms: Phantoms, config: DictConfig) -> FieldDataset | EITLevels:
    source, noise, transform = phantoms.source, config.noise_level, config.dtn_transform
    if not is_number(noise) or not 0 <= noise < np.inf:
        raise ValueError(f"data.noise_level={noise}: expected a number, at least 0")
    # every entry times 1 + noise_level e with its own e ~ N(0, 1), from a stream per map
    dtn = phantoms.dtn
    if noise > 0:
        dtn = np.empty_like(phantoms.dtn)
        for k, matrix in enumerate(phantoms.dtn):
            rng = np.random.default_rng([config.generator_seed, _NOISE_STREAM, k])
            dtn[k] = matrix * (1 + noise * rng.standard_normal(matrix.shape))
    # relative to the map of conductivity 1, entry by entry; symmetric maps stay symmetric
    if transform != "none" and phantoms.background is not None:
        ratio = transform == "ratio"
        dtn = dtn / phantoms.background if ratio else dtn - phantoms.background
    # simulated maps are identified by their settings
    made_by = None
    if phantoms.settings is not None:
        made_by = repr((SIMULATOR_VERSION, phantoms.settings, float(noise), transform))
    media, maps = torch.from_numpy(phantoms.media), torch.from_numpy(dtn)
    # images of numbers
    if data_state(config) == "field":
        x0 = rearrange(media, "m h w -> m 1 h w")
        splits = _phantom_splits(config, source, x0, maps, num_positions=1)
        return FieldDataset(splits, source=source, made_by=made_by)
    # images of ids have nothing but levels
    wrong = (~are_levels(media)).nonzero()
    if len(wrong):
        place = wrong[0].tolist()
        raise ValueError(
            f"{source}: media{place} is {media[tuple(place)].item():.6g}; data=eit_quantised takes "
            f"{LEVELS} only: use data=eit"
        )
    x0 = rearrange(conductivity_to_levels(media), "m h w -> m (h w)")
    splits = _phantom_splits(config, source, x0, maps, num_positions=x0.shape[1])
    return EITLevels(splits, source=source, made_by=made_by)


def _phantom_splits(
    config: DictConfig, source: str, x0: Tensor, maps: Tensor, *, num_positions: int
) -> dict[str, Examples]:
    """Split independent samples in their order: train, val, test."""
    real = torch.ones(len(x0), num_positions, dtype=torch.bool)
    splits = {
        name: Examples(x0[share], real[share], conditions={"dtn": maps[share]})
        for name, share in shares_of(len(x0), config.split).items()
    }
    # every split with a share has a sample
    for (name, examples), share in zip(splits.items(), config.split, strict=True):
        if share > 0 and len(examples) == 0:
            more = "data.num_samples" if config.path is None else "samples"
            raise ValueError(
                f"{source}: the {name} share of data.split={list(config.split)} has no sample; "
                f"give more {more} or another data.split"
            )
    return splits
