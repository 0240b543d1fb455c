"""The gated perceptron of a transformer block (Shazeer, arXiv 2002.05202)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class SwiGLU(nn.Module):
    """down(dropout(SiLU(a) * b)) with (a, b) = up(x), each of width ``mlp_ratio * d_model``.

    Deviation: both halves have the full width, not two thirds of it as in the paper, and biases.
    """

    def __init__(self, *, d_model: int, mlp_ratio: float = 4, dropout: float = 0.0) -> None:
        super().__init__()
        hidden = int(mlp_ratio * d_model)
        if hidden < 1:
            raise ValueError(f"mlp_ratio={mlp_ratio} leaves no hidden unit at d_model={d_model}")
        self.up = nn.Linear(d_model, 2 * hidden)
        self.dropout = nn.Dropout(dropout)
        self.down = nn.Linear(hidden, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., D)."""
        gate, value = self.up(x).chunk(2, dim=-1)
        return self.down(self.dropout(F.silu(gate) * value))
