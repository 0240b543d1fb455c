"""Confidence order: the tokens that the network is surest of come first."""

from __future__ import annotations

from discrete_diffusion.sampling.unmasking import EvenUnmasking


class Confidence(EvenUnmasking):
    """Score: the probability that D gives to the token drawn (MaskGIT, arXiv 2202.04200; LLaDA,
    arXiv 2502.09992). It reads drawn tokens, so that likely ones get in earlier than they should:
    the samples are those of a sharpened model, even one token per call. With a narrowed ``support``
    the order reads narrowed draws, and ``log_weights`` do not undo the tilt."""

    name = order = "confidence"
