"""What is computed again instead of kept: the same gradients from fewer bytes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from discrete_diffusion.models.blocks import MLP, AdaLNZeroBlock
from discrete_diffusion.models.blocks.recompute import recomputed


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
    base, other = torch.randn(4, 6, requires_grad=True), torch.randn(3, 2)
    doubled = base * 2
    with recomputed(doubled, lambda: base * 2):
        product = doubled[:, 1:4].T[:, :3] @ (other.new_ones(3, 2) * other)
    (grad,) = torch.autograd.grad(product.square().sum(), [base])
    reference = torch.autograd.grad(((base * 2)[:, 1:4].T[:, :3] @ other).square().sum(), [base])[0]
    torch.testing.assert_close(grad, reference)


def kept_bytes(module, *inputs) -> int:
    """Bytes of distinct tensors that autograd keeps for a backward pass, parameters left out."""
    parameters = {p.untyped_storage().data_ptr() for p in module.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        out = module(*inputs)
    assert out.requires_grad
    return sum(kept.values())


def test_a_perceptron_keeps_its_input_and_one_hidden_tensor():
    torch.manual_seed(0)
    x = torch.randn(32, 10, 16)
    hidden = x.numel() * 4 * 4
    assert kept_bytes(MLP(d_model=16), x) < x.numel() * 4 + 1.1 * hidden


def test_nothing_is_recomputed_without_gradients_and_blocks_stay_what_they_are():
    torch.manual_seed(0)
    block = AdaLNZeroBlock(d_model=16, n_heads=2, cond_dim=8, dropout=0.0)
    nn.init.normal_(block.modulation.weight, std=0.3)
    x, c = torch.randn(3, 5, 16), torch.randn(3, 8)
    with torch.no_grad():
        without = block(x, c)
    with_gradients = block(x.requires_grad_(), c)
    torch.testing.assert_close(with_gradients, without)
    double = block.double()
    assert torch.autograd.gradcheck(double, (x.detach().double().requires_grad_(), c.double()))
