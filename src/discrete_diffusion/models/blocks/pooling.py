"""One vector out of many tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Pooled:
    """``vector`` Float[B, D]; ``weights`` Float[B, N] of the tokens, which sum to 1."""

    vector: Tensor
    weights: Tensor


class AttentionPooling(nn.Module):
    """A weighted sum of tokens, the weights made of the tokens themselves.

        w = softmax over the tokens of score(norm(x))                            (B, N)
        vector = sum_n w_n x_n                                                   (B, D)

    ``num_layers``: of ``score``: 1, a linear layer, or 2, Linear(GELU(Linear(x))).
    """

    def __init__(self, *, d_model: int, num_layers: int = 1) -> None:
        super().__init__()
        if num_layers not in (1, 2):
            raise ValueError(f"pool_layers={num_layers}: the scoring head has 1 layer or 2")
        self.norm = nn.LayerNorm(d_model)
        self.score: nn.Module = nn.Linear(d_model, 1)
        if num_layers == 2:
            self.score = nn.Sequential(nn.Linear(d_model, d_model), nn.GELU(), self.score)

    def forward(self, x: Tensor) -> Pooled:
        """x (B, N, D) -> the pooled vector and the weights."""
        weights = self.score(self.norm(x)).squeeze(-1).softmax(dim=-1)
        return Pooled(torch.einsum("bn,bnd->bd", weights.to(x.dtype), x), weights)
