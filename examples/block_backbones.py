"""Two backbones for ``algo=bd3lm``, which generates a sequence block after block.

``BlockTransformer`` takes ``group_idxs``, the block of each token, and is shown one block a call.
``ContextTransformer`` also takes ``context``, the clean sequence, so that one call trains all
blocks. Axes: B samples, L positions, V ids, D width.

    discrete-diffusion train plugins=[block_backbones] algo=bd3lm algo.backbone=context-transformer
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from omegaconf import DictConfig
from torch import Tensor, nn

from discrete_diffusion.domains import build_layout
from discrete_diffusion.models import register_backbone

SIZES = {"width": 32, "n_heads": 4, "scales_with": "width"}


class Transformer(nn.Module):
    """Embeddings, two encoder layers of PyTorch, a head."""

    def __init__(self, *, vocab_size: int, length: int, width: int, n_heads: int, pad_id: int):
        super().__init__()
        self.pad_id = pad_id
        self.token_emb = nn.Embedding(vocab_size, width)
        self.pos_emb = nn.Parameter(0.02 * torch.randn(1, length, width))
        self.time_mlp = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, width))
        layer = nn.TransformerEncoderLayer(width, n_heads, 4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocab_size)

    def embed(self, tokens: Tensor, sigma: Tensor | None) -> Tensor:
        """(B, K L, D) of K copies of the positions."""
        copies = tokens.shape[1] // self.pos_emb.shape[1]
        x = self.token_emb(tokens) + self.pos_emb.repeat(1, copies, 1)
        return x if sigma is None else x + self.time_mlp(sigma.view(-1, 1, 1))


class BlockTransformer(Transformer):
    """Which block a token is in says what may see what."""

    def forward(self, x_t: Tensor, group_idxs: Tensor, sigma: Tensor | None) -> Tensor:
        groups = group_idxs[0]  # (L,), the blocks of a layout are those of every sample
        later = groups[None, :] > groups[:, None]  # (L, L), True is not seen
        x = self.embed(x_t, sigma)
        x = self.encoder(x, mask=later, src_key_padding_mask=x_t == self.pad_id)
        return self.head(x)  # (B, L, V)


class ContextTransformer(Transformer):
    """The clean tokens stand behind the noisy ones, 2L positions."""

    def forward(
        self,
        x_t: Tensor,
        sigma: Tensor | None = None,
        *,
        group_idxs: Tensor,
        context: Tensor | None = None,
    ) -> Tensor:
        clean = x_t if context is None else context  # samplers give None: earlier blocks are clean
        tokens = torch.cat([x_t, clean], dim=1)  # (B, 2L)
        query, key = group_idxs[0][:, None], group_idxs[0][None, :]
        # noisy tokens see their own block and earlier clean blocks; clean ones see clean ones
        from_noisy = torch.cat([key == query, key < query], dim=1)  # (L, 2L)
        from_clean = torch.cat([torch.zeros_like(key == query), key <= query], dim=1)
        unseen = ~torch.cat([from_noisy, from_clean])  # (2L, 2L)
        x = self.embed(tokens, sigma)
        x = self.encoder(x, mask=unseen, src_key_padding_mask=tokens == self.pad_id)
        return self.head(x[:, : x_t.shape[1]])  # (B, L, V)


def builder(network: type[Transformer]) -> Callable[[DictConfig, int], Transformer]:
    """What builds ``network`` from a config."""

    def build(config: DictConfig, vocab_size: int) -> Transformer:
        layout = build_layout(config.data)
        return network(
            vocab_size=vocab_size,
            length=layout.length,
            pad_id=layout.pad_id,
            width=config.model.width,
            n_heads=config.model.n_heads,
        )

    return build


register_backbone("block-transformer", default_model=SIZES)(builder(BlockTransformer))
register_backbone("context-transformer", conditions=("group_idxs", "context"), default_model=SIZES)(
    builder(ContextTransformer)
)
