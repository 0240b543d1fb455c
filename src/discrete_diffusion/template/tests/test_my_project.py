"""The backbone fits every algorithm, does not see PAD, and learns."""

from __future__ import annotations

from pathlib import Path

import my_project  # noqa: F401
import pytest
import torch

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.types import Batch

CONFIGS = str(Path(__file__).parents[1] / "configs")


def algorithm(*words):
    torch.manual_seed(0)
    words = [*words, "algo.backbone=my_project", "model=my_project"]
    return build_algorithm(compose("train", words, user_config_dir=CONFIGS))


@pytest.mark.parametrize("algo", ["mdlm", "udlm", "sedd", "gidd"])
def test_it_fits(algo):
    model = algorithm(f"algo={algo}")
    assert any(value.requires_grad for value in model.parameters())


def test_padding_changes_nothing():
    model = algorithm().eval()
    x = model.layout.support.int().argmax(dim=-1).expand(2, -1).clone()
    x[:, 4:8] = model.layout.pad_id
    alone, together = (
        model.apply_backbone(x[:1], torch.ones(1)),
        model.apply_backbone(x, torch.ones(2)),
    )
    assert torch.allclose(alone[0], together[0], atol=1e-5)


def test_it_learns():
    model, generator = algorithm(), make_generator(0)
    x0 = model.layout.support.int().argmax(dim=-1).expand(16, -1)
    batch = Batch(x0, torch.ones_like(x0, dtype=torch.bool))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(30):
        loss = model.loss(batch, generator).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
