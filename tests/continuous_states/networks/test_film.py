"""The FiLM residual block, pixels that attend to tokens, and attention pooling."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from continuous_states.networks.dtn_unet import AttentionPooling
from continuous_states.networks.film_unet import ConditionalResBlock, CrossAttention


def num_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def inputs(channels: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    sizes = [(3, channels, 6, 5), (3, 10), (3, 10)]
    return tuple(torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes)


def resblock(i: int, o: int) -> ConditionalResBlock:
    return ConditionalResBlock(in_channels=i, out_channels=o, emb_dim=10, groups=2)


def test_dropout_stands_before_the_second_convolution(randomise):
    block = ConditionalResBlock(in_channels=4, out_channels=4, emb_dim=10, groups=2, dropout=1.0)
    randomise(block).double().train()
    x, time_emb, cond_emb = inputs(4)
    left = (x + block.conv2.bias[:, None, None]) / math.sqrt(2)
    torch.testing.assert_close(block(x, time_emb, cond_emb), left)


@pytest.mark.parametrize("num_layers", [1, 2])
def test_pooling_is_a_mean_with_weights_of_its_own(randomise, num_layers):
    pooling = randomise(AttentionPooling(d_model=6, num_layers=num_layers)).double()
    x = torch.randn(3, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    pooled = pooling(x)
    torch.testing.assert_close(pooled.weights.sum(1), torch.ones(3, dtype=torch.float64))
    assert pooled.weights.std() > 1e-2
    torch.testing.assert_close(pooled.vector, (pooled.weights[..., None] * x).sum(dim=1))
    normed = (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    scores = pooling.score(normed * pooling.norm.weight + pooling.norm.bias)[..., 0]
    torch.testing.assert_close(pooled.weights, scores.exp() / scores.exp().sum(1, keepdim=True))
    assert num_parameters(pooling) == 2 * 6 + 7 + (num_layers - 1) * 42


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: resblock(8, 9), "groups=2 does not divide 9 channels; choose 1, 3, 9"),
        (lambda: AttentionPooling(d_model=6, num_layers=3), "pool_layers=3: the scoring head has"),
        (
            lambda: CrossAttention(channels=8, token_dim=6, n_heads=3, groups=4),
            "n_heads=3 does not divide 8 channels; choose 1, 2, 4, 8",
        ),
    ],
)
def test_sizes_that_do_not_fit_are_refused(build, says):
    with pytest.raises(ValueError, match=says):
        build()


def attention() -> CrossAttention:
    return CrossAttention(channels=8, token_dim=6, n_heads=2, groups=4)


def test_cross_attention_starts_as_the_identity_and_reads_tokens_later(randomise):
    x, tokens = inputs(8)[0].float(), torch.randn(3, 7, 6)
    block = attention()
    assert torch.equal(block(x, tokens), x)
    randomise(block)
    out = block(x, tokens)
    assert (out - x).abs().max() > 1e-2
    order = torch.tensor([3, 1, 6, 0, 2, 5, 4])  # a set of tokens
    torch.testing.assert_close(block(x, tokens[:, order]), out, atol=1e-5, rtol=0)
    changed = block(x, tokens + torch.randn(3, 7, 6))
    assert (changed - out).abs().max() > 1e-2
    keep = torch.tensor([True, False, True])
    kept = block(x, tokens, keep)
    assert torch.equal(kept[1], x[1])
    torch.testing.assert_close(kept[keep], out[keep])


def test_cross_attention_is_its_equation(randomise):
    block, x = randomise(attention()).double(), inputs(8)[0]
    tokens = torch.randn(3, 7, 6, dtype=torch.float64)
    normed, rows = block.norm(x), block.token_norm(tokens)
    q = block.query(normed.flatten(2).transpose(1, 2))  # (B, H W, C)
    k, v = block.key_value(rows)[..., :8], block.key_value(rows)[..., 8:]
    mixed = []
    for part in (slice(0, 4), slice(4, 8)):
        scores = q[..., part] @ k[..., part].transpose(1, 2) / 2
        mixed.append(scores.softmax(-1) @ v[..., part])
    out = block.out(torch.cat(mixed, dim=-1)).transpose(1, 2).reshape(x.shape)
    torch.testing.assert_close(block(x, tokens), x + out, atol=1e-12, rtol=0)
