"""Self- and cross-attention with rotary positions, against complex numbers and head by head."""

import pytest
import torch

from discrete_diffusion.models.attention import RotaryEmbedding
from discrete_diffusion.models.transformer import MultiHeadCrossAttention, MultiHeadSelfAttention

B, L, N, D, C, H = 2, 5, 3, 24, 10, 4
d = D // H


def turned(x: torch.Tensor, position: int, base: float) -> torch.Tensor:
    """One head of one position, Float[d]: pairs (k, k + d/2) as complex numbers times a phase."""
    angle = position * base ** (-torch.arange(d // 2, dtype=torch.float64) * 2 / d)
    spun = torch.complex(x[: d // 2], x[d // 2 :]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([spun.real, spun.imag])


def heads_attend(q, k, v, seen, base):
    """q (B, L, D), k and v (B, N, D), seen Bool[B, N], query by query and head by head."""
    mixed = torch.zeros_like(q)
    for b in range(len(q)):
        keys = seen[b].nonzero().flatten().tolist()
        for part in torch.arange(D).split(d):
            ks = torch.stack([turned(k[b, j, part], j, base) for j in keys])
            for i in range(q.shape[1]):
                weights = (ks @ turned(q[b, i, part], i, base) / d**0.5).softmax(0)
                mixed[b, i, part] = weights @ v[b, keys][:, part]
    return mixed


def test_rotary_self_attention_equals_complex_numbers():
    torch.manual_seed(0)
    attention = MultiHeadSelfAttention(d_model=D, n_heads=H).double()
    rotary = RotaryEmbedding(d_model=D, n_heads=H, base=100.0)
    x = torch.randn(B, L, D, dtype=torch.float64)
    q, k, v = (attention.qkv(x)[..., s] for s in torch.arange(3 * D).split(D))
    expected = attention.out(heads_attend(q, k, v, torch.ones(B, L, dtype=torch.bool), 100.0))
    found = attention(x, rotary=rotary(torch.arange(L)))
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    assert (attention(x) - expected).abs().max() > 1e-3  # positions count


@pytest.mark.parametrize("masked", [False, True])
def test_rotary_cross_attention_equals_complex_numbers(masked):
    torch.manual_seed(0)
    attention = MultiHeadCrossAttention(d_model=D, context_dim=C, n_heads=H).double()
    rotary = RotaryEmbedding(d_model=D, n_heads=H, base=100.0)
    x, context = (torch.randn(B, n, m, dtype=torch.float64) for n, m in ((L, D), (N, C)))
    seen = torch.ones(B, N, dtype=torch.bool)
    seen[1, 0] = not masked
    k, v = attention.key_value(context)[..., :D], attention.key_value(context)[..., D:]
    expected = attention.out(heads_attend(attention.query(x), k, v, seen, 100.0))
    tables = {"rotary": rotary(torch.arange(L)), "context_rotary": rotary(torch.arange(N))}
    mask = seen[:, None, None, :] if masked else None
    torch.testing.assert_close(attention(x, context, mask, **tables), expected, atol=1e-6, rtol=0)
    assert (attention(x, context, mask) - expected).abs().max() > 1e-3


def test_widths_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="an even width per head; 12 over n_heads=4 is 3"):
        RotaryEmbedding(d_model=12, n_heads=4)
    with pytest.raises(ValueError, match="n_heads=5 does not divide d_model=12; choose 1, 2, 3, 4"):
        MultiHeadCrossAttention(d_model=12, context_dim=6, n_heads=5)
