"""Denoisers that read features of the revealed graph."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from discrete_diffusion.cli import compose
from discrete_diffusion.domains import complete_data
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.models.bd_denoiser import BDDenoiser, BDDenoiserBackbone
from discrete_diffusion.models.bd_denoiser_pair import BDDenoiserPair
from discrete_diffusion.models.graph_features import FEATURES
from discrete_diffusion.models.mixtures import GraphMixture

ALL = tuple(FEATURES)
VOCAB = VocabConfig(n_max=6, node_types=("C", "N"), edge_types=("single", "double", "none"))
NETWORKS = {
    "bd-denoiser": (BDDenoiser, {}),
    "bd-denoiser-pair": (BDDenoiserPair, {"d_pair": 8}),
}


def build(
    name: str, *features: str, seed: int = 0, perturbed: bool = True, **options: object
) -> nn.Module:
    """A network with random weights, also where they start as 0 unless ``perturbed=False``."""
    torch.manual_seed(seed)
    kind, widths = NETWORKS[name]
    sizes = {"d_model": 16, "n_layers": 2, "n_heads": 2, "dropout": 0.0, "vocab_config": VOCAB}
    network = kind(**{**sizes, **widths, **options}, features=features)
    if perturbed:
        for parameter in network.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
    return network.eval()


def batch(*sizes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Noisy tokens Int[B, L] of graphs of these sizes, and where they are real."""
    generator = torch.Generator().manual_seed(seed)
    real = VOCAB.real_positions(torch.tensor(sizes))
    nodes = torch.randint(0, 3, (len(sizes), VOCAB.n_max), generator=generator)  # 2: MASK
    edges = torch.randint(0, 4, (len(sizes), VOCAB.num_edges), generator=generator)  # 3: MASK
    pads = torch.tensor([VOCAB.node_pad_id] * 6 + [VOCAB.edge_pad_id] * 15)
    return torch.where(real, torch.cat([nodes, edges], dim=1), pads), real


@pytest.mark.parametrize("name", NETWORKS)
def test_features_change_nothing_at_the_start_and_something_later(name: str) -> None:
    tokens, real = batch(6, 4, 1, 5)
    plain = build(name)
    featured = build(name, *ALL, perturbed=False)
    missing = featured.load_state_dict(plain.state_dict(), strict=False)
    assert missing.unexpected_keys == []
    assert all("graph_features" in key or ".skip." in key for key in missing.missing_keys)
    for one, other in zip(plain(tokens, real, 0.4), featured(tokens, real, 0.4), strict=True):
        assert torch.equal(one, other)
    for key in missing.missing_keys:
        featured.get_parameter(key).data.fill_(0.1)
    assert not torch.equal(plain(tokens, real, 0.4)[1], featured(tokens, real, 0.4)[1])


@pytest.mark.parametrize("name", NETWORKS)
def test_padding_and_the_size_of_the_batch_do_not_matter(name: str) -> None:
    network = build(name, *ALL)
    tokens, real = batch(6, 4, 2)
    nodes, edges = network(tokens, real, 0.4)
    for b, n in enumerate((6, 4, 2)):
        alone_nodes, alone_edges = network(tokens[b : b + 1], real[b : b + 1], 0.4)
        torch.testing.assert_close(alone_nodes[0, :n], nodes[b, :n], atol=1e-5, rtol=0)
        kept = real[b, VOCAB.n_max :]
        torch.testing.assert_close(alone_edges[0, kept], edges[b, kept], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", NETWORKS)
def test_half_precision_is_near_and_gradients_reach_every_new_weight(name: str) -> None:
    network = build(name, *ALL)
    tokens, real = batch(6, 5, 3)
    expected = network(tokens, real, 0.4)
    with torch.autocast("cpu", torch.bfloat16):
        found = network(tokens, real, 0.4)
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(other.float(), one, atol=0.1, rtol=0.1)
    sum(logits.square().sum() for logits in found).backward()
    for key, parameter in network.named_parameters():
        if "graph_features" in key or ".skip." in key:
            assert parameter.grad is not None, key
            assert parameter.grad.isfinite().all(), key
            assert parameter.grad.abs().sum() > 0, key


@pytest.mark.parametrize("name", NETWORKS)
def test_students_read_the_features_of_the_network_alone(name: str) -> None:
    tokens = torch.tensor([[0, 1, 2, 2, 0, 1, *[VOCAB.edge_offset] * 5, *[VOCAB.mask_id] * 10]])
    student = GraphMixture(build(name, *ALL), components=3)
    sigma = torch.tensor([0.7])
    plain = BDDenoiserBackbone(student.denoiser)(tokens, sigma)
    every = student(tokens, sigma, component="all")
    assert every.shape == (1, 3, *plain.shape[1:])
    for k in range(3):  # all are the network itself at the start
        torch.testing.assert_close(every[:, k], plain)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["data=graphs", "data.max_nodes=5", "algo.backbone=bd-denoiser-pair"], list(ALL)),
        (["data=graphs", "data.max_nodes=5", "model.features=[]"], []),
        (["data=bubble_diagrams"], None),
    ],
)
def test_the_kind_of_data_decides_unless_features_are_named(words, expected) -> None:
    assert complete_data(compose("train", words)).model.features == expected
