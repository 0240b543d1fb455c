"""A transformer over plain token sequences: rotary positions, adaLN-Zero conditioning."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discrete_diffusion.categorical import neg_inf
from discrete_diffusion.models.blocks.adaln import AdaLNFinal, AdaLNZeroBlock, zero_linear
from discrete_diffusion.models.blocks.packing import ColumnPacking, pack_columns
from discrete_diffusion.models.blocks.rotary import rotary_tables
from discrete_diffusion.models.blocks.timestep import TimestepEmbedder, corrupted_share, process_t


class DiT(nn.Module):
    """Diffusion transformer (Peebles & Xie, arXiv 2212.09748) on tokens of any length.

        x = token_emb(x_t)                                               (B, L, D)
        c = SiLU(timestep_embedder(1 - exp(-sigma)))                     (B, cond_dim)
        x = block(x, c), with rotary queries and keys                    n_blocks times
        logits = head(final(x, c))                                       (B, L, V)

    ``causal``: position l sees positions <= l only, for autoregressive use.
    ``tie_word_embeddings``: the head shares the embedding's weights; otherwise it starts at 0.
    ``pad_id``: an id that is neither attended nor predicted; None if there is no such id.
    ``cond_dim``: width of c; None means ``hidden_size``.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        hidden_size: int,
        n_blocks: int,
        n_heads: int,
        cond_dim: int | None = None,
        mlp_ratio: float = 4,
        dropout: float = 0.1,
        frequency_embedding_size: int = 256,
        time_scale: float = 1000.0,
        causal: bool = False,
        tie_word_embeddings: bool = False,
        pad_id: int | None = None,
    ) -> None:
        super().__init__()
        cond_dim = hidden_size if cond_dim is None else cond_dim
        if pad_id is not None and not 0 <= pad_id < vocab_size:
            raise ValueError(f"pad_id={pad_id} is outside the vocabulary 0..{vocab_size - 1}")
        self.pad_id = pad_id
        self.token_embedding = nn.Embedding(vocab_size, hidden_size)
        self.timestep_embedder = TimestepEmbedder(
            d_model=cond_dim,
            frequency_embedding_size=frequency_embedding_size,
            time_scale=time_scale,
        )
        self.blocks = nn.ModuleList(
            AdaLNZeroBlock(
                d_model=hidden_size,
                n_heads=n_heads,
                cond_dim=cond_dim,
                mlp_ratio=mlp_ratio,
                dropout=dropout,
                causal=causal,
            )
            for _ in range(n_blocks)
        )
        self.head_dim = hidden_size // n_heads
        if self.head_dim % 2:
            raise ValueError(
                f"rotary positions need an even width per head; hidden_size={hidden_size} over "
                f"n_heads={n_heads} is {self.head_dim}"
            )
        self.final = AdaLNFinal(d_model=hidden_size, cond_dim=cond_dim)
        self.head = zero_linear(hidden_size, vocab_size)
        if tie_word_embeddings:
            # Small, or the first logits would have the scale of sqrt(hidden_size).
            nn.init.normal_(self.token_embedding.weight, std=0.02)
            self.head.weight = self.token_embedding.weight

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        """x_t Int[B, L], sigma Float[B] or None (read as 0) -> logits Float[B, L, V].

        Columns that are PAD in the whole batch are left out of the computation.
        """
        length = x_t.shape[1]
        packing = self._packing(x_t)
        x = self.token_embedding(packing.pack(x_t))  # (B, K, D)
        positions = packing.columns  # a column keeps its own position
        if positions is None:
            positions = torch.arange(length, device=x_t.device)
        rotary = rotary_tables(positions, self.head_dim)
        t = process_t(corrupted_share(sigma), len(x_t), x_t.device)
        c = F.silu(self.timestep_embedder(t))
        for block in self.blocks:
            x = block(x, c, packing.key_mask, rotary)
        logits = packing.unpack(self.head(self.final(x, c)))  # (B, L, V)
        if self.pad_id is not None:
            logits[..., self.pad_id] = neg_inf(logits.dtype)
        return logits

    def _packing(self, x_t: Tensor) -> ColumnPacking:
        if self.pad_id is None:
            return ColumnPacking.full(x_t.shape[1])
        return pack_columns(x_t != self.pad_id)
