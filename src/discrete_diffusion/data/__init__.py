"""Data sets by name. Each has a builder, a YAML in ``configs/data``, a line below."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from discrete_diffusion.data.base import (
    BatchStream,
    Examples,
    TokenDataset,
    bucket_batches,
    draw_sizes,
)
from discrete_diffusion.data.bubble_diagrams.build import build_from_files, build_generated
from discrete_diffusion.naming import unknown_name

if TYPE_CHECKING:
    from omegaconf import DictConfig

_DATA_BUILDERS: dict[str, Callable[[DictConfig], TokenDataset]] = {
    "bubble_diagrams": build_generated,
    "plans": build_from_files,
}


def build_data(config: DictConfig) -> TokenDataset:
    """The data set of a composed config, read from ``config.data``."""
    name = config.data.name
    if name not in _DATA_BUILDERS:
        raise ValueError(unknown_name("data set", name, _DATA_BUILDERS))
    return _DATA_BUILDERS[name](config.data)


__all__ = [
    "BatchStream",
    "Examples",
    "TokenDataset",
    "bucket_batches",
    "build_data",
    "draw_sizes",
]
