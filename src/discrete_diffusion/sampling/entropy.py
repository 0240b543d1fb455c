"""Entropy order: the positions of the least doubt come first."""

from __future__ import annotations

from discrete_diffusion.sampling.unmasking import EvenUnmasking


class Entropy(EvenUnmasking):
    """Score: minus the entropy of D (Ye et al., arXiv 2508.15487). It reads the distributions
    alone: exact one token per call, where D is."""

    name = order = "entropy"
