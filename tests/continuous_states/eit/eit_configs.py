"""The two configs of phantoms at test size."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, OmegaConf

from continuous_states.eit.domain import EIT
from discrete_diffusion.config.files import shipped_files

build = EIT().build
"""A data set of a config."""


def eit_config(name: str = "eit", **changes: Any) -> DictConfig:
    """``configs/data/NAME.yaml`` with few samples on a coarse mesh; not completed."""
    config = OmegaConf.load(shipped_files("data")[name])
    small = {"num_samples": 20, "size": 16, "mesh_rings": 4, "num_boundary": 12}
    return OmegaConf.merge(config, small, {"split": [0.8, 0.1, 0.1]}, changes)
