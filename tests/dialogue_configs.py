"""The two configs of dialogues at test size."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, OmegaConf

from continuous_states.dialogue.dataset import PairDataset
from discrete_diffusion.config.files import shipped_files
from discrete_diffusion.domains import build_data, complete_data


def dialogue_config(name: str = "dialogue", **changes: Any) -> DictConfig:
    """``data=NAME`` with 40 pairs; not completed."""
    config = OmegaConf.load(shipped_files("data")[name])
    small = {"num_samples": 40, "split": [0.8, 0.1, 0.1]}
    return OmegaConf.create({"data": OmegaConf.merge(config, small, changes)})


def dialogue_data(name: str = "dialogue", **changes: Any) -> PairDataset:
    data = build_data(complete_data(dialogue_config(name, **changes)))
    assert isinstance(data, PairDataset)
    return data
