"""Normalisation by the root mean square (Zhang & Sennrich, arXiv 1910.07467)."""

from __future__ import annotations

from torch import nn


class RMSNorm(nn.RMSNorm):
    """x / sqrt(mean(x^2) + eps) * weight over the last axis; ``weight`` (D,) starts at 1."""

    def __init__(self, *, d_model: int, eps: float = 1e-6) -> None:
        super().__init__(d_model, eps=eps)
