"""get-region: its sizes, what it may read, and its equations written down a second time."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from continuous_states.networks.get_region import GetRegion
from discrete_diffusion.models import pack_columns

TINY = {"num_features": 7, "d_model": 32, "n_layers": 2, "n_heads": 4}
SIGMA = torch.tensor([0.2, 0.7, 1.5])
CHOICES = [{"position_embedding": "sinusoidal"}, {"position_embedding": "none"}]


def assert_same(one: Tensor, two: Tensor) -> None:
    torch.testing.assert_close(one, two, atol=1e-5, rtol=0)


def windows(length: int = 9, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, and which are masked and noisy, of three windows; no row is both."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, length, 7, generator=generator)
    draw = torch.rand(3, length, generator=generator)
    masked, noisy = draw < 0.4, draw > 0.7
    assert masked.any(dim=1).all()
    assert noisy.any(dim=1).all()
    return x, masked, noisy


def num_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_every_part_has_its_size():
    """D = 768, M = 283, 12 layers, 256 frequencies; arithmetic beside the numbers."""
    with torch.device("meta"):
        model = GetRegion(num_features=283, d_model=768, n_layers=12, n_heads=12)
    assert all(parameter.is_meta for parameter in model.parameters())
    block = model.blocks[0]
    sizes = [
        (model.region_embedding, 218_112),  # M D + D
        (model.timestep_embedder, 787_968),  # 256 D + D + D^2 + D
        (block.attention.qkv, 1_771_776),  # 3 D^2 + 3 D
        (block.attention.out, 590_592),  # D^2 + D
        (block.mlp, 4_722_432),  # 8 D^2 + 5 D
        (block.modulation, 3_543_552),  # 6 D^2 + 6 D
        (block, 10_628_352),  # 18 D^2 + 15 D
        (model.norm, 1_536),  # 2 D
        (model.head, 217_627),  # D M + M
        (model, 128_767_003),  # and two tokens of D
    ]
    assert [num_parameters(part) for part, _ in sizes] == [size for _, size in sizes]


def test_norms_and_tokens_are_those_of_the_publication():
    model = GetRegion(**{**TINY, "d_model": 1024})
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert [(norm.eps, norm.elementwise_affine) for norm in norms] == [(1e-6, False)] * 4 + [
        (1e-6, True)
    ]
    for token in (model.mask_token, model.cls_token):
        assert 0.015 < token.std() < 0.025


def test_blocks_start_as_the_identity_and_predictions_at_zero():
    x, masked, noisy = windows()
    model = GetRegion(**TINY).train()
    rows = torch.randn(3, 10, 32)
    for block in model.blocks:
        assert torch.equal(block(rows, torch.randn(3, 32)), rows)
    predicted = model(x, SIGMA, masked=masked, noisy=noisy)
    assert predicted.shape == x.shape
    assert (predicted == 0).all()
    headed = GetRegion(**TINY, zero_init_head=False)
    assert headed(x, SIGMA).abs().max() > 0.01
    assert torch.equal(headed(x, SIGMA, masked=masked), headed(x, None, masked=masked))


@pytest.mark.parametrize("content", [5.0, math.nan])
def test_what_stands_in_hidden_rows_changes_neither_outputs_nor_gradients(randomise, content):
    x, masked, noisy = windows()
    real = torch.ones(3, 9, dtype=torch.bool)
    real[:, 8] = real[1, 5:] = real[2] = False  # a window has no row
    model = randomise(GetRegion(**TINY))

    def outputs_and_gradients(rows: Tensor) -> tuple[Tensor, ...]:
        predicted = model(rows, SIGMA, masked=masked, noisy=noisy, real=real)[real]
        gradients = torch.autograd.grad(predicted.square().sum(), [*model.parameters()])
        return predicted, *gradients

    expected = outputs_and_gradients(x)
    hidden = torch.where((masked | ~real).unsqueeze(-1), content, x)
    for one, two in zip(outputs_and_gradients(hidden), expected, strict=True):
        assert two.isfinite().all()
        assert torch.equal(one, two)
    seen = torch.where((~masked & real).unsqueeze(-1), 5.0, x)  # the counterpart
    assert (outputs_and_gradients(seen)[0] - expected[0]).abs().max() > 1e-2


def test_padded_windows_are_predicted_like_the_shorter_ones(randomise):
    x, masked, noisy = windows()
    real = torch.ones(3, 9, dtype=torch.bool)
    real[0, 6:] = real[1, 4:] = real[2, 6:] = False  # columns 6 to 8 are left out
    model = randomise(GetRegion(**TINY))
    predicted = model(x, SIGMA, masked=masked, noisy=noisy, real=real)
    assert predicted.shape == x.shape
    none = model(x[:, :0], SIGMA, masked=masked[:, :0], real=real[:, :0])
    assert none.shape == (3, 0, 7)
    for b, length in enumerate((6, 4, 6)):
        rows = (slice(b, b + 1), slice(length))
        alone = model(x[rows], SIGMA[b : b + 1], masked=masked[rows], noisy=noisy[rows])
        assert_same(predicted[rows], alone)
    given = model(x, SIGMA, masked=masked, noisy=noisy, real=real, packing=pack_columns(real))
    assert torch.equal(given[real], predicted[real])


def test_left_out_rows_leave_the_others_their_positions(randomise):
    x, masked, _ = windows()
    real = torch.ones(3, 9, dtype=torch.bool)
    real[:, 3] = False  # in no window
    model = randomise(GetRegion(**TINY))
    predicted = model(x, SIGMA, masked=masked, real=real)
    real[0, 3] = True  # now it is computed for all three, and hidden from the other two
    again = model(x, SIGMA, masked=masked, real=real)
    for b in (1, 2):
        assert_same(again[b, real[b]], predicted[b, real[b]])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions(randomise, dtype):
    x, masked, noisy = windows()
    model = randomise(GetRegion(**TINY))
    expected = model(x, SIGMA, masked=masked, noisy=noisy)
    with torch.autocast("cpu", torch.bfloat16):
        low = model(x.bfloat16(), SIGMA, masked=masked, noisy=noisy)
    predicted = model.to(dtype)(x, SIGMA, masked=masked, noisy=noisy)
    assert predicted.dtype == dtype
    for found in (low, predicted):
        error = (found - expected).square().mean().sqrt() / expected.std()
        assert error < 0.05


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match=r"unknown model\.position_embedding 'rotary'"):
        GetRegion(**TINY, position_embedding="rotary")
    with pytest.raises(
        ValueError, match="need an even d_model, got 33; choose 34, or position_embedding=none"
    ):
        GetRegion(**{**TINY, "d_model": 33})
    GetRegion(**{**TINY, "d_model": 33, "n_heads": 3}, position_embedding="none")
    model, (x, masked, _) = GetRegion(**TINY), windows()
    with pytest.raises(ValueError, match=r"shape \(3, 9, 6\); expected \(B, N, 7\), rows of 7"):
        model(x[..., :6])
    with pytest.raises(ValueError, match=r"masked is torch.float32 \(3, 9\); expected torch.bool"):
        model(x, masked=masked.float())
    with pytest.raises(ValueError, match=r"real is torch.bool \(3, 8\); expected .* \(3, 9\), one"):
        model(x, real=masked[:, :8])


def restated(model: GetRegion, x: Tensor, t: Tensor, masked: Tensor, noisy: Tensor) -> Tensor:
    """The equations of the publication, with the module's weights and none of its code."""
    state = model.state_dict()
    heads, d_model = 4, 32

    def linear(name: str, rows: Tensor) -> Tensor:
        return rows @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    def norm(rows: Tensor) -> Tensor:
        centred = rows - rows.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt()

    def silu(rows: Tensor) -> Tensor:
        return rows / (1 + torch.exp(-rows))

    def gelu(rows: Tensor) -> Tensor:
        return rows * 0.5 * (1 + torch.erf(rows / math.sqrt(2)))

    def waves(times: Tensor, size: int) -> Tensor:
        half = size // 2
        frequencies = 10_000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = times[:, None] * frequencies[None]
        return torch.cat([angles.cos(), angles.sin()], dim=-1)

    def attention(name: str, rows: Tensor) -> Tensor:
        q, k, v = linear(f"{name}.qkv", rows).split(d_model, dim=-1)
        width, mixed = d_model // heads, []
        for h in range(heads):
            part = slice(h * width, (h + 1) * width)
            scores = q[..., part] @ k[..., part].transpose(1, 2) / math.sqrt(width)
            weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
            mixed.append(weights @ v[..., part])
        return linear(f"{name}.out", torch.cat(mixed, dim=-1))

    h = linear("region_embedding", x)
    h = h + noisy[..., None] * state["mask_token"]
    w = masked[..., None].float()
    h = h * (1 - w) + state["mask_token"] * w
    if model.position_embedding == "sinusoidal":
        h = h + waves(torch.arange(x.shape[1]), d_model)
    h = torch.cat([state["cls_token"].expand(len(x), 1, d_model), h], dim=1)
    c = linear("timestep_embedder.mlp.0", waves(1000 * t, 256))
    c = linear("timestep_embedder.mlp.2", silu(c))
    for k in range(len(model.blocks)):
        name = f"blocks.{k}"
        modulation = linear(f"{name}.modulation", silu(c))[:, None]  # SiLU in every block
        shift1, scale1, gate1, shift2, scale2, gate2 = modulation.chunk(6, dim=-1)
        h = h + gate1 * attention(f"{name}.attention", norm(h) * (1 + scale1) + shift1)
        hidden = gelu(linear(f"{name}.mlp.up", norm(h) * (1 + scale2) + shift2))
        h = h + gate2 * linear(f"{name}.mlp.down", hidden)
    z = norm(h) * state["norm.weight"] + state["norm.bias"]
    return linear("head", z)[:, 1:]


@pytest.mark.parametrize("choice", CHOICES)
def test_outputs_are_those_of_the_published_equations(randomise, choice):
    """In float64: 1000 t goes through a cosine, and float32 knows it to 1e-4 only."""
    x, masked, noisy = windows()
    x, t = x.double(), torch.tensor([0.0, 0.4, 0.95], dtype=torch.float64)
    model = randomise(GetRegion(**TINY, **choice)).double()
    expected = restated(model, x, t, masked, noisy)
    predicted = model(x, -torch.log1p(-t), masked=masked, noisy=noisy)
    assert expected.std() > 0.1
    torch.testing.assert_close(predicted, expected, atol=1e-5, rtol=0)
    both = model(x, -torch.log1p(-t), masked=masked, noisy=noisy | masked)  # masked wins
    assert torch.equal(both, predicted)
    timeless = model(x, None, masked=masked, noisy=noisy)
    assert_same(timeless, restated(model, x, 0 * t, masked, noisy))
