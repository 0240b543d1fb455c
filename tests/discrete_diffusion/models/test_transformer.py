"""Blocks steered by adaLN-Zero, and the embedded time."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
import torch.nn.functional as F

from discrete_diffusion.models import attention
from discrete_diffusion.models.attention import RotaryEmbedding, Visibility
from discrete_diffusion.models.transformer import (
    MLP,
    AdaLNFinal,
    AdaLNZeroBlock,
    MultiHeadCrossAttention,
    MultiHeadSelfAttention,
    TimestepEmbedder,
    corrupted_share,
    distinct_time,
    process_t,
    sinusoid,
)


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


def test_sinusoid_is_cosines_then_sines_of_the_formula():
    t = torch.tensor([0.0, 0.3, 7.0], dtype=torch.float64)
    waves = sinusoid(t, 8)
    for row, time in zip(waves, t.tolist(), strict=True):
        angles = [time * 10_000 ** (-k / 4) for k in range(4)]
        expected = [math.cos(a) for a in angles] + [math.sin(a) for a in angles]
        torch.testing.assert_close(row, torch.tensor(expected, dtype=torch.float64))


def test_embedder_applies_its_time_scale():
    torch.manual_seed(0)
    embedder = TimestepEmbedder(d_model=8, frequency_embedding_size=16, time_scale=10.0)
    t = torch.tensor([0.2, 0.7])
    torch.testing.assert_close(embedder(t), embedder.mlp(sinusoid(10.0 * t, 16)))


def test_embedder_keeps_the_sinusoid_in_float32_when_its_weights_are_not():
    embedder = TimestepEmbedder(d_model=8).to(torch.bfloat16)
    t = torch.tensor([0.999, 1.0])
    assert embedder(t).dtype == torch.bfloat16
    assert not torch.equal(*embedder(t))  # bfloat16 rounds 999 to 1000


def test_odd_frequency_embedding_is_refused():
    with pytest.raises(ValueError, match="frequency_embedding_size=7: expected an even number"):
        TimestepEmbedder(d_model=8, frequency_embedding_size=7)


def test_corrupted_share_is_exact_near_both_ends():
    assert corrupted_share(None) == 0.0
    sigma = torch.tensor([0.0, 1e-8, math.log(2), torch.inf])
    torch.testing.assert_close(corrupted_share(sigma), torch.tensor([0.0, 1e-8, 0.5, 1.0]))


@pytest.mark.parametrize(
    ("t", "expected"),
    [
        (1, [1.0] * 4),
        (torch.tensor(1), [1.0] * 4),
        (torch.tensor([0.3]), [0.3] * 4),
        (torch.tensor([0.1, 0.5, 0.9, 0.2]), [0.1, 0.5, 0.9, 0.2]),
    ],
)
def test_process_t_makes_one_time_per_sample(t, expected):
    torch.testing.assert_close(process_t(t, 4, "cpu"), torch.tensor(expected))


@pytest.mark.parametrize("t", [torch.tensor([0.1, 0.2]), torch.zeros(4, 1), torch.zeros(0)])
def test_process_t_refuses_other_shapes(t):
    with pytest.raises(ValueError, match=r"t has shape .*; expected a number or a tensor"):
        process_t(t, 4, "cpu")


def test_a_time_that_all_samples_share_is_embedded_once():
    same, apart = torch.full((5,), 0.3), torch.tensor([0.3, 0.3, 0.4])
    assert torch.equal(distinct_time(same), same[:1])
    for kept in (apart, same[:1], same[:0], same.to("meta")):
        assert distinct_time(kept) is kept


# -- attention -------------------------------------------------------------------------------------


B, L, D, H = 3, 7, 16, 4


def turned(x: torch.Tensor, position: int, base: float | None) -> torch.Tensor:
    """One head of one position, Float[d]: pairs (k, k + d/2) as complex numbers times a phase."""
    if base is None:
        return x
    half = len(x) // 2
    angle = position * base ** (-torch.arange(half, dtype=torch.float64) / half)
    spun = torch.complex(x[:half], x[half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([spun.real, spun.imag])


def by_definition(q, k, v, seen, base=None):
    """q (B, L, D), k and v (B, N, D), seen Bool[B, L, N], query by query and head by head."""
    mixed = torch.zeros_like(q)
    for b, i in product(range(len(q)), range(q.shape[1])):
        keys = seen[b, i].nonzero().flatten().tolist()
        for part in torch.arange(D).split(D // H):
            ks = torch.stack([turned(k[b, j, part], j, base) for j in keys])
            weights = (ks @ turned(q[b, i, part], i, base) / (D // H) ** 0.5).softmax(0)
            mixed[b, i, part] = weights @ v[b, keys][:, part]
    return mixed


@pytest.mark.parametrize(
    ("causal", "masked", "base"),
    [(False, False, None), (False, True, None), (True, True, None), (False, False, 100.0)],
)
def test_self_attention_equals_its_definition(causal, masked, base):
    torch.manual_seed(0)
    attention = MultiHeadSelfAttention(d_model=D, n_heads=H, causal=causal).double()
    x = torch.randn(B, L, D, dtype=torch.float64)
    real = torch.ones(B, L, dtype=torch.bool)
    if masked:
        real[0, 4:] = False
        real[1, ::2] = False
    seen = real[:, None, :].expand(B, L, L)
    if causal:
        seen = (seen & torch.ones(L, L).tril().bool()) | torch.eye(L).bool()
    mask = real[:, None, None, :] if masked else None
    rotary = None
    if base is not None:
        rotary = RotaryEmbedding(d_model=D, n_heads=H, base=base)(torch.arange(L))
    expected = attention.out(by_definition(*attention.qkv(x).chunk(3, dim=-1), seen, base))
    torch.testing.assert_close(attention(x, mask, rotary), expected, atol=1e-6, rtol=0)
    if base is not None:
        assert (attention(x) - expected).abs().max() > 1e-3  # positions count


@pytest.mark.parametrize("masked", [False, True])
def test_rotary_cross_attention_equals_complex_numbers(masked):
    torch.manual_seed(0)
    attention = MultiHeadCrossAttention(d_model=D, context_dim=10, n_heads=H).double()
    rotary = RotaryEmbedding(d_model=D, n_heads=H, base=100.0)
    x, context = (torch.randn(B, n, m, dtype=torch.float64) for n, m in ((L, D), (3, 10)))
    seen = torch.ones(B, 3, dtype=torch.bool)
    seen[1, 0] = not masked
    k, v = attention.key_value(context).chunk(2, dim=-1)
    every = seen[:, None].expand(-1, L, -1)
    expected = attention.out(by_definition(attention.query(x), k, v, every, 100.0))
    tables = {"rotary": rotary(torch.arange(L)), "context_rotary": rotary(torch.arange(3))}
    mask = seen[:, None, None, :] if masked else None
    torch.testing.assert_close(attention(x, context, mask, **tables), expected, atol=1e-6, rtol=0)
    assert (attention(x, context, mask) - expected).abs().max() > 1e-3


def test_widths_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="an even width per head; 12 over n_heads=4 is 3"):
        RotaryEmbedding(d_model=12, n_heads=4)
    with pytest.raises(ValueError, match="n_heads=5 does not divide d_model=12; choose 1, 2, 3, 4"):
        MultiHeadCrossAttention(d_model=12, context_dim=6, n_heads=5)


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
        long = torch.randn(2, 2, 600, 8).bfloat16()
        assert not attention._written_out_is_faster(q.bfloat16(), long)
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
