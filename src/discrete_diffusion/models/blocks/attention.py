"""Multi-head self attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from discrete_diffusion.models.blocks.rotary import apply_rotary


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
        key_mask: Tensor | None = None,
        rotary: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """x (B, L, D) -> (B, L, D).

        ``key_mask``: Bool[B, 1, 1, L], True where a key may be seen; None if all may.
        ``rotary``: the tables of ``rotary_tables`` for the L positions.
        """
        q, k, v = rearrange(
            self.qkv(x), "b l (three h d) -> three b h l d", three=3, h=self.n_heads
        ).unbind(0)
        if rotary is not None:
            q, k = apply_rotary(q, rotary), apply_rotary(k, rotary)
        mask, causal = key_mask, self.causal
        if mask is not None and causal:
            mask, causal = self._causal_mask(mask), False
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.out(rearrange(attended, "b h l d -> b l (h d)"))

    @staticmethod
    def _causal_mask(key_mask: Tensor) -> Tensor:
        """Bool[B, 1, 1, L] -> Bool[B, 1, L, L]: keys that are allowed and not in the future."""
        length = key_mask.shape[-1]
        square = torch.ones(length, length, dtype=torch.bool, device=key_mask.device)
        # A query always sees itself: without that, a PAD before every real token sees nothing.
        return (key_mask & square.tril()) | torch.eye(
            length, dtype=torch.bool, device=key_mask.device
        )
