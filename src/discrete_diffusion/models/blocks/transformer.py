"""A pre-norm transformer block of RMSNorm, rotary attention and SwiGLU (arXiv 2302.13971)."""

from __future__ import annotations

from torch import Tensor, nn

from discrete_diffusion.models.blocks.attention import MultiHeadSelfAttention
from discrete_diffusion.models.blocks.rms_norm import RMSNorm
from discrete_diffusion.models.blocks.swiglu import SwiGLU


class TransformerBlock(nn.Module):
    """x <- x + dropout(attention(norm1(x))), x <- x + dropout(mlp(norm2(x)))."""

    def __init__(
        self, *, d_model: int, n_heads: int, mlp_ratio: float = 4, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.norm1 = RMSNorm(d_model=d_model)
        self.attention = MultiHeadSelfAttention(d_model=d_model, n_heads=n_heads)
        self.norm2 = RMSNorm(d_model=d_model)
        self.mlp = SwiGLU(d_model=d_model, mlp_ratio=mlp_ratio, dropout=dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """x (B, L, D) -> (B, L, D); ``rotary``: tables of the L positions."""
        x = x + self.dropout(self.attention(self.norm1(x), rotary=rotary))
        return x + self.dropout(self.mlp(self.norm2(x)))
