"""Attention to the tokens of something else: of sequences, and of pixels."""

from __future__ import annotations

from einops import rearrange
from torch import Tensor, nn

from discrete_diffusion.models.blocks.attention import attend, check_heads
from discrete_diffusion.models.blocks.film import group_norm
from discrete_diffusion.models.blocks.rotary import apply_rotary


class MultiHeadCrossAttention(nn.Module):
    """softmax(q k^T / sqrt(d)) v over H heads: queries of x, keys and values of a context.

    Raises ``ValueError`` if ``n_heads`` does not divide ``d_model``.
    """

    def __init__(self, *, d_model: int, context_dim: int, n_heads: int) -> None:
        super().__init__()
        check_heads(n_heads, d_model, f"d_model={d_model}")
        self.n_heads = n_heads
        self.query = nn.Linear(d_model, d_model)
        self.key_value = nn.Linear(context_dim, 2 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(
        self,
        x: Tensor,
        context: Tensor,
        mask: Tensor | None = None,
        rotary: tuple[Tensor, Tensor] | None = None,
        context_rotary: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """x (B, L, D), context (B, N, D') -> (B, L, D).

        ``mask``: Bool[B, 1, 1, N] or Bool[B or 1, 1, L, N], True where a key may be seen; None if
        all may. ``rotary``, ``context_rotary``: tables of the L and of the N positions.
        """
        q = rearrange(self.query(x), "b l (h d) -> b h l d", h=self.n_heads)
        k, v = rearrange(
            self.key_value(context), "b n (two h d) -> two b h n d", two=2, h=self.n_heads
        ).unbind(0)
        if rotary is not None:
            q = apply_rotary(q, rotary)
        if context_rotary is not None:
            k = apply_rotary(k, context_rotary)
        return self.out(rearrange(attend(q, k, v, mask), "b h l d -> b l (h d)"))


class CrossAttention(MultiHeadCrossAttention):
    """x + attention(norm(x), token_norm(tokens)): pixels that attend to the tokens of a condition.

    ``out`` starts at 0, so the block starts as the identity.

    Raises ``ValueError`` if ``n_heads`` or ``groups`` does not divide ``channels``.
    """

    def __init__(self, *, channels: int, token_dim: int, n_heads: int, groups: int = 32) -> None:
        check_heads(n_heads, channels, f"{channels} channels")
        super().__init__(d_model=channels, context_dim=token_dim, n_heads=n_heads)
        self.norm = group_norm(groups, channels)
        self.token_norm = nn.LayerNorm(token_dim)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(  # type: ignore[override]  # images in, images out
        self, x: Tensor, tokens: Tensor, keep: Tensor | None = None
    ) -> Tensor:
        """x (B, C, H, W), tokens (B, N, D) -> (B, C, H, W).

        ``keep``: Bool[B], False where a sample is left as it is.
        """
        pixels = rearrange(self.norm(x), "b c h w -> b (h w) c")
        branch = super().forward(pixels, self.token_norm(tokens))
        branch = rearrange(branch, "b (h w) c -> b c h w", h=x.shape[2])
        if keep is not None:
            branch = branch.masked_fill(~rearrange(keep, "b -> b 1 1 1"), 0.0)
        return x + branch
