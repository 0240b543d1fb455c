"""Networks made faster: other classes with the same numbers, from fewer bytes."""

from __future__ import annotations

import gc
import weakref
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.models import acceleration
from discrete_diffusion.models.acceleration import (
    FastChannelsFirstLinear,
    FastLinear,
    LeanMLP,
    recomputed,
    tuned,
)
from discrete_diffusion.models.bd_denoiser import BDDenoiser
from discrete_diffusion.models.registry import build_backbone, register_backbone
from discrete_diffusion.models.transformer import MLP, AdaLNZeroBlock


def test_names_order_and_numbers_of_parameters_stay():
    torch.manual_seed(0)
    network = BDDenoiser(d_model=32, n_layers=2, n_heads=2, vocab_config=RPLAN_VOCAB_CONFIG)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    order = [name for name, _ in network.named_parameters()]
    assert tuned(network) is network
    assert [name for name, _ in network.named_parameters()] == order
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])
    kinds = {type(module) for module in network.modules()}
    assert {FastLinear, LeanMLP} <= kinds
    assert not {nn.Linear, MLP} & kinds


def test_built_in_networks_are_tuned_and_those_of_others_are_not(make_config, clean_registry):
    built = build_backbone(make_config("dit", "dit_tiny"), 28)
    assert any(isinstance(module, FastLinear) for module in built.modules())

    class Theirs(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 28)

        def forward(self, x_t, sigma=None):
            return self.head(torch.zeros(*x_t.shape, 4))

    register_backbone("theirs")(lambda config, size: Theirs())
    theirs = build_backbone(make_config("theirs", None), 28)
    assert type(theirs.head) is nn.Linear


def outcome(layer, x):
    """Output and gradients of x, weight and bias."""
    x = x.clone().requires_grad_()
    out = layer(x)
    layer.zero_grad()
    (out * torch.linspace(0.5, 1, out.numel()).view_as(out)).sum().backward()  # nothing cancels
    return [out.detach(), x.grad, *(p.grad.clone() for p in layer.parameters())]


def compared(monkeypatch, layer, x, owner, name):
    """The outcome where MKL lags, checked against that of MKL, and a 1 for each call of the way
    ``name`` of ``owner``."""
    monkeypatch.setattr(acceleration, "_MKL_LAGS", False)
    expected = outcome(layer, x)
    calls, way = [], getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *args: calls.append(1) or way(*args))
    monkeypatch.setattr(acceleration, "_MKL_LAGS", True)
    found = outcome(layer, x)
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
    return found, calls


@pytest.mark.parametrize(
    ("shape", "bias"), [((16, 5, 8), True), ((40, 1, 8), False), ((2, 2048, 8), True)]
)
def test_both_ways_give_the_same_sums(monkeypatch, bias, shape):
    torch.manual_seed(0)
    layer, x = FastLinear(8, 24, bias=bias), torch.randn(shape)
    found, convolutions = compared(monkeypatch, layer, x, acceleration.F, "conv2d")
    assert convolutions == [1]
    assert found[0].is_contiguous()


HAS_ONEDNN = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="PyTorch has no oneDNN here"
)


@HAS_ONEDNN
@pytest.mark.parametrize(("shape", "bias"), [((1, 1444, 128), True), ((3, 401, 128), False)])
def test_few_sequences_of_a_large_product_are_left_to_onednn(monkeypatch, shape, bias):
    """Of one large graph, with gradients of both orders; a product a little smaller is not."""
    torch.manual_seed(0)
    layer, x = FastLinear(128, 64, bias=bias), torch.randn(shape)
    _, products = compared(monkeypatch, layer, x, acceleration._OneDNNProduct, "apply")
    assert len(products) == 2
    transformed = torch.func.grad(lambda x: layer(x).sum())(x)
    torch.testing.assert_close(transformed, layer.weight.sum(dim=0).expand(shape))
    layer(x[:, :, ::2].repeat(1, 1, 2)[:, :1])  # small
    assert len(products) == 2


@HAS_ONEDNN
def test_a_large_product_with_channels_first_is_onednns(monkeypatch):
    torch.manual_seed(0)
    layer, x = FastChannelsFirstLinear(64, 256), torch.randn(9, 57, 64)
    owner = acceleration._ChannelsFirstProduct
    found, products = compared(monkeypatch, layer, x, owner, "apply")
    assert len(products) == 3  # its own, and one for each gradient
    expected = nn.functional.linear(x, layer.weight, layer.bias).flatten(0, 1).T
    torch.testing.assert_close(found[0], expected)
    transformed = torch.func.grad(lambda x: layer(x).sum())(x)
    torch.testing.assert_close(transformed, layer.weight.sum(dim=0).expand(x.shape))
    layer(x[:8])  # small
    layer.double()(x.double())
    assert len(products) == 3


@HAS_ONEDNN
def test_a_product_of_onednn_has_its_gradients():
    """Of both orders, to float32's rounding of float64's."""
    torch.manual_seed(0)
    given = [torch.randn(shape, requires_grad=True) for shape in ((2, 7, 5), (3, 5), (3,))]

    def orders(product, given):
        first = torch.autograd.grad(product(*given).pow(3).sum(), given, create_graph=True)
        return *first, *torch.autograd.grad(sum(g.square().sum() for g in first), given)

    exact = [x.detach().double().requires_grad_() for x in given]
    linear = nn.functional.linear
    for product, reference, num in (
        (acceleration._OneDNNProduct.apply, linear, 3),
        (
            lambda x, weight: acceleration._ChannelsFirstProduct.apply(weight, x[0]),
            lambda x, weight: weight @ x[0].T,
            2,
        ),
    ):
        found, expected = orders(product, given[:num]), orders(reference, exact[:num])
        for one, two in zip(found, expected, strict=True):
            torch.testing.assert_close(one.double(), two, rtol=1e-4, atol=1e-3)


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
    with torch.autocast("cpu", torch.bfloat16):
        assert FastLinear(8, 3)(torch.randn(32, 4, 8)).dtype == torch.bfloat16


def test_views_are_recognised_and_others_are_kept():
    base, other = (torch.randn(4, 6, requires_grad=True) for _ in range(2))
    doubled, calls = base * 2, []

    def again():
        calls.append(1)
        return base * 2

    with recomputed(doubled, again):
        product = doubled[:, 1:4].T[:, :3] @ other[:3]
    found = torch.autograd.grad(product.square().sum(), [base, other])
    assert calls == [1]
    plain = ((base * 2)[:, 1:4].T[:, :3] @ other[:3]).square().sum()
    for one, two in zip(found, torch.autograd.grad(plain, [base, other]), strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.slow
@pytest.mark.parametrize("keep", [False, True])
def test_what_a_perceptron_can_have_again_is_not_alive(monkeypatch, keep):
    """Of its two hidden tensors, that of GELU is gone before the backward pass, which makes it
    again; without the recomputation it is alive."""
    made = []

    class Watched(nn.GELU):
        def forward(self, hidden):
            made.append(weakref.ref(active := super().forward(hidden)))
            return active

    perceptron = acceleration.tuned(MLP(d_model=16))
    perceptron.activation = Watched()
    if keep:
        monkeypatch.setattr(acceleration, "recomputed", lambda tensor, again: nullcontext())
    out = perceptron(torch.randn(32, 10, 16))
    gc.collect()
    assert (made[0]() is not None) == keep
    out.sum().backward()
    assert len(made) == (1 if keep else 2)


@pytest.mark.slow
def test_nothing_is_recomputed_without_gradients_and_blocks_stay_what_they_are():
    torch.manual_seed(0)
    block = acceleration.tuned(AdaLNZeroBlock(d_model=16, n_heads=2, cond_dim=8, dropout=0.0))
    nn.init.normal_(block.modulation.weight, std=0.3)
    x, c = torch.randn(3, 5, 16), torch.randn(3, 8)
    with torch.no_grad():
        without = block(x, c)
    with_gradients = block(x.requires_grad_(), c)
    torch.testing.assert_close(with_gradients, without)
    double = block.double()
    assert torch.autograd.gradcheck(double, (x.detach().double().requires_grad_(), c.double()))
