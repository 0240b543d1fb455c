"""Pixels that attend to the tokens of a condition."""

from __future__ import annotations

from einops import rearrange
from torch import Tensor, nn

from discrete_diffusion.models.blocks.adaln import zero_linear
from discrete_diffusion.models.blocks.attention import attend
from discrete_diffusion.models.blocks.film import group_norm
from discrete_diffusion.models.blocks.linear import Linear


class CrossAttention(nn.Module):
    """x + out(softmax(q k^T / sqrt(d)) v) over H heads: queries of pixels, keys and values of
    tokens, both normalised before.

    ``out`` starts at 0, so the block starts as the identity.

    Raises ``ValueError`` if ``n_heads`` or ``groups`` does not divide ``channels``.
    """

    def __init__(self, *, channels: int, token_dim: int, n_heads: int, groups: int = 32) -> None:
        super().__init__()
        if n_heads < 1 or channels % n_heads:
            divisors = ", ".join(str(k) for k in range(1, channels + 1) if channels % k == 0)
            raise ValueError(
                f"n_heads={n_heads} does not divide {channels} channels; choose {divisors}"
            )
        self.n_heads = n_heads
        self.norm = group_norm(groups, channels)
        self.token_norm = nn.LayerNorm(token_dim)
        self.query = Linear(channels, channels)
        self.key_value = Linear(token_dim, 2 * channels)
        self.out = zero_linear(channels, channels)

    def forward(self, x: Tensor, tokens: Tensor, keep: Tensor | None = None) -> Tensor:
        """x (B, C, H, W), tokens (B, N, D) -> (B, C, H, W).

        ``keep``: Bool[B], False where a sample is left as it is.
        """
        height = x.shape[2]
        q = self.query(rearrange(self.norm(x), "b c h w -> b (h w) c"))
        q = rearrange(q, "b l (heads d) -> b heads l d", heads=self.n_heads)
        k, v = rearrange(
            self.key_value(self.token_norm(tokens)),
            "b n (two heads d) -> two b heads n d",
            two=2,
            heads=self.n_heads,
        ).unbind(0)
        branch = self.out(rearrange(attend(q, k, v), "b heads l d -> b l (heads d)"))
        branch = rearrange(branch, "b (h w) c -> b c h w", h=height)
        if keep is not None:
            branch = branch.masked_fill(~rearrange(keep, "b -> b 1 1 1"), 0.0)
        return x + branch
