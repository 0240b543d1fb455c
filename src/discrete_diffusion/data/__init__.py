"""Data sets by name. Each has a builder, a YAML in ``configs/data``, a line below."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING

from discrete_diffusion.data.base import Dataset, Examples, TokenDataset, draw_sizes
from discrete_diffusion.data.batches import BatchStream, SplitBatches, bucket_batches
from discrete_diffusion.data.bubble_diagrams.build import build_from_files, build_generated
from discrete_diffusion.data.dialogue.build import (
    build_dialogue,
    build_dialogue_tokens,
    complete_dialogue,
    complete_dialogue_tokens,
)
from discrete_diffusion.data.eit.build import (
    build_eit,
    build_eit_levels,
    complete_eit,
    complete_eit_levels,
)
from discrete_diffusion.data.regions.build import build_regions, complete_regions
from discrete_diffusion.data.text.build import build_text, complete_text
from discrete_diffusion.naming import unknown_name

if TYPE_CHECKING:
    from omegaconf import DictConfig

_DATA_BUILDERS: dict[str, Callable[[DictConfig], Dataset]] = {
    "bubble_diagrams": build_generated,
    "plans": build_from_files,
    "text": build_text,
    "regions": build_regions,
    "eit": build_eit,
    "eit-levels": build_eit_levels,
    "dialogue": build_dialogue,
    "dialogue-tokens": build_dialogue_tokens,
}

SAME_SAMPLES = {
    "eit": "eit-levels",
    "eit-levels": "eit",
    "dialogue": "dialogue-tokens",
    "dialogue-tokens": "dialogue",
}
"""Data sets that hold the samples of another one, with the same config, in another state."""

_CONFIG_COMPLETERS: dict[str, Callable[[DictConfig], None]] = {
    "text": complete_text,
    "regions": complete_regions,
    "eit": complete_eit,
    "eit-levels": complete_eit_levels,
    "dialogue": complete_dialogue,
    "dialogue-tokens": complete_dialogue_tokens,
}
"""Data sets that decide what a backbone must know: how it gets into the config."""


def complete_data(config: DictConfig) -> DictConfig:
    """A composed config whose ``data`` states the layout, or the number of features, read off the
    data where that decides it.

    Call it before anything is built from the config; a checkpoint holds the completed one. Returns
    ``config`` itself if there is nothing to read, else a copy.
    """
    complete = _CONFIG_COMPLETERS.get(config.data.name)
    if complete is None:
        return config
    completed = deepcopy(config)
    complete(completed.data)
    return completed


def build_data(config: DictConfig) -> Dataset:
    """The data set of a completed config, read from ``config.data``."""
    name = config.data.name
    if name not in _DATA_BUILDERS:
        raise ValueError(unknown_name("data set", name, _DATA_BUILDERS))
    return _DATA_BUILDERS[name](config.data)


def build_tokens(config: DictConfig) -> TokenDataset:
    """The same, for what works on tokens alone; ``ValueError`` for other data."""
    data = build_data(config)
    if not isinstance(data, TokenDataset):
        raise ValueError(
            f"data={config.data.name} holds {data.state}; this works on tokens only: choose "
            "data=bubble_diagrams, data=plans or data=text"
        )
    return data


__all__ = [
    "SAME_SAMPLES",
    "BatchStream",
    "Dataset",
    "Examples",
    "SplitBatches",
    "TokenDataset",
    "bucket_batches",
    "build_data",
    "build_tokens",
    "complete_data",
    "draw_sizes",
]
