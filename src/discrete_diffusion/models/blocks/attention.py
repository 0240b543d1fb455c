"""Multi-head self attention."""

from __future__ import annotations

import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from discrete_diffusion.models.blocks.cache import LayerCache
from discrete_diffusion.models.blocks.rotary import apply_rotary
from discrete_diffusion.models.blocks.visibility import causal_mask


class MultiHeadSelfAttention(nn.Module):
    """softmax(q k^T / sqrt(d)) v over H heads, with one fused projection for q, k and v.

    ``causal``: position l sees positions <= l only.
    Raises ``ValueError`` if ``n_heads`` does not divide ``d_model``.
    """

    def __init__(
        self, *, d_model: int, n_heads: int, bias: bool = True, causal: bool = False
    ) -> None:
        super().__init__()
        if n_heads < 1 or d_model % n_heads:
            divisors = ", ".join(str(k) for k in range(1, d_model + 1) if d_model % k == 0)
            raise ValueError(
                f"n_heads={n_heads} does not divide d_model={d_model}; choose {divisors}"
            )
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
        all may. ``rotary``: the tables of ``rotary_tables`` for the L positions.
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
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.out(rearrange(attended, "b h l d -> b l (h d)"))
