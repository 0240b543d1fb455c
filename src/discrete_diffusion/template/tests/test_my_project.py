"""The backbone fits every algorithm, does not see PAD, and learns."""

from __future__ import annotations

from pathlib import Path

import my_project  # noqa: F401
import pytest
import torch

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.contracts import Batch

CONFIGS = str(Path(__file__).parents[1] / "configs")


def algorithm(*words):
    torch.manual_seed(0)
    words = [*words, "algo.backbone=my_project", "model=my_project"]
    return build_algorithm(compose("train", words, user_config_dir=CONFIGS))


@pytest.mark.parametrize("algo", ["mdlm", "udlm", "sedd", "gidd"])
def test_it_fits(algo):
    model = algorithm(f"algo={algo}")
    assert any(value.requires_grad for value in model.parameters())


def test_real_positions_do_not_see_padding():
    """Their logits do not depend on the embedding of PAD: it gets no gradient from them."""
    model = algorithm().eval()
    x = model.layout.support.int().argmax(dim=-1).expand(2, -1).clone()
    x[:, 4:8] = pad = model.layout.pad_id
    logits = model.apply_backbone(x, torch.ones(2))
    logits[x != pad].logsumexp(dim=-1).sum().backward()
    tables = [m.weight.grad for m in model.modules() if isinstance(m, torch.nn.Embedding)]
    assert any(bool((table[x[0, 0]] != 0).any()) for table in tables)  # they depend on others
    assert all(bool((table[pad] == 0).all()) for table in tables)


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
