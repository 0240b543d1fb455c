"""The backbone ``my_project``: replace the network, keep the builder."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from discrete_diffusion.domains import build_layout
from discrete_diffusion.models import register_backbone


class Network(nn.Module):
    """Noisy ids and the noise level in, a score for every id at every position out.

    x = token(x_t) + place + time(sigma)                             (B, L, D)
    logits = head(encoder(x))                                        (B, L, V)
    """

    def __init__(
        self, *, vocab_size: int, length: int, pad_id: int | None, width: int, n_layers: int
    ) -> None:
        super().__init__()
        self.pad_id = pad_id
        self.token = nn.Embedding(vocab_size, width)
        self.place = nn.Parameter(0.02 * torch.randn(1, length, width))
        self.time = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, width))
        layer = nn.TransformerEncoderLayer(
            width, nhead=4, dim_feedforward=4 * width, dropout=0.0, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocab_size)

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        """x_t Int[B, L], sigma Float[B] or None -> logits Float[B, L, V]."""
        x = self.token(x_t) + self.place
        if sigma is not None:
            x = x + self.time(sigma.to(x.dtype).view(-1, 1, 1))
        padding = None if self.pad_id is None else x_t == self.pad_id  # PAD is no key
        logits: Tensor = self.head(self.encoder(x, src_key_padding_mask=padding))
        if self.pad_id is not None:
            logits[..., self.pad_id] = -1e9  # and no prediction
        return logits


@register_backbone("my_project", default_model="my_project")
def build(config: Any, vocab_size: int) -> nn.Module:
    layout = build_layout(config.data)
    return Network(
        vocab_size=vocab_size,
        length=layout.length,
        pad_id=layout.pad_id,
        width=config.model.width,
        n_layers=config.model.n_layers,
    )
