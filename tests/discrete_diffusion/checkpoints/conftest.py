"""Two checkpoint files of one small model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from discrete_diffusion.checkpoints.files import write_weights_file
from discrete_diffusion.cli import compose
from fake_hub import hub
from made_checkpoints import training_state

__all__ = ["hub"]


@pytest.fixture(scope="session")
def config() -> Any:
    return compose("train", ["model=bd_tiny", "model.d_model=16", "model.cond_dim=16", "seed=3"])


@pytest.fixture(scope="session")
def files(config, tmp_path_factory) -> dict[str, Path]:
    """Kind -> path: ``ckpt`` and ``safetensors``."""
    folder, state = tmp_path_factory.mktemp("checkpoints"), training_state(config)
    paths = {kind: folder / f"last.{kind}" for kind in ("ckpt", "safetensors")}
    torch.save(state, paths["ckpt"])
    write_weights_file(paths["safetensors"], state)
    return paths
