"""From latent vectors to embeddings that a decoder reads before the text."""

from __future__ import annotations

import torch
from einops import repeat
from torch import Tensor, nn

from discrete_diffusion.models.blocks.attention import check_heads
from discrete_diffusion.models.blocks.cross_attention import MultiHeadCrossAttention
from discrete_diffusion.models.blocks.rms_norm import RMSNorm
from discrete_diffusion.models.blocks.rotary import RotaryEmbedding
from discrete_diffusion.models.blocks.swiglu import SwiGLU
from discrete_diffusion.options import check_whole_number


class PrefixAdapter(nn.Module):
    """P learned queries that read K latent vectors, of the width E of a decoder.

        x = queries + dropout(attention(queries, z))                     (B, P, E)
        x <- x + dropout(swiglu(norm(x)))

    ``use_rope``: queries and latent vectors are turned by their index.

    Raises ``ValueError`` without a query, if ``num_heads`` does not divide ``decoder_dim``, or the
    width per head is odd and ``use_rope``.
    """

    def __init__(
        self,
        *,
        latent_dim: int = 256,
        decoder_dim: int = 640,
        prefix_len: int = 50,
        num_heads: int = 4,
        ffn_multiplier: float = 4,
        dropout: float = 0.1,
        use_rope: bool = True,
        rope_base: float = 10_000.0,
    ) -> None:
        super().__init__()
        check_whole_number("model.prefix_len", prefix_len, least=1)  # whose last predicts token 0
        check_heads(
            num_heads,
            decoder_dim,
            f"model.decoder.hidden_size={decoder_dim}",
            key="model.num_heads",
        )
        self.latent_dim, self.decoder_dim = latent_dim, decoder_dim
        self.queries = nn.Parameter(0.02 * torch.randn(prefix_len, decoder_dim))
        self.attention = MultiHeadCrossAttention(
            d_model=decoder_dim, context_dim=latent_dim, n_heads=num_heads
        )
        self.norm = RMSNorm(d_model=decoder_dim)
        self.mlp = SwiGLU(d_model=decoder_dim, mlp_ratio=ffn_multiplier, dropout=dropout)
        self.dropout = nn.Dropout(dropout)
        self.rotary = (
            RotaryEmbedding(d_model=decoder_dim, n_heads=num_heads, base=rope_base)
            if use_rope
            else None
        )

    def forward(self, latents: Tensor) -> Tensor:
        """Float[B, K, D] -> Float[B, P, E]."""
        x = repeat(self.queries, "p e -> b p e", b=len(latents))
        tables = context_tables = None
        if self.rotary is not None:
            tables = self.rotary(torch.arange(x.shape[1], device=x.device))
            context_tables = self.rotary(torch.arange(latents.shape[1], device=x.device))
        read = self.attention(x, latents, rotary=tables, context_rotary=context_tables)
        x = x + self.dropout(read)
        return x + self.dropout(self.mlp(self.norm(x)))
