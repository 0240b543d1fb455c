"""Adaptive layer normalisation with zero initialisation (Peebles & Xie, arXiv 2212.09748)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discrete_diffusion.models.blocks.attention import MultiHeadSelfAttention
from discrete_diffusion.models.blocks.cache import LayerCache
from discrete_diffusion.models.blocks.mlp import MLP


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """x * (1 + scale) + shift, in one pass; x (B, L, D), shift and scale (B, 1, D)."""
    return torch.addcmul(shift, x, 1 + scale)


def zero_linear(in_features: int, out_features: int) -> nn.Linear:
    """A linear layer that starts as the constant 0."""
    linear = nn.Linear(in_features, out_features)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


class AdaLNZeroBlock(nn.Module):
    """A pre-norm transformer block steered by a conditioning vector c (B, cond_dim).

        shift1, scale1, gate1, shift2, scale2, gate2 = Linear(c)        each (B, 1, D)
        x <- x + gate1 * dropout(attention(modulate(norm1(x), shift1, scale1)))
        x <- x + gate2 * dropout(mlp(modulate(norm2(x), shift2, scale2)))

    The linear layer starts at 0, so the block starts as the identity.

    ``norm_affine``: both norms have a scale and a shift of their own, beside those made of c.
    """

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        cond_dim: int,
        mlp_ratio: float = 4,
        dropout: float = 0.1,
        causal: bool = False,
        norm_affine: bool = True,
        norm_eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model, eps=norm_eps, elementwise_affine=norm_affine)
        self.attention = MultiHeadSelfAttention(d_model=d_model, n_heads=n_heads, causal=causal)
        self.norm2 = nn.LayerNorm(d_model, eps=norm_eps, elementwise_affine=norm_affine)
        self.mlp = MLP(d_model=d_model, mlp_ratio=mlp_ratio)
        self.dropout = nn.Dropout(dropout)
        self.modulation = zero_linear(cond_dim, 6 * d_model)

    def forward(
        self,
        x: Tensor,
        c: Tensor,
        mask: Tensor | None = None,
        rotary: tuple[Tensor, Tensor] | None = None,
        cache: LayerCache | None = None,
        num_queries: int | None = None,
    ) -> Tensor:
        """x (B, L, D), c (B or 1, cond_dim) -> (B, Q, D) for the first Q = ``num_queries`` columns,
        None for all L; the rest as in the attention."""
        shift1, scale1, gate1, shift2, scale2, gate2 = (
            self.modulation(c).unsqueeze(1).chunk(6, dim=-1)
        )
        steered = modulate(self.norm1(x), shift1, scale1)
        branch = self.attention(steered, mask, rotary, cache, num_queries)
        x = torch.addcmul(x[:, :num_queries], gate1, self.dropout(branch))
        branch = self.mlp(modulate(self.norm2(x), shift2, scale2))
        return torch.addcmul(x, gate2, self.dropout(branch))


class AdaLNFinal(nn.Module):
    """modulate(norm(x), Linear(c)), the linear layer starting at 0; no residual, so no gate."""

    def __init__(self, *, d_model: int, cond_dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.modulation = zero_linear(cond_dim, 2 * d_model)

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        """x (B, L, D), c (B or 1, cond_dim) -> (B, L, D)."""
        shift, scale = self.modulation(c).unsqueeze(1).chunk(2, dim=-1)
        return modulate(self.norm(x), shift, scale)
