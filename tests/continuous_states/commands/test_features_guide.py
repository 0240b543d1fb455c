"""``docs/features.md`` does what it says."""

from __future__ import annotations

import pytest
import torch
from omegaconf import OmegaConf

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.contracts import Batch
from discrete_diffusion.domains import complete_data
from guide_code import blocks


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.parametrize("objective", ["mask", "ddpm"])
def test_a_backbone_of_ones_own_trains_and_predicts(objective):
    [code] = [block for block in blocks("features.md", "python") if "register_backbone" in block]
    exec(compile(code, "features.md", "exec"), {})
    config = complete_data(
        compose("train", ["algo=masked-features", f"algo.objective={objective}"])
    )
    config.algo.backbone, config.model = "neighbour-net", OmegaConf.create({"width": 8})
    algorithm = build_algorithm(config)
    real = torch.ones(4, 64, dtype=torch.bool)
    batch = Batch(torch.rand(4, 64, 33, generator=make_generator(0)), real)
    algorithm.loss(batch, make_generator(1)).loss.backward()
    assert all(p.grad.isfinite().all() for p in algorithm.parameters())
    hidden = torch.arange(64).expand(4, -1) % 3 == 0
    with torch.no_grad():
        found = algorithm.predict(batch.x0, hidden, real)
        blank = batch.x0.masked_fill(hidden.unsqueeze(-1), torch.nan)
        assert torch.equal(found, algorithm.predict(blank, hidden, real))
