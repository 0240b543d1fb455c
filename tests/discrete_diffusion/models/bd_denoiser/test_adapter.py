import math

import pytest
import torch

from discrete_diffusion.categorical import neg_inf
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.models.bd_denoiser import BDDenoiser, BDDenoiserBackbone

MASK, PAD, EDGE_MASK, EDGE_PAD = 13, 14, 26, 27
LAYOUT = RPLAN_VOCAB_CONFIG.layout()


@pytest.fixture
def backbone(randomise) -> BDDenoiserBackbone:
    denoiser = BDDenoiser(d_model=32, n_layers=2, n_heads=4, vocab_config=RPLAN_VOCAB_CONFIG)
    return randomise(BDDenoiserBackbone(denoiser))


def noisy(num_nodes: list[int], seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Half masked diagrams in the concatenated vocabulary, and their real positions."""
    generator = torch.Generator().manual_seed(seed)
    nodes = torch.randint(0, 13, (len(num_nodes), 8), generator=generator)
    edges = torch.randint(15, 26, (len(num_nodes), 28), generator=generator)
    x = torch.cat([nodes, edges], dim=1)
    x[torch.rand(x.shape, generator=generator) < 0.5] = MASK
    real = RPLAN_VOCAB_CONFIG.real_positions(torch.tensor(num_nodes))
    x[~real] = PAD
    return x, real


def separate(x: torch.Tensor) -> torch.Tensor:
    """Concatenated -> separate ids, one at a time."""
    table = {MASK: 11, PAD: 12}
    rows = [[v if p < 8 else table.get(v, v - 15) for p, v in enumerate(row)] for row in x.tolist()]
    return torch.tensor(rows)


def test_softmax_is_that_of_the_heads_over_their_legal_classes(backbone):
    x, real = noisy([8, 6, 4])
    sigma = torch.tensor([0.1, 1.0, 4.0])
    node_logits, edge_logits = backbone.denoiser(separate(x), real, -torch.expm1(-sigma))
    probs = backbone(x, sigma).softmax(dim=-1)
    torch.testing.assert_close(probs[:, :8, :13], node_logits[..., :13].softmax(dim=-1))
    torch.testing.assert_close(probs[:, 8:, 15:26], edge_logits[..., :11].softmax(dim=-1))
    assert (probs[:, ~LAYOUT.support] == 0).all()


def test_legal_only_false_keeps_mask_and_pad_of_the_own_vocabulary(backbone):
    x, real = noisy([8, 5])
    backbone.legal_only = False
    node_logits, edge_logits = backbone.denoiser(separate(x), real, 0.0)
    logits = backbone(x)
    torch.testing.assert_close(logits[:, :8, :15], node_logits)
    torch.testing.assert_close(logits[:, 8:, 15:], edge_logits)
    assert (logits[:, :8, 15:] == neg_inf(logits.dtype)).all()
    assert (logits[:, 8:, :15] == neg_inf(logits.dtype)).all()


def test_either_mask_and_either_pad_is_understood_at_every_position(backbone):
    x, real = noisy([8, 5])
    edge_style = x.clone()
    edge_style[:, 8:][x[:, 8:] == MASK] = EDGE_MASK
    edge_style[:, 8:][x[:, 8:] == PAD] = EDGE_PAD
    swapped = x.clone()
    swapped[x == MASK], swapped[x == PAD] = EDGE_MASK, EDGE_PAD
    for other in (edge_style, swapped):
        torch.testing.assert_close(backbone(other)[real], backbone(x)[real])


def test_an_id_that_is_illegal_at_its_position_reads_as_mask(backbone):
    x = torch.full((1, 36), MASK)
    wrong = x.clone()
    wrong[0, 0], wrong[0, 20] = 17, 3  # a relation in a room slot, a room in a relation slot
    torch.testing.assert_close(backbone(wrong), backbone(x))


def test_sigma_becomes_the_corrupted_share_and_none_is_zero(backbone):
    x, real = noisy([8, 8])
    sigma = torch.tensor([math.log(2), math.log(4)])
    node_logits, _ = backbone.denoiser(separate(x), real, torch.tensor([0.5, 0.75]))
    torch.testing.assert_close(backbone(x, sigma)[:, :8, :13], node_logits[..., :13])
    torch.testing.assert_close(backbone(x, None), backbone(x, torch.zeros(2)))
    assert not torch.allclose(backbone(x, sigma), backbone(x, None))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_autocast_keeps_illegal_ids_impossible_and_the_backward_pass_finite(backbone, dtype):
    x, real = noisy([8, 5])
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        logits = backbone(x, torch.rand(2))
    log_probs = logits.float().log_softmax(dim=-1)
    assert (log_probs.exp()[:, ~LAYOUT.support] == 0).all()
    log_probs[real][:, 0].clamp(min=-50).sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in backbone.parameters())


def test_wrong_length_is_refused(backbone):
    with pytest.raises(
        ValueError, match=r"x_t has shape \(2, 35\); expected \(B, 36\) for n_max=8"
    ):
        backbone(torch.full((2, 35), MASK))
