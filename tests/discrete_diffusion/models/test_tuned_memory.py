"""What is computed again instead of kept: the same gradients from fewer bytes."""

from __future__ import annotations

import gc
import weakref
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from discrete_diffusion.models import acceleration
from discrete_diffusion.models.acceleration import recomputed
from discrete_diffusion.models.transformer import MLP, AdaLNZeroBlock


def test_gradients_are_the_same_and_the_tensor_is_not_kept():
    torch.manual_seed(0)
    up, down = nn.Linear(6, 12), nn.Linear(12, 6)
    x = torch.randn(4, 5, 6)
    plain = torch.autograd.grad(down(F.gelu(up(x))).square().sum(), [*up.parameters(), down.weight])

    hidden = up(x)
    active = F.gelu(hidden)
    calls = []

    def again():
        calls.append(1)
        return F.gelu(hidden)

    with recomputed(active, again):
        out = down(active)
    assert not calls
    found = torch.autograd.grad(out.square().sum(), [*up.parameters(), down.weight])
    assert calls == [1]
    for one, two in zip(found, plain, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0)


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


@pytest.mark.slow
def test_no_graph_is_left_behind_and_function_transforms_work():
    block = acceleration.tuned(AdaLNZeroBlock(d_model=16, n_heads=2, cond_dim=8, dropout=0.0))
    x, c = torch.randn(3, 5, 16), torch.randn(3, 8)
    gc.collect()
    gc.disable()
    try:
        before = sum(type(thing) is torch.Tensor for thing in gc.get_objects())
        for _ in range(5):
            block(x, c)
        after = sum(type(thing) is torch.Tensor for thing in gc.get_objects())
    finally:
        gc.enable()
    assert after == before
    gradient = torch.func.grad(lambda y: block(y, c).square().sum())(x)
    assert gradient.shape == x.shape
