"""Multi-head self attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from discrete_diffusion.categorical import neg_inf
from discrete_diffusion.models.blocks.cache import LayerCache
from discrete_diffusion.models.blocks.rotary import apply_rotary
from discrete_diffusion.models.blocks.visibility import causal_mask

_MOST_KEYS_FLOAT32, _MOST_KEYS_BFLOAT16 = 48, 1024
"""Up to so many keys attention is written out on the CPU; its memory grows with their square. In
float32 only without gradients, for which every layer would keep its weights."""

_REGISTER_BYTES = 64
"""Of AVX-512."""


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Tensor:
    """softmax(q k^T / sqrt(d)) v: q (B, H, Q, d), k and v (B, H, K, d) -> (B, H, Q, d).

    ``mask``: broadcastable to (B, H, Q, K): Bool, True where a key may be seen, or Float, added to
    the scores; or ``causal``.

    PyTorch's fused kernel, except on the CPU, where it is the slower way in bfloat16, up to 1,024
    keys, and without gradients, up to 48 (``python benchmarks/speed.py``); never for ``causal``.
    """
    if causal or not _written_out_is_faster(q, k):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    scores = q @ (k * q.shape[-1] ** -0.5).transpose(-1, -2)  # (B, H, Q, K)
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, neg_inf(scores.dtype))
    elif mask is not None:
        scores = scores + mask
    return softmax_of_short_rows(scores) @ v


def softmax_of_short_rows(scores: Tensor) -> Tensor:
    """softmax over the last axis, (..., K) -> (..., K).

    PyTorch takes rows that do not fill a vector register number by number; those are filled up.
    """
    num = scores.shape[-1]
    missing = _REGISTER_BYTES // scores.element_size() - num
    if missing <= 0:
        return scores.softmax(dim=-1)
    return F.pad(scores, (0, missing), value=float("-inf")).softmax(dim=-1)[..., :num]


def _written_out_is_faster(q: Tensor, k: Tensor) -> bool:
    if q.device.type != "cpu":
        return False
    if q.dtype == torch.bfloat16 or torch.is_autocast_enabled("cpu"):
        return k.shape[2] <= _MOST_KEYS_BFLOAT16
    return k.shape[2] <= _MOST_KEYS_FLOAT32 and not torch.is_grad_enabled()


def check_heads(n_heads: int, width: int, what: str, *, key: str = "n_heads") -> None:
    """Raise ``ValueError`` with the numbers that would do, unless ``n_heads`` divides ``width``.

    ``what``, ``key``: what the width and the heads are called."""
    if n_heads < 1 or width % n_heads:
        divisors = ", ".join(str(k) for k in range(1, width + 1) if width % k == 0)
        raise ValueError(f"{key}={n_heads} does not divide {what}; choose {divisors}")


class MultiHeadSelfAttention(nn.Module):
    """softmax(q k^T / sqrt(d)) v over H heads, with one fused projection for q, k and v.

    ``causal``: position l sees positions <= l only.
    Raises ``ValueError`` if ``n_heads`` does not divide ``d_model``.
    """

    def __init__(
        self, *, d_model: int, n_heads: int, bias: bool = True, causal: bool = False
    ) -> None:
        super().__init__()
        check_heads(n_heads, d_model, f"d_model={d_model}")
        self.n_heads, self.causal = n_heads, causal
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.out = nn.Linear(d_model, d_model, bias=bias)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        rotary: tuple[Tensor, Tensor] | None = None,
        cache: LayerCache | None = None,
        num_queries: int | None = None,
    ) -> Tensor:
        """x (B, L, D) -> (B, Q, D), for the first Q = ``num_queries`` columns; None for all L.

        ``mask``: Bool[B, 1, 1, L] or Bool[B or 1, 1, Q, L], True where a key may be seen; None if
        all may; or Float[B, H, Q, L], added to the scores.
        ``rotary``: the tables of ``rotary_tables`` for the L positions.
        ``cache``: the columns read so far, seen by all of x; x is added to it. Without ``mask``.
        A causal layer takes all L columns as queries.
        """
        q, k, v = rearrange(
            self.qkv(x), "b l (three h d) -> three b h l d", three=3, h=self.n_heads
        ).unbind(0)
        if rotary is not None:
            q, k = apply_rotary(q, rotary), apply_rotary(k, rotary)
        if cache is not None:
            k, v = cache.extend(k, v)
        q = q[:, :, :num_queries]
        causal = self.causal and q.shape[2] > 1
        if causal and (mask is not None or q.shape[2] < k.shape[2]):
            mask = causal_mask(q.shape[2], k.shape[2], mask, device=q.device)
            causal = False
        attended = attend(q, k, v, mask, causal=causal)
        return self.out(rearrange(attended, "b h l d -> b l (h d)"))
