"""Many states of a text, compressed to a few latent vectors."""

from __future__ import annotations

import torch
from einops import rearrange, repeat
from torch import Tensor, nn

from discrete_diffusion.models.blocks.attention import check_heads
from discrete_diffusion.models.blocks.cross_attention import MultiHeadCrossAttention
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.options import check_whole_number

POOLS = ("mean", "attention")

_SHARPNESS = 4.0
"""Deviation of the first attention logits over states of unit scale. A query then starts with a few
states; in the mean of all, a word that occurs once is hard to find."""


class LatentEncoder(nn.Module):
    """The states of an encoder, compressed to K latent vectors.

        pool=mean:       z = rearrange(W2 GELU(W1 mean_l states_l), "(k d) -> k d")
        pool=attention:  z_k = W2 GELU(W1 (q_k + attention(q_k, states))), K learned queries q

    ``hidden_dim``: width C of the states. ``num_heads``: of the attention.
    With ``mean``, all K vectors are functions of one vector of width C.

    Raises ``ValueError`` for another ``pool``, no latent vector, and if ``num_heads`` does not
    divide ``hidden_dim``.
    """

    def __init__(
        self,
        *,
        hidden_dim: int = 768,
        latent_dim: int = 256,
        latent_seq_len: int = 8,
        pool: str = "mean",
        num_heads: int = 4,
    ) -> None:
        super().__init__()
        if pool not in POOLS:
            raise ValueError(unknown_name("model.pool", str(pool), POOLS))
        check_whole_number("model.latent_seq_len", latent_seq_len, least=1)
        check_whole_number("model.latent_dim", latent_dim, least=1)
        self.hidden_dim, self.latent_dim = hidden_dim, latent_dim
        self.latent_seq_len, self.pool = latent_seq_len, pool
        width = latent_dim * latent_seq_len
        if pool == "attention":
            check_heads(
                num_heads,
                hidden_dim,
                f"model.encoder.hidden_size={hidden_dim}",
                key="model.num_heads",
            )
            self.queries = nn.Parameter(0.1 * torch.randn(latent_seq_len, hidden_dim))
            self.attention = MultiHeadCrossAttention(
                d_model=hidden_dim, context_dim=hidden_dim, n_heads=num_heads
            )
            with torch.no_grad():  # as they come, the weights make logits of deviation 0.1 / 3
                self.attention.query.weight.mul_(3 * _SHARPNESS / 0.1)
            width = latent_dim
        self.projection = nn.Sequential(
            nn.Linear(hidden_dim, hidden_dim), nn.GELU(), nn.Linear(hidden_dim, width)
        )

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """states Float[B, L, C], real Bool[B, L] -> latents Float[B, K, D].

        States at positions that are not real change nothing.
        """
        if self.pool == "mean":
            total = states.masked_fill(~real.unsqueeze(-1), 0.0).sum(dim=1)
            mean = total / real.sum(dim=1, keepdim=True).clamp(min=1)
            return rearrange(self.projection(mean), "b (k d) -> b k d", k=self.latent_seq_len)
        # A softmax over no keys is undefined: a text without tokens sees all of its padding.
        keys = real | ~real.any(dim=1, keepdim=True)
        queries = repeat(self.queries, "k c -> b k c", b=len(states))
        pooled = self.attention(queries, states, mask=rearrange(keys, "b l -> b 1 1 l"))
        return self.projection(queries + pooled)
