"""Rotary position embedding (Su et al., arXiv 2104.09864)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class RotaryEmbedding(nn.Module):
    """Positions -> the tables that ``apply_rotary`` turns the queries and keys of a head with.

    Raises ``ValueError`` if the width of a head, ``d_model / n_heads``, is odd, or a base
    that is not positive.
    """

    def __init__(self, *, d_model: int, n_heads: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.head_dim, self.base = d_model // n_heads, base
        if not base > 0:
            raise ValueError(f"rope_base={base}: expected a number above 0")
        if self.head_dim % 2:
            raise ValueError(
                f"rotary positions need an even width per head; {d_model} over n_heads={n_heads} "
                f"is {self.head_dim}"
            )

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Int[L] -> (cos, sin), each Float[L, head_dim/2]."""
        return rotary_tables(positions, self.head_dim, self.base)


def rotary_tables(
    positions: Tensor, head_dim: int, base: float = 10_000.0
) -> tuple[Tensor, Tensor]:
    """Int[L] positions -> (cos, sin), each Float[L, head_dim/2], of the angles p base^(-2k/d)."""
    half = head_dim // 2
    exponent = torch.arange(half, device=positions.device, dtype=torch.float32) / half
    angle = positions.unsqueeze(-1) * torch.exp(-math.log(base) * exponent)  # (L, head_dim/2)
    return angle.cos(), angle.sin()


def apply_rotary(x: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
    """x (..., L, head_dim) with dimensions (k, k + head_dim/2) turned by their position's angle.

    The product of a rotated query and a rotated key depends on their distance only.
    """
    cos, sin = (table.to(x.dtype) for table in tables)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
