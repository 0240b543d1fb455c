"""A model of uniform labelled trees against their exact posterior, on the same noise.

Masked, a uniform tree is a uniform spanning tree of what is left open: its pairs are edges with
probability the effective resistance, whatever the time. So the bound of the data is known, and that
of a model above it is the model's own loss.
"""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.algorithms.time_sampling import sample_masks
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.models.bd_denoiser import BDDenoiserBackbone
from discrete_diffusion.models.bd_denoiser_pair import BDDenoiserPair
from discrete_diffusion.models.graph_features import FEATURES, GraphFeatures, effective_resistance
from discrete_diffusion.noise_schedules import LogLinear

ALL = tuple(FEATURES)
EDGE, NONE, MASK = 0, 1, 2


def vocabulary(n: int) -> VocabConfig:
    return VocabConfig(n_max=n, node_types=("node",), edge_types=("edge", "none"))


def tokens(trees: list[nx.Graph], vocab: VocabConfig) -> Batch:
    x0 = torch.full((len(trees), vocab.length), vocab.edge_offset + NONE)
    x0[:, : vocab.n_max] = 0
    for row, tree in zip(x0, trees, strict=True):
        for i, j in tree.edges:
            row[vocab.edge_position(min(i, j), max(i, j))] = vocab.edge_offset + EDGE
    return Batch(x0, torch.ones_like(x0, dtype=torch.bool))


def random_trees(num: int, vocab: VocabConfig, seed: int) -> Batch:
    drawn = np.random.default_rng(seed).integers(vocab.n_max, size=(num, vocab.n_max - 2))
    return tokens([nx.from_prufer_sequence([*map(int, code)]) for code in drawn], vocab)


def edge_probability(x_t: Tensor, vocab: VocabConfig) -> Tensor:
    """Float64[B, E]: P(pair is an edge | x_t) of uniform trees; 0 at pairs that are not masked."""
    separate = vocab.separate(x_t).tokens[:, vocab.edge_positions]
    graph = GraphFeatures(("resistance",), vocab, d_node=1, d_pair=1).reveal(separate)
    first, second = zip(*vocab.endpoints, strict=True)
    return (effective_resistance(graph)[0] * graph.open)[:, first, second]


def model_of(vocab: VocabConfig, *features: str) -> MDLM:
    torch.manual_seed(0)
    denoiser = BDDenoiserPair(
        d_model=16,
        d_pair=8,
        n_layers=1,
        n_heads=2,
        dropout=0.0,
        index_embeddings=False,
        features=features,
        vocab_config=vocab,
    )
    return MDLM(BDDenoiserBackbone(denoiser), Absorbing(vocab.layout(), LogLinear()))


def train(model: MDLM, trees: Batch, *, steps: int, batch_size: int) -> None:
    generator = torch.Generator().manual_seed(0)
    optimizer = AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    schedule = OneCycleLR(optimizer, 1e-2, total_steps=steps)
    for _ in range(steps):
        rows = torch.randint(len(trees), (batch_size,), generator=generator)
        order = torch.randperm(vocabulary_of(model).n_max, generator=generator)
        loss = model.loss(relabelled(trees.x0[rows], order, vocabulary_of(model)), generator).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


def vocabulary_of(model: MDLM) -> VocabConfig:
    return model.backbone.denoiser.vocab_config


def relabelled(x0: Tensor, order: Tensor, vocab: VocabConfig) -> Batch:
    source = [*range(vocab.n_max)]
    source += [
        vocab.edge_position(*sorted((int(order[i]), int(order[j])))) for i, j in vocab.endpoints
    ]
    x0 = x0[:, source]
    return Batch(x0, torch.ones_like(x0, dtype=torch.bool))


@torch.no_grad()
def gaps(model: MDLM, trees: Batch, *, draws: int) -> tuple[Tensor, Tensor]:
    """Float64[draws B] each, nats: the bound of the exact posterior, and how far the model's lies
    above it on the same masks and times."""
    vocab, generator = vocabulary_of(model), torch.Generator().manual_seed(7)
    exact, above = [], []
    model.eval()
    for _ in range(draws):
        masked = sample_masks("uniform_count", model.process, trees, generator)
        log_d0 = model.denoise(masked.xt, masked.t, trees.real, trees.conditions)
        own = (masked.weight.double() * model.cross_entropy(log_d0, trees).double()).sum(dim=1)
        # the exact posterior, by ``test_resistance_is_the_posterior_of_uniform_trees``
        chance = edge_probability(masked.xt, vocab)
        edge = trees.x0[:, vocab.n_max :] == vocab.edge_offset + EDGE
        hidden = masked.xt[:, vocab.n_max :] == vocab.mask_id
        nats = -torch.where(edge, chance, 1 - chance).clamp(min=1e-12).log() * hidden
        best = (masked.weight[:, vocab.n_max :].double() * nats).sum(dim=1)
        exact.append(best)
        above.append(own - best)
    return torch.cat(exact), torch.cat(above)


@pytest.mark.slow
@pytest.mark.parametrize("features", [ALL, ("resistance",)], ids="+".join)
def test_a_network_with_features_reaches_the_bound_of_small_trees(features: list[str]) -> None:
    vocab = vocabulary(8)
    model = model_of(vocab, *features)
    train(model, random_trees(512, vocab, seed=0), steps=60, batch_size=32)
    exact, above = gaps(model, random_trees(128, vocab, seed=1), draws=8)
    assert float(exact.mean()) == pytest.approx(6 * math.log(8), abs=4 * error(exact))
    assert -4 * error(above) < float(above.mean()) < 0.1


@pytest.mark.slow
def test_a_network_without_features_does_not() -> None:
    vocab = vocabulary(8)
    model = model_of(vocab)
    train(model, random_trees(512, vocab, seed=0), steps=60, batch_size=32)
    _, above = gaps(model, random_trees(128, vocab, seed=1), draws=8)
    assert float(above.mean()) > 0.3


@pytest.mark.slow
def test_a_network_with_features_reaches_the_bound_of_the_tree_set(real_data: Path) -> None:
    """Trees of 64 nodes (SPECTRE), drawn uniformly: 62 ln 64 = 257.85 nats each."""
    vocab = vocabulary(64)
    with gzip.open(real_data / "graphs" / "tree.json.gz", "rt") as file:
        splits = json.load(file)
    trees = {
        name: tokens([nx.Graph([*map(tuple, each["edges"])]) for each in splits[name]], vocab)
        for name in ("train", "test")
    }
    model = model_of(vocab, *ALL)
    train(model, trees["train"], steps=600, batch_size=8)
    exact, above = gaps(model, trees["test"], draws=8)
    assert float(exact.mean()) == pytest.approx(62 * math.log(64), abs=4 * error(exact))
    assert -4 * error(above) < float(above.mean()) < 0.1


def error(values: Tensor) -> float:
    return float(values.std() / len(values) ** 0.5)
