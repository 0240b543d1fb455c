import pytest
import torch
import torch.nn.functional as F

from discrete_diffusion.models.transformer import MLP, AdaLNFinal, AdaLNZeroBlock, modulate


def test_modulate_is_its_formula():
    x, shift, scale = torch.randn(2, 3, 4), torch.randn(2, 1, 4), torch.randn(2, 1, 4)
    torch.testing.assert_close(modulate(x, shift, scale), x * (1 + scale) + shift)


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
