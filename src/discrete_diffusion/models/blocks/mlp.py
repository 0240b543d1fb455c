"""The two-layer perceptron of a transformer block."""

from __future__ import annotations

from torch import Tensor, nn


class MLP(nn.Module):
    """Linear(GELU(Linear(x))), the exact GELU, hidden width ``mlp_ratio * d_model``."""

    def __init__(self, *, d_model: int, mlp_ratio: float = 4) -> None:
        super().__init__()
        hidden = int(mlp_ratio * d_model)
        if hidden < 1:
            raise ValueError(f"mlp_ratio={mlp_ratio} leaves no hidden unit at d_model={d_model}")
        self.up = nn.Linear(d_model, hidden)
        self.activation = nn.GELU()
        self.down = nn.Linear(hidden, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., D)."""
        return self.down(self.activation(self.up(x)))
