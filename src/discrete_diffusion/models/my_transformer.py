"""The worked example of ``docs/add_a_backbone.md``: a backbone made of PyTorch's own parts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discrete_diffusion.categorical import neg_inf
from discrete_diffusion.models.transformer import level_of, process_t


class MyTransformer(nn.Module):
    """``nn.TransformerEncoder`` over token and position embeddings plus a projection of sigma.

        x = token_emb(x_t) + pos_emb + time_mlp(sigma)                   (B, L, D)
        logits = head(encoder(x))                                        (B, L, V)

    ``length``: the longest sequence it can read.
    ``time_conditioning``: False leaves ``time_mlp`` out and ignores sigma.
    ``pad_id``: an id that is neither attended nor predicted; None if the data has none.

    Deviation: token embeddings start at std 0.02 when tied, so that the first logits are small.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        length: int,
        hidden_size: int,
        n_blocks: int,
        n_heads: int,
        mlp_ratio: float = 4,
        dropout: float = 0.1,
        time_conditioning: bool = True,
        tie_word_embeddings: bool = False,
        pad_id: int | None = None,
    ) -> None:
        super().__init__()
        if n_heads < 1 or hidden_size % n_heads:
            raise ValueError(f"n_heads={n_heads} does not divide hidden_size={hidden_size}")
        if pad_id is not None and not 0 <= pad_id < vocab_size:
            raise ValueError(f"pad_id={pad_id} is outside the vocabulary 0..{vocab_size - 1}")
        self.length, self.pad_id = length, pad_id

        # embedder
        self.token_emb = nn.Embedding(vocab_size, hidden_size)
        self.pos_emb = nn.Parameter(torch.randn(1, length, hidden_size))
        self.time_mlp = (
            nn.Sequential(nn.Linear(1, hidden_size), nn.SiLU(), nn.Linear(hidden_size, hidden_size))
            if time_conditioning
            else None
        )
        # blocks
        layer = nn.TransformerEncoderLayer(
            d_model=hidden_size,
            nhead=n_heads,
            dim_feedforward=int(mlp_ratio * hidden_size),
            dropout=dropout,
            batch_first=True,
        )
        self.encoder = nn.TransformerEncoder(layer, n_blocks, enable_nested_tensor=False)
        # head, which may share the weights of the embedding
        self.head = nn.Linear(hidden_size, vocab_size)
        if tie_word_embeddings:
            nn.init.normal_(self.token_emb.weight, std=0.02)
            self.head.weight = self.token_emb.weight

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        """x_t Int[B, L], sigma Float[B] or None -> logits Float[B, L, V]."""
        if x_t.shape[1] > self.length:
            raise ValueError(
                f"got {x_t.shape[1]} tokens; this model was built for at most {self.length}"
            )
        # embeddings of tokens, positions and the noise level
        x = self.token_emb(x_t) + self.pos_emb[:, : x_t.shape[1]]  # (B, L, D)
        if self.time_mlp is not None and sigma is not None:
            level = process_t(level_of(sigma), len(x_t), x_t.device).to(x.dtype)
            x = x + self.time_mlp(level.view(-1, 1)).unsqueeze(1)
        # a sample of nothing but PAD sees all of it: a softmax over no keys is undefined
        ignore = None
        if self.pad_id is not None:
            ignore = x_t == self.pad_id
            ignore = ignore & ~ignore.all(dim=1, keepdim=True)
        # logits, none for PAD
        logits = self.head(self.encoder(x, src_key_padding_mask=ignore))
        if self.pad_id is not None:
            logits[..., self.pad_id] = neg_inf(logits.dtype)
        return logits
