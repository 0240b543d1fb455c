"""A network written for another framework, registered in a few lines, in the commands."""

from __future__ import annotations

import inspect
import json

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from discrete_diffusion import load
from discrete_diffusion.cli import main
from discrete_diffusion.domains import build_layout
from discrete_diffusion.models.registry import register_backbone
from floor_plans import read_diagrams


class SigmaMap(nn.Module):
    def __init__(self, size, width):
        super().__init__()
        self.register_buffer("freqs", torch.exp(-torch.linspace(0, 9, width // 2)))
        self.mlp = nn.Sequential(nn.Linear(width, size), nn.SiLU(), nn.Linear(size, size))

    def forward(self, sigma):
        angles = sigma[:, None] * self.freqs
        return self.mlp(torch.cat([angles.cos(), angles.sin()], dim=-1))


class TheirBlock(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(size, elementwise_affine=False) for _ in range(2))
        self.attention = nn.MultiheadAttention(size, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))
        self.adaLN_modulation = nn.Linear(size, 6 * size)

    def forward(self, x, c):
        chunks = self.adaLN_modulation(c)[:, None].chunk(6, dim=-1)
        shift, scale, gate, mlp_shift, mlp_scale, mlp_gate = chunks
        y = self.norm1(x) * (1 + scale) + shift
        x = x + gate * self.attention(y, y, y, need_weights=False)[0]
        return x + mlp_gate * self.mlp(self.norm2(x) * (1 + mlp_scale) + mlp_shift)


class TheirDiT(nn.Module):
    """Knows nothing of this package: its arguments are called as its own trainer calls them, and
    sigma is always there."""

    def __init__(self, vocab_size, length, size, heads, blocks):
        super().__init__()
        self.vocab_embed = nn.Embedding(vocab_size, size)
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, length, size))
        self.sigma_map = SigmaMap(size, 32)
        self.blocks = nn.ModuleList(TheirBlock(size, heads) for _ in range(blocks))
        self.output_layer = nn.Linear(size, vocab_size)

    def forward(self, x, sigma):
        hidden = self.vocab_embed(x) + self.pos_embed
        c = F.silu(self.sigma_map(sigma))
        for block in self.blocks:
            hidden = block(hidden, c)
        return self.output_layer(hidden)


def register() -> None:
    @register_backbone("their-dit")
    def build_their_dit(config, vocab_size):
        return TheirDiT(
            vocab_size,
            length=build_layout(config.data).length,
            size=config.model.d_model,
            heads=config.model.n_heads,
            blocks=config.model.n_layers,
        )


WORDS = ["algo.backbone=their-dit", "model=bd_tiny", "model.d_model=16", "data.num_plans=80"]
QUICK = ["trainer.max_steps=2", "logger=none", "callbacks.num_samples=0", "eval.num_samples=2"]


@pytest.mark.slow
@pytest.mark.usefixtures("clean_registry")
def test_it_trains_and_samples(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path / "cache"))
    assert len(inspect.getsource(register).splitlines()) < 20
    register()
    main(["train", "debug=smoke", *WORDS, *QUICK, "hydra.run.dir=run"])
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (metrics["steps"], metrics["backbone"]) == (2, "their-dit")
    checkpoint = "run/checkpoints/last.ckpt"
    assert isinstance(load(checkpoint).backbone, TheirDiT)
    main(["sample", f"checkpoint={checkpoint}", "num_samples=3", "num_rooms=4", "out=drawn"])
    drawn = read_diagrams(tmp_path / "drawn" / "samples.jsonl")
    assert [d.num_rooms for d in drawn] == [4] * 3


@pytest.mark.usefixtures("clean_registry")
def test_one_that_cannot_be_called_is_refused_before_data_are_made(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path / "cache"))

    class Reversed(TheirDiT):
        def forward(self, sigma, x):
            return super().forward(x, sigma)

    register_backbone("their-dit")(lambda config, vocab_size: Reversed(vocab_size, 36, 16, 2, 1))
    with pytest.raises(SystemExit):
        main(["train", *WORDS, *QUICK, "hydra.run.dir=run"])
    error = capsys.readouterr().err
    assert "Reversed.forward(sigma, x) does not take x_t first" in error
    assert not (tmp_path / "cache").exists()
