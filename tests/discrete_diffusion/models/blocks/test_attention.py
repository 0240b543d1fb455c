import math

import pytest
import torch

from discrete_diffusion.models import attention
from discrete_diffusion.models.attention import RotaryEmbedding, apply_rotary
from discrete_diffusion.models.transformer import MultiHeadSelfAttention

B, L, D, H = 3, 7, 16, 4


def naive_attention(attention, x, allowed, rotary=None):
    """Attention as its definition says, one query at a time. ``allowed``: Bool[B, L, L]."""
    weight = attention.qkv.weight
    bias = attention.qkv.bias
    q, k, v = (x @ weight[s].T + bias[s] for s in torch.arange(3 * D).split(D))
    d, mixed = D // H, torch.zeros_like(x)
    for b in range(len(x)):
        for h in range(H):
            head = slice(h * d, (h + 1) * d)
            qs, ks, vs = q[b, :, head], k[b, :, head], v[b, :, head]
            if rotary is not None:
                qs, ks = apply_rotary(qs, rotary), apply_rotary(ks, rotary)
            for i in range(x.shape[1]):
                keys = [j for j in range(x.shape[1]) if allowed[b, i, j]]
                scores = torch.stack([qs[i] @ ks[j] / math.sqrt(d) for j in keys])
                mixed[b, i, head] = scores.softmax(0) @ vs[keys]
    return attention.out(mixed)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("rotated", [False, True])
def test_attention_equals_its_definition(causal, masked, rotated):
    torch.manual_seed(0)
    attention = MultiHeadSelfAttention(d_model=D, n_heads=H, causal=causal).double()
    x = torch.randn(B, L, D, dtype=torch.float64)
    real = torch.ones(B, L, dtype=torch.bool)
    if masked:
        real[0, 4:] = False
        real[1, ::2] = False
    allowed = real[:, None, :].expand(B, L, L)
    if causal:
        allowed = (allowed & torch.ones(L, L).tril().bool()) | torch.eye(L).bool()
    rotary = RotaryEmbedding(d_model=D, n_heads=H)(torch.arange(L)) if rotated else None
    mask = real[:, None, None, :] if masked else None
    expected = naive_attention(attention, x, allowed, rotary)
    torch.testing.assert_close(attention(x, mask, rotary), expected)


def test_causal_with_leading_pad_is_finite_forwards_and_backwards():
    attention = MultiHeadSelfAttention(d_model=D, n_heads=H, causal=True)
    real = torch.arange(L).expand(1, 1, 1, L) >= 3
    x = torch.randn(1, L, D, requires_grad=True)
    out = attention(x, real)
    out[:, 3:].sum().backward()
    assert out.isfinite().all()
    assert (x.grad[:, :3] == 0).all()


def test_indivisible_width_is_refused_with_the_widths_that_work():
    with pytest.raises(
        ValueError, match=r"^n_heads=6 does not divide d_model=128; choose 1, 2, 4, 8, 16"
    ):
        MultiHeadSelfAttention(d_model=128, n_heads=6)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("keys", [1, 9, 15, 16, 33, 60])
def test_written_out_attention_equals_the_fused_kernel(monkeypatch, masked, keys):
    torch.manual_seed(0)
    q, k, v = (torch.randn(3, 2, keys, 8) for _ in range(3))
    mask = torch.rand(3, 1, 1, keys) < 0.7 if masked else None
    if mask is not None:
        mask[..., 0] = True
    monkeypatch.setattr(attention, "_written_out_is_faster", lambda q, k: False)
    fused = attention.attend(q, k, v, mask)
    monkeypatch.setattr(attention, "_written_out_is_faster", lambda q, k: True)
    torch.testing.assert_close(attention.attend(q, k, v, mask), fused)


@pytest.mark.parametrize("has_avx512", [False, True])
def test_attention_is_written_out_where_it_pays(monkeypatch, has_avx512):
    monkeypatch.setattr(attention, "_HAS_AVX512", has_avx512)
    q, grad = torch.randn(2, 2, 30, 8), torch.enable_grad
    with torch.no_grad():
        assert attention._written_out_is_faster(q, q) == has_avx512
        assert not attention._written_out_is_faster(q, torch.randn(2, 2, 300, 8))
    with grad():
        assert not attention._written_out_is_faster(q, q)
        assert attention._written_out_is_faster(q.bfloat16(), q.bfloat16())
        with torch.autocast("cpu", torch.bfloat16):
            assert attention._written_out_is_faster(q, q)
    assert not attention._written_out_is_faster(q.to("meta"), q.to("meta"))


def test_a_row_that_sees_nothing_stays_finite(monkeypatch):
    q, k, v = (torch.randn(2, 2, 5, 8) for _ in range(3))
    mask = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    mask[0] = False
    monkeypatch.setattr(attention, "_written_out_is_faster", lambda q, k: True)
    out = attention.attend(q, k, v, mask)
    assert out.isfinite().all()
    torch.testing.assert_close(out[1], attention.attend(q, k, v)[1])
