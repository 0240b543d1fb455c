"""A guide's network, its entry in the table of builders and its YAMLs, typed into a checkout."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from discrete_diffusion.config.files import config_dir

pytestmark = pytest.mark.slow

MODEL = """
import torch
import torch.nn as nn


class MyTransformer(nn.Module):
    def __init__(self, config, vocab_size: int):
        super().__init__()
        self.config = config
        dim = config.model.hidden_size
        self.token_emb = nn.Embedding(vocab_size, dim)
        self.pos_emb = nn.Parameter(torch.randn(1, config.model.length, dim))
        self.time_conditioning = config.algo.time_conditioning
        if self.time_conditioning:
            self.time_mlp = nn.Sequential(nn.Linear(1, dim), nn.SiLU(), nn.Linear(dim, dim))
        layer = nn.TransformerEncoderLayer(
            d_model=dim,
            nhead=config.model.n_heads,
            dim_feedforward=dim * 4,
            dropout=config.model.dropout,
            batch_first=True,
        )
        self.encoder = nn.TransformerEncoder(layer, num_layers=config.model.n_blocks)
        self.head = nn.Linear(dim, vocab_size)
        if config.model.get('tie_word_embeddings', False):
            self.head.weight = self.token_emb.weight

    def forward(self, x_t, sigma):
        x = self.token_emb(x_t) + self.pos_emb[:, :x_t.size(1), :]
        if self.time_conditioning and sigma is not None:
            x = x + self.time_mlp(sigma.view(-1, 1)).unsqueeze(1)
        return self.head(self.encoder(x))


class MyBlockTransformer(MyTransformer):
    def forward(self, x_t, group_idxs, sigma):
        later = group_idxs[0][None, :] > group_idxs[0][:, None]
        x = self.token_emb(x_t) + self.pos_emb[:, :x_t.size(1), :]
        return self.head(self.encoder(x, mask=later))
"""
BUILDERS = """
from .my_transformer import MyBlockTransformer, MyTransformer

def _build_my_transformer(config, vocab_size):
    return MyTransformer(config, vocab_size)

def _build_my_blocks(config, vocab_size):
    return MyBlockTransformer(config, vocab_size)

"""
ENTRIES = """
    'my-transformer': _build_my_transformer,
    'my-blocks': _build_my_blocks,
"""
YAMLS = {
    "algo/my_algo.yaml": "backbone: my-transformer\n",
    "algo/my_mdlm.yaml": "backbone: bd-denoiser\n",
    "experiment/mine.yaml": "# @package _global_\ndefaults:\n  - override /algo: my_algo\n",
    "model/small.yaml": """hidden_size: 512
n_heads: 8
n_blocks: 6
dropout: 0.1
length: 1024
tie_word_embeddings: true
""",
}
QUICK = [
    *("threads=1", "logger=none", "trainer.max_steps=1", "trainer.val_check_interval=1"),
    *("data.num_plans=100", "data.batch_size=4", "eval.num_samples=0"),
]
FEW = ["callbacks.num_samples=0", "eval.noise_samples=1", "eval.num_held_out=4"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A copy of this checkout into which the blocks of the guide are typed."""
    copy = tmp_path_factory.mktemp("checkout")
    source = config_dir().parent
    for folder in ("src", "configs"):
        shutil.copytree(source / folder, copy / folder)
    shutil.copy(source / "pyproject.toml", copy)
    models = copy / "src" / "discrete_diffusion" / "models"
    (models / "my_transformer.py").write_text(MODEL)
    before, table, after = (models / "registry.py").read_text().partition("_BACKBONE_BUILDERS: ")
    line, brace, rest = after.partition("= {\n")
    assert brace
    (models / "registry.py").write_text(before + BUILDERS + table + line + brace + ENTRIES + rest)
    for name, text in YAMLS.items():
        (copy / "configs" / name).write_text(text)
    return copy


def run(checkout: Path, *words: str) -> str:
    """What a command of the copy prints."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, "-m", "discrete_diffusion", *words]
    ended = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize(
    ("words", "algorithm", "backbone", "parameters"),
    [
        ("algo=my_algo model=small", "mdlm", "my-transformer", 19_716_636),
        ("algo=bd3lm algo.backbone=my-blocks model=small", "bd3lm", "my-blocks", 19_452_956),
        ("experiment=mine model=small model.n_blocks=1", "mdlm", "my-transformer", 3_954_716),
        ("algo=my_mdlm", "mdlm", "bd-denoiser", 1_281_564),
    ],
)
def test_train(checkout, tmp_path, words, algorithm, backbone, parameters):
    run(checkout, "train", *words.split(), *QUICK, *FEW, f"hydra.run.dir={tmp_path}/run")
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (found["algorithm"], found["backbone"]) == (algorithm, backbone)
    assert found["parameters"] == parameters


def test_compare_and_list(checkout, tmp_path):
    words = ["algos=[mdlm,my_mdlm]", "model=bd_tiny", "num_held_out=4", "noise_samples=1"]
    run(checkout, "compare", *words, *QUICK, f"out={tmp_path}/compared")
    with (tmp_path / "compared" / "table.csv").open() as file:
        ours, own = csv.DictReader(file)
    assert (ours["algorithm"], own["algorithm"]) == ("mdlm", "my_mdlm")
    assert float(own["difference"]) == 0
    assert "my_mdlm" in run(checkout, "list")
    assert "my_mdlm" in run(checkout, "train", "--help")
