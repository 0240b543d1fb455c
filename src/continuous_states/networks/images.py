"""Blocks on images: modulated by time and condition, and attending to tokens."""

from __future__ import annotations

import math

import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from discrete_diffusion.config import check_divides
from discrete_diffusion.models import MultiHeadCrossAttention, modulate, zeroed


class ConditionalResBlock(nn.Module):
    """A residual block of two convolutions, steered by time and condition on separate paths:
    feature-wise linear modulation (Perez et al., arXiv 1709.07871).

        scale, shift = time_cond(SiLU(time_emb)) + ctx_cond(SiLU(cond_emb))      each (B, C', 1, 1)
        h = conv1(SiLU(norm1(x)))
        h = conv2(dropout(SiLU(norm2(h) * (1 + scale) + shift)))
        x <- (skip(x) + h) / sqrt(2)

    ``ctx_cond`` starts at 0: at first the condition changes nothing. ``skip`` is a convolution with
    kernels of one pixel if C' differs from C, else the identity. ``groups``: of both group norms.

    Raises ``ValueError`` if ``groups`` does not divide C and C'.
    """

    def __init__(
        self,
        *,
        in_channels: int,
        out_channels: int,
        emb_dim: int,
        groups: int = 32,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.norm1 = group_norm(groups, in_channels)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.time_cond = nn.Linear(emb_dim, 2 * out_channels)
        self.ctx_cond = zeroed(nn.Linear(emb_dim, 2 * out_channels))
        self.norm2 = group_norm(groups, out_channels)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1)
        self.skip: nn.Module = nn.Identity()
        if in_channels != out_channels:
            self.skip = nn.Conv2d(in_channels, out_channels, 1)

    def time_film(self, time_emb: Tensor) -> Tensor:
        """Terms of scale and shift from time: (B or 1, emb_dim) -> (B or 1, 2 C')."""
        return self.time_cond(F.silu(time_emb))

    def cond_film(self, cond_emb: Tensor) -> Tensor:
        """Terms of scale and shift from the condition: (B or 1, emb_dim) -> (B or 1, 2 C')."""
        return self.ctx_cond(F.silu(cond_emb))

    def forward(self, x: Tensor, time_emb: Tensor, cond_emb: Tensor) -> Tensor:
        """x (B, C, H, W), both embeddings (B or 1, emb_dim) -> (B, C', H, W)."""
        film = self.time_film(time_emb) + self.cond_film(cond_emb)
        scale, shift = rearrange(film, "b (two c) -> two b c 1 1", two=2).unbind(0)
        h = self.conv1(F.silu(self.norm1(x)))
        h = F.silu(modulate(self.norm2(h), shift, scale))
        h = self.conv2(self.dropout(h))
        return (self.skip(x) + h) / math.sqrt(2)


class CrossAttention(MultiHeadCrossAttention):
    """x + attention(norm(x), token_norm(tokens)): pixels that attend to the tokens of a condition.

    ``out`` starts at 0, so the block starts as the identity.

    Raises ``ValueError`` if ``n_heads`` or ``groups`` does not divide ``channels``.
    """

    def __init__(self, *, channels: int, token_dim: int, n_heads: int, groups: int = 32) -> None:
        check_divides(n_heads, channels, f"{channels} channels")
        super().__init__(d_model=channels, context_dim=token_dim, n_heads=n_heads)
        self.norm = group_norm(groups, channels)
        self.token_norm = nn.LayerNorm(token_dim)
        zeroed(self.out)

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


def group_norm(groups: int, channels: int) -> nn.GroupNorm:
    """``nn.GroupNorm``, refused with the numbers of groups that would do."""
    check_divides(groups, channels, f"{channels} channels", key="groups")
    return nn.GroupNorm(groups, channels)
