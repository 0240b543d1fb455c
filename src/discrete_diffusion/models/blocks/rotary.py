"""Rotary position embedding (Su et al., arXiv 2104.09864)."""

from __future__ import annotations

import math

import torch
from torch import Tensor


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
