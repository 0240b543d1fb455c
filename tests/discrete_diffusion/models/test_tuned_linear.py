"""The linear layer that becomes a convolution: the same numbers and gradients either way."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.models import acceleration
from discrete_diffusion.models.acceleration import FastLinear


def outcome(layer, x):
    """Output and gradients of x, weight and bias."""
    x = x.clone().requires_grad_()
    out = layer(x)
    layer.zero_grad()
    (out * torch.linspace(0.5, 1, out.numel()).view_as(out)).sum().backward()  # nothing cancels
    return [out.detach(), x.grad, *(p.grad.clone() for p in layer.parameters())]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(16, 5, 8), (40, 1, 8), (16, 12, 8), (2, 2048, 8)])
def test_both_ways_give_the_same_sums(monkeypatch, bias, shape):
    torch.manual_seed(0)
    layer, x = FastLinear(8, 24, bias=bias), torch.randn(shape)
    monkeypatch.setattr(acceleration, "_MKL_LAGS", False)
    expected = outcome(layer, x)
    convolutions = []
    convolve = acceleration.F.conv2d
    monkeypatch.setattr(
        acceleration.F, "conv2d", lambda *args: convolutions.append(1) or convolve(*args)
    )
    monkeypatch.setattr(acceleration, "_MKL_LAGS", True)
    found = outcome(layer, x)
    assert convolutions == [1]
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
    assert found[0].is_contiguous()


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(15, 4, 8),
        torch.randn(3, 1366, 8),  # many columns, no multiple of sixteen
        torch.randn(2, 8, 2048).transpose(1, 2),  # cutting it would copy it
        torch.randn(16, 0, 8),
        torch.randn(64, 8),
        torch.randn(16, 4, 8, dtype=torch.float64),
    ],
)
def test_what_is_not_a_batch_of_float32_sequences_stays_a_product(monkeypatch, x):
    monkeypatch.setattr(acceleration, "_MKL_LAGS", True)
    monkeypatch.setattr(acceleration.F, "conv2d", None)
    layer = FastLinear(8, 3).to(x.dtype)
    torch.testing.assert_close(layer(x), x @ layer.weight.T + layer.bias)


def test_under_autocast_it_stays_a_product(monkeypatch):
    monkeypatch.setattr(acceleration, "_MKL_LAGS", True)
    monkeypatch.setattr(acceleration.F, "conv2d", None)
    with torch.autocast("cpu", torch.bfloat16):
        assert FastLinear(8, 3)(torch.randn(32, 4, 8)).dtype == torch.bfloat16
