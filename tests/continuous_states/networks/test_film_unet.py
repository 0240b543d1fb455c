"""The FiLM U-Net: its sizes, what its condition does at first and later, its equations."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from continuous_states.networks.dtn_unet import AttentionPooling
from continuous_states.networks.film_unet import ConditionalResBlock, CrossAttention, FiLMUNet

TINY = {
    "in_channels": 1,
    "out_channels": 2,
    "channels": 8,
    "multipliers": (1, 2),
    "cond_dim": 6,
    "groups": 4,
}


def num_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def inputs(height: int = 4, width: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 1, height, width, generator=generator)
    return x, torch.tensor([0.1, 0.5, 0.9]), torch.randn(3, 6, generator=generator)


def test_at_first_the_condition_has_no_effect_and_the_output_is_zero():
    x, t, cond = inputs()
    unet = FiLMUNet(**TINY, zero_init_out=False)
    expected = unet(x, t)
    assert expected.abs().max() > 1e-2
    assert torch.equal(unet(x, t, cond), expected)
    assert torch.equal(unet(x, t, 1e3 * cond), expected)
    assert (unet(x, 1 - t, cond) - expected).abs().max() > 1e-4  # time has one
    assert (FiLMUNet(**TINY)(x, t, cond) == 0).all()
    torch.testing.assert_close(unet.gate.detach(), torch.full((32,), 1 / (1 + math.exp(4))))
    opened = FiLMUNet(**TINY, cond_gate_init=2.0)
    assert float(opened.gate.detach().min()) == pytest.approx(0.880797)


def test_dropped_conditions_are_no_conditions(randomise):
    x, t, cond = inputs()
    unet = randomise(FiLMUNet(**TINY))
    given, without = unet(x, t, cond), unet(x, t)
    assert (given - without).abs().max() > 1e-2
    keep = torch.tensor([True, False, True])
    mixed = unet(x, t, cond, keep=keep)
    torch.testing.assert_close(mixed[keep], given[keep])
    torch.testing.assert_close(mixed[~keep], without[~keep])


@pytest.mark.slow
def test_cross_attention_starts_as_nothing_and_reads_tokens_of_samples_that_keep_them(randomise):
    x, t, cond = inputs()
    tokens = torch.randn(3, 5, 10)
    torch.manual_seed(0)
    plain = FiLMUNet(**TINY, zero_init_out=False)
    unet = FiLMUNet(**TINY, zero_init_out=False, token_dim=10, attention_heads=2)
    attending = [name for name, _ in unet.named_modules() if name.endswith(".attention")]
    assert attending == ["down.1.attention", "middle.attention", "up.1.attention"]
    missing = unet.load_state_dict(plain.state_dict(), strict=False).missing_keys
    assert all(".attention." in name for name in missing)
    assert torch.equal(unet(x, t, cond, tokens=tokens), plain(x, t, cond))

    randomise(unet)
    given = unet(x, t, cond, tokens=tokens)
    assert (unet(x, t, cond, tokens=-tokens) - given).abs().max() > 1e-3
    keep = torch.tensor([True, False, True])
    mixed = unet(x, t, cond, tokens=tokens, keep=keep)
    torch.testing.assert_close(mixed[keep], given[keep])
    torch.testing.assert_close(mixed[~keep], unet(x, t)[~keep])


def test_outputs_are_those_of_the_equations(randomise):
    """Three levels of 8, 16 and 8 channels, written out once more from the weights."""
    unet = randomise(FiLMUNet(**{**TINY, "multipliers": (1, 2, 1)})).double()
    x, t, cond = (part.double() for part in inputs(8, 12))
    state = unet.state_dict()

    def conv(name: str, h: Tensor, stride: int = 1) -> Tensor:
        weight = state[f"{name}.weight"]
        padding = weight.shape[-1] // 2
        return F.conv2d(h, weight, state[f"{name}.bias"], stride, padding)

    def linear(name: str, rows: Tensor) -> Tensor:
        return rows @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    def norm(name: str, h: Tensor) -> Tensor:
        return F.group_norm(h, 4, state[f"{name}.weight"], state[f"{name}.bias"])

    def block(name: str, h: Tensor) -> Tensor:
        film = linear(f"{name}.time_cond", F.silu(time_emb))
        film = film + linear(f"{name}.ctx_cond", F.silu(cond_emb))
        scale, shift = film[..., None, None].chunk(2, dim=1)
        inner = conv(f"{name}.conv1", F.silu(norm(f"{name}.norm1", h)))
        inner = F.silu(norm(f"{name}.norm2", inner) * (1 + scale) + shift)
        skip = conv(f"{name}.skip", h) if f"{name}.skip.weight" in state else h
        return (skip + conv(f"{name}.conv2", inner)) / math.sqrt(2)

    def stage(name: str, h: Tensor) -> Tensor:
        return block(f"{name}.blocks.1", block(f"{name}.blocks.0", h))

    angles = 1000 * t[:, None] * 10_000.0 ** (-torch.arange(4, dtype=torch.float64) / 4)
    waves = torch.cat([angles.cos(), angles.sin()], dim=-1)
    time_emb = linear("time_embedder.mlp.2", F.silu(linear("time_embedder.mlp.0", waves)))
    cond_emb = linear("cond_proj", cond) / (1 + torch.exp(-state["cond_gate"]))
    stem = conv("conv_in", x)
    down0 = stage("down.0", stem)
    down1 = stage("down.1", conv("shrink.0", down0, stride=2))
    down2 = stage("down.2", conv("shrink.1", down1, stride=2))
    h = stage("up.2", torch.cat([stage("middle", down2), down2], 1))
    for level, down in ((1, down1), (0, down0)):
        h = conv(f"enlarge.{level}", h.repeat_interleave(2, -1).repeat_interleave(2, -2))
        h = stage(f"up.{level}", torch.cat([h, down], 1))
    expected = conv("conv_out", F.silu(norm("norm", torch.cat([h, stem], 1))))
    assert expected.std() > 0.1
    torch.testing.assert_close(unet(x, t, cond), expected, atol=1e-10, rtol=0)


def test_sizes_that_cannot_be_halved_are_refused_with_some_that_can():
    unet = FiLMUNet(**{**TINY, "multipliers": (1, 1, 1)})
    t = torch.zeros(1)
    with pytest.raises(ValueError, match=r"images of 30 x 33 .* e\.g\. 28 x 32 or 32 x 36"):
        unet(torch.zeros(1, 1, 30, 33), t)
    with pytest.raises(ValueError, match=r"images of 2 x 4 .* e\.g\. 4 x 4$"):
        unet(torch.zeros(1, 1, 2, 4), t)


def test_bad_arguments_are_refused():
    x, t, cond = inputs()
    unet = FiLMUNet(**TINY)
    with pytest.raises(ValueError, match=r"x has shape \(3, 2, 4, 6\); expected \(B, 1, H, W\)"):
        unet(x.repeat(1, 2, 1, 1), t)
    with pytest.raises(ValueError, match=r"cond has shape \(3, 5\); expected \(3, 6\)"):
        unet(x, t, cond[:, :5])
    with pytest.raises(ValueError, match=r"keep is torch.float32 \(3,\); expected torch.bool \(3,"):
        unet(x, t, cond, keep=torch.ones(3))
    attending = FiLMUNet(**TINY, token_dim=10)
    with pytest.raises(ValueError, match=r"needs the tokens of cond, \(3, 'N', 10\)"):
        attending(x, t, cond)
    with pytest.raises(ValueError, match=r"tokens have shape \(3, 5, 9\); expected \(3, 'N', 10"):
        attending(x, t, cond, tokens=torch.zeros(3, 5, 9))
    for multipliers in ((), (1, 0), (1, 1.5)):
        with pytest.raises(ValueError, match="expected whole numbers above 0, one per level"):
            FiLMUNet(**{**TINY, "multipliers": multipliers})
    with pytest.raises(ValueError, match="groups=32 does not divide 8 channels; choose 1, 2, 4, 8"):
        FiLMUNet(**{**TINY, "groups": 32})


def block_inputs(channels: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    sizes = [(3, channels, 6, 5), (3, 10), (3, 10)]
    return tuple(torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes)


def resblock(i: int, o: int) -> ConditionalResBlock:
    return ConditionalResBlock(in_channels=i, out_channels=o, emb_dim=10, groups=2)


def test_dropout_stands_before_the_second_convolution(randomise):
    block = ConditionalResBlock(in_channels=4, out_channels=4, emb_dim=10, groups=2, dropout=1.0)
    randomise(block).double().train()
    x, time_emb, cond_emb = block_inputs(4)
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


def test_cross_attention_is_its_equation(randomise):
    block = randomise(CrossAttention(channels=8, token_dim=6, n_heads=2, groups=4)).double()
    x = block_inputs(8)[0]
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
