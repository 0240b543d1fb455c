"""Attention against its definition, and every pair of columns that see each other."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch

from discrete_diffusion.models import attention
from discrete_diffusion.models.attention import Visibility
from discrete_diffusion.models.transformer import MultiHeadSelfAttention

B, L, D, H = 3, 7, 16, 4


def naive_attention(attention, x, allowed):
    """Attention as its definition says, one query at a time. ``allowed``: Bool[B, L, L]."""
    weight = attention.qkv.weight
    bias = attention.qkv.bias
    q, k, v = (x @ weight[s].T + bias[s] for s in torch.arange(3 * D).split(D))
    d, mixed = D // H, torch.zeros_like(x)
    for b in range(len(x)):
        for h in range(H):
            head = slice(h * d, (h + 1) * d)
            qs, ks, vs = q[b, :, head], k[b, :, head], v[b, :, head]
            for i in range(x.shape[1]):
                keys = [j for j in range(x.shape[1]) if allowed[b, i, j]]
                scores = torch.stack([qs[i] @ ks[j] / math.sqrt(d) for j in keys])
                mixed[b, i, head] = scores.softmax(0) @ vs[keys]
    return attention.out(mixed)


@pytest.mark.parametrize(("causal", "masked"), [(False, False), (False, True), (True, True)])
def test_attention_equals_its_definition(causal, masked):
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
    mask = real[:, None, None, :] if masked else None
    torch.testing.assert_close(attention(x, mask), naive_attention(attention, x, allowed))


@pytest.mark.parametrize(("keys", "masked"), [(1, True), (16, True), (33, False)])
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


K = 6
GROUPS = torch.tensor([[0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 2, 3]])
DOCUMENTS = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2]])
REAL = torch.tensor([[1, 1, 1, 1, 1, 0], [1, 1, 0, 1, 0, 0]]).bool()[:, None, None, :]
"""The last column of the first sample, and three of the second, are not to be seen."""


def sees(seen: Visibility, b: int, q: int, k: int) -> bool:
    """The docstring of ``Visibility``, one sentence after the other."""
    if q == k:
        return True
    place_q, place_k = q % K, k % K
    if seen.key_mask is not None and not seen.key_mask[b, 0, 0, place_k]:
        return False
    if seen.causal and k > q:
        return False
    if seen.documents is not None and seen.documents[b, place_q] != seen.documents[b, place_k]:
        return False
    if seen.groups is None:
        return True
    groups = seen.groups[b if len(seen.groups) > 1 else 0]
    own, other = groups[place_q], groups[place_k]
    if not seen.with_context:
        return bool(other <= own)
    if q < K:  # noisy
        return bool(other == own if k < K else other < own)
    return bool(k >= K and other <= own)


@pytest.mark.parametrize("mask", [None, REAL])
@pytest.mark.parametrize(
    ("groups", "documents", "causal", "with_context"),
    [
        (GROUPS, None, False, False),
        (GROUPS[1:], None, False, False),
        (None, DOCUMENTS, False, False),
        (None, DOCUMENTS, True, False),
        (GROUPS, DOCUMENTS, True, False),
        (GROUPS, None, False, True),
        (GROUPS[1:], DOCUMENTS, False, True),
    ],
)
def test_every_pair_of_columns(groups, documents, causal, with_context, mask):
    seen = Visibility(groups, documents, mask, causal, with_context)
    num_samples = max(len(each) for each in (groups, documents, mask) if each is not None)
    found, num = seen.mask(), K * (1 + with_context)
    assert found.shape == (num_samples, 1, num, num)
    for b, q, k in product(range(num_samples), range(num), range(num)):
        assert found[b, 0, q, k] == sees(seen, b, q, k), (b, q, k)
