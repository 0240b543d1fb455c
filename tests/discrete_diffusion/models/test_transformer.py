"""Blocks steered by adaLN-Zero, and the embedded time."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from discrete_diffusion.models.transformer import (
    MLP,
    AdaLNFinal,
    AdaLNZeroBlock,
    TimestepEmbedder,
    corrupted_share,
    distinct_time,
    process_t,
    sinusoid,
)


def test_block_starts_as_the_identity_and_final_as_a_layer_norm():
    x, c = torch.randn(2, 5, 8), torch.randn(2, 6)
    block = AdaLNZeroBlock(d_model=8, n_heads=2, cond_dim=6).train()
    assert torch.equal(block(x, c), x)
    torch.testing.assert_close(AdaLNFinal(d_model=8, cond_dim=6)(x, c), F.layer_norm(x, (8,)))


def test_block_takes_its_chunks_in_order(randomise):
    block = randomise(AdaLNZeroBlock(d_model=8, n_heads=2, cond_dim=6))
    x, c = torch.randn(2, 5, 8), torch.randn(2, 6)
    shift1, scale1, gate1, shift2, scale2, gate2 = (
        (c @ w.T + b)[:, None]
        for w, b in zip(
            block.modulation.weight.split(8), block.modulation.bias.split(8), strict=True
        )
    )
    expected = x + gate1 * block.attention(block.norm1(x) * (1 + scale1) + shift1)
    branch = block.mlp(block.norm2(expected) * (1 + scale2) + shift2)
    torch.testing.assert_close(block(x, c), expected + gate2 * branch)


def test_norms_of_a_block_may_go_without_scale_and_shift(randomise):
    options = {"d_model": 8, "n_heads": 2, "cond_dim": 6}
    affine, plain = AdaLNZeroBlock(**options), AdaLNZeroBlock(**options, norm_affine=False)
    sizes = [sum(p.numel() for p in block.parameters()) for block in (affine, plain)]
    assert sizes[0] - sizes[1] == 4 * 8
    plain = randomise(AdaLNZeroBlock(**options, norm_affine=False, norm_eps=0.5))
    x, c = torch.randn(2, 5, 8), torch.randn(2, 6)
    assert torch.equal(plain.norm1(x), F.layer_norm(x, (8,), eps=0.5))
    assert torch.equal(plain.norm2(x), F.layer_norm(x, (8,), eps=0.5))
    assert plain(x, c).isfinite().all()


def test_dropout_acts_on_the_branches_only(randomise):
    block = randomise(AdaLNZeroBlock(d_model=8, n_heads=2, cond_dim=6, dropout=1.0)).train()
    x = torch.randn(2, 5, 8)
    assert torch.equal(block(x, torch.randn(2, 6)), x)


def test_mlp_uses_the_exact_gelu(randomise):
    mlp = randomise(MLP(d_model=4, mlp_ratio=2))
    x = torch.randn(3, 4)
    hidden = mlp.up(x)
    gelu = hidden * 0.5 * (1 + torch.erf(hidden / 2**0.5))
    torch.testing.assert_close(mlp(x), mlp.down(gelu))


def test_mlp_without_hidden_units_is_refused():
    with pytest.raises(ValueError, match=r"mlp_ratio=0\.1 leaves no hidden unit at d_model=4"):
        MLP(d_model=4, mlp_ratio=0.1)


def test_sinusoid_is_cosines_then_sines_of_the_formula():
    t = torch.tensor([0.0, 0.3, 7.0], dtype=torch.float64)
    waves = sinusoid(t, 8)
    for row, time in zip(waves, t.tolist(), strict=True):
        angles = [time * 10_000 ** (-k / 4) for k in range(4)]
        expected = [math.cos(a) for a in angles] + [math.sin(a) for a in angles]
        torch.testing.assert_close(row, torch.tensor(expected, dtype=torch.float64))


def test_embedder_applies_its_time_scale():
    torch.manual_seed(0)
    embedder = TimestepEmbedder(d_model=8, frequency_embedding_size=16, time_scale=10.0)
    t = torch.tensor([0.2, 0.7])
    torch.testing.assert_close(embedder(t), embedder.mlp(sinusoid(10.0 * t, 16)))


def test_embedder_keeps_the_sinusoid_in_float32_when_its_weights_are_not():
    embedder = TimestepEmbedder(d_model=8).to(torch.bfloat16)
    t = torch.tensor([0.999, 1.0])
    assert embedder(t).dtype == torch.bfloat16
    assert not torch.equal(*embedder(t))  # bfloat16 rounds 999 to 1000


def test_odd_frequency_embedding_is_refused():
    with pytest.raises(ValueError, match="frequency_embedding_size=7: expected an even number"):
        TimestepEmbedder(d_model=8, frequency_embedding_size=7)


def test_corrupted_share_is_exact_near_both_ends():
    assert corrupted_share(None) == 0.0
    sigma = torch.tensor([0.0, 1e-8, math.log(2), torch.inf])
    torch.testing.assert_close(corrupted_share(sigma), torch.tensor([0.0, 1e-8, 0.5, 1.0]))


@pytest.mark.parametrize(
    ("t", "expected"),
    [
        (1, [1.0] * 4),
        (torch.tensor(1), [1.0] * 4),
        (torch.tensor([0.3]), [0.3] * 4),
        (torch.tensor([0.1, 0.5, 0.9, 0.2]), [0.1, 0.5, 0.9, 0.2]),
    ],
)
def test_process_t_makes_one_time_per_sample(t, expected):
    torch.testing.assert_close(process_t(t, 4, "cpu"), torch.tensor(expected))


@pytest.mark.parametrize("t", [torch.tensor([0.1, 0.2]), torch.zeros(4, 1), torch.zeros(0)])
def test_process_t_refuses_other_shapes(t):
    with pytest.raises(ValueError, match=r"t has shape .*; expected a number or a tensor"):
        process_t(t, 4, "cpu")


def test_a_time_that_all_samples_share_is_embedded_once():
    same, apart = torch.full((5,), 0.3), torch.tensor([0.3, 0.3, 0.4])
    assert torch.equal(distinct_time(same), same[:1])
    for kept in (apart, same[:1], same[:0], same.to("meta")):
        assert distinct_time(kept) is kept
