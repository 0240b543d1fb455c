"""Margin order: the positions whose two likeliest tokens are furthest apart come first."""

from __future__ import annotations

from discrete_diffusion.sampling.unmasking import EvenUnmasking


class Margin(EvenUnmasking):
    """Score: the largest less the second largest probability of D (Kim et al., arXiv 2502.06768).
    It reads the distributions alone: exact one token per call, where D is."""

    name = order = "margin"
