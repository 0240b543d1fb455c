"""What every built-in backbone of token sequences is held to."""

from importlib.util import find_spec

import pytest
import torch
from torch import nn

from discrete_diffusion.config.files import presets_of
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.models.registry import _BACKBONE_BUILDERS, backbone_spec, build_backbone

MASK, PAD = 13, 14
PAD_ROWS = {28: 14, 15: 14, 14: 12, 13: 12}  # rows of an embedding -> its PAD row
SPECS = [backbone_spec(name) for name in _BACKBONE_BUILDERS]
IMAGES = [spec.name for spec in SPECS if spec.state == "tokens" and "dtn" in spec.conditions]
NO_SIGMA = ["transformers"]  # held to the same in test_transformers_backbone.py
TOKEN_BACKBONES = [
    s.name for s in SPECS if s.state == "tokens" and s.name not in (*IMAGES, *NO_SIGMA)
]


def noisy(num_nodes: list[int], seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    nodes = torch.randint(0, 13, (len(num_nodes), 8), generator=generator)
    edges = torch.randint(15, 26, (len(num_nodes), 28), generator=generator)
    x = torch.cat([nodes, edges], dim=1)
    x[torch.rand(x.shape, generator=generator) < 0.5] = MASK
    real = RPLAN_VOCAB_CONFIG.real_positions(torch.tensor(num_nodes))
    x[~real] = PAD
    return x, real


@pytest.fixture(params=TOKEN_BACKBONES)
def backbone(request, make_config, randomise) -> nn.Module:
    config = make_config(request.param, presets_of(request.param)[0])
    return randomise(build_backbone(config, 28))


def test_the_built_in_names_are_covered():
    assert TOKEN_BACKBONES == ["bd-denoiser", "bd-denoiser-pair", "dit", "my-transformer"]
    images = ["film-unet-tokens"] if find_spec("continuous_states") else []
    assert images == IMAGES  # of whole images, which have no PAD: it refuses one
    assert {*TOKEN_BACKBONES, *NO_SIGMA} <= set(_BACKBONE_BUILDERS)


def assert_same(one: torch.Tensor, two: torch.Tensor) -> None:
    torch.testing.assert_close(one, two, atol=1e-5, rtol=0)


def test_pad_is_neither_attended_nor_predicted(backbone):
    x, real = noisy([8, 6, 4, 6])
    sigma = torch.tensor([0.1, 0.5, 1.0, 3.0])
    logits = backbone(x_t=x, sigma=sigma)
    assert logits.shape == (4, 36, 28)
    assert logits[real].std() > 0.1  # else nothing below could fail

    for b in range(4):  # the padding of the batch: alone, with its like, with larger ones
        assert_same(
            backbone(x_t=x[b : b + 1], sigma=sigma[b : b + 1])[0, real[b]], logits[b, real[b]]
        )
    pair = torch.tensor([1, 3])
    assert_same(backbone(x_t=x[pair], sigma=sigma[pair])[real[pair]], logits[pair][real[pair]])

    order = torch.tensor([2, 0, 3, 1])  # the order of the samples
    assert_same(backbone(x_t=x[order], sigma=sigma[order])[real[order]], logits[order][real[order]])

    with torch.no_grad():  # what PAD looks like
        for module in backbone.modules():
            if isinstance(module, nn.Embedding) and module.num_embeddings in PAD_ROWS:
                module.weight[PAD_ROWS[module.num_embeddings]] += 5.0
    assert_same(backbone(x_t=x, sigma=sigma)[real], logits[real])

    assert (logits.softmax(dim=-1)[real][:, PAD] == 0).all()


def test_real_neighbours_are_attended(backbone):
    """The counterpart: the checks above would also pass if no position saw another."""
    x, real = noisy([6, 6])
    changed = x.clone()
    changed[:, 5] = torch.where(x[:, 5] == 0, 1, 0)
    others = real.clone()
    others[:, 5] = False
    assert (backbone(x_t=x)[others] - backbone(x_t=changed)[others]).abs().max() > 1e-3


def test_sigma_may_come_in_any_of_its_forms(backbone):
    x, real = noisy([8, 5])
    expected = backbone(x_t=x, sigma=torch.full((2,), 0.7))
    for sigma in (0.7, torch.tensor(0.7), torch.full((1,), 0.7), torch.full((2, 1), 0.7)):
        assert_same(backbone(x_t=x, sigma=sigma)[real], expected[real])
    for sigma in (None, torch.zeros(2)):
        assert backbone(x_t=x, sigma=sigma)[real].isfinite().all()
    with pytest.raises(ValueError, match=r"shape \(3,\); expected .*\(2,\)"):
        backbone(x_t=x, sigma=torch.rand(3))


def test_a_sample_of_nothing_but_pad_spoils_neither_values_nor_gradients(backbone):
    x, real = noisy([8, 5, 4])
    x[1], real[1] = PAD, False
    logits = backbone(x_t=x, sigma=torch.rand(3))
    logits[real].logsumexp(dim=-1).sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in backbone.parameters())


def test_logits_are_a_fresh_tensor(backbone):
    x, _ = noisy([8, 8])
    logits = backbone(x_t=x)
    kept = logits.detach().clone()
    logits.data.zero_()
    assert torch.equal(backbone(x_t=x), kept)


def test_other_precisions(backbone):
    x, real = noisy([8, 5])
    for dtype in (torch.float64, torch.bfloat16):
        logits = backbone.to(dtype)(x_t=x, sigma=torch.rand(2))
        assert logits.dtype == dtype
        assert logits[real].isfinite().all()
