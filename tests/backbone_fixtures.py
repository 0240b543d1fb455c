"""What the tests of backbones share: presets as users get them, and weights that are not zero."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn

from discrete_diffusion.config.files import shipped_files


@pytest.fixture
def randomise() -> Callable[..., nn.Module]:
    """Give every parameter a random non-zero value, large enough that neighbours matter: fresh
    networks start at 0, which any check of invariance passes."""

    def apply(model: nn.Module, seed: int = 0) -> nn.Module:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                noise = torch.empty_like(parameter).normal_(generator=generator)
                if parameter.ndim > 1:
                    parameter.copy_(noise / parameter.shape[-1] ** 0.5)
                else:
                    is_norm = name.endswith("weight")
                    parameter.copy_(is_norm + 0.2 * noise)
        return model.eval()

    return apply


@pytest.fixture
def make_config() -> Callable[..., DictConfig]:
    """A config as the command line composes it, with a preset of ``configs/model``; its data are
    those the preset is counted with, else graphs of 8 nodes."""

    def make(backbone: str, preset: str | None, data: dict | None = None, **algo) -> DictConfig:
        model = OmegaConf.load(shipped_files("model")[preset]) if preset else OmegaConf.create()
        if data is None:
            data = model.get("counted_with", {"n_max": 8})
        known = {"n_max": "bubble_diagrams", "num_boundary": "eit"}
        domain = next((name for key, name in known.items() if key in data), "text")
        states = {"eit": "eit-levels" if "length" in data else "eit"}
        data = {"domain": domain, "name": states.get(domain), **data}
        config = {"algo": {"backbone": backbone, **algo}, "model": model}
        return OmegaConf.create({**config, "data": data})

    return make
