"""A transformer over latent vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discrete_diffusion.models.blocks.attention import check_heads
from discrete_diffusion.models.blocks.rotary import RotaryEmbedding
from discrete_diffusion.models.blocks.transformer import TransformerBlock
from discrete_diffusion.options import check_whole_number


class MiddleTransformer(nn.Module):
    """``num_layers`` blocks of RMSNorm, rotary attention and SwiGLU over the K latent vectors.

    No norm at the end. ``use_rope``: without it, permuted vectors give permuted vectors.

    Raises ``ValueError`` without a layer, if ``num_heads`` does not divide ``latent_dim``, or the
    width per head is odd and ``use_rope``.
    """

    def __init__(
        self,
        *,
        latent_dim: int = 256,
        num_layers: int = 4,
        num_heads: int = 4,
        ffn_multiplier: float = 4,
        dropout: float = 0.1,
        use_rope: bool = True,
        rope_base: float = 10_000.0,
    ) -> None:
        super().__init__()
        check_whole_number("model.num_layers", num_layers, least=1)
        check_heads(num_heads, latent_dim, f"model.latent_dim={latent_dim}", key="model.num_heads")
        self.latent_dim = latent_dim
        self.blocks = nn.ModuleList(
            TransformerBlock(
                d_model=latent_dim, n_heads=num_heads, mlp_ratio=ffn_multiplier, dropout=dropout
            )
            for _ in range(num_layers)
        )
        self.rotary = (
            RotaryEmbedding(d_model=latent_dim, n_heads=num_heads, base=rope_base)
            if use_rope
            else None
        )

    def forward(self, latents: Tensor) -> Tensor:
        """Float[B, K, D] -> Float[B, K, D]; samples do not see each other."""
        rotary = None
        if self.rotary is not None:
            rotary = self.rotary(torch.arange(latents.shape[1], device=latents.device))
        for block in self.blocks:
            latents = block(latents, rotary)
        return latents
