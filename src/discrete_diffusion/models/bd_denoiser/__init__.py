"""The denoiser of bubble diagrams, its embeddings, and its adapter to the backbone contract."""

from discrete_diffusion.models.bd_denoiser.adapter import BDDenoiserBackbone
from discrete_diffusion.models.bd_denoiser.denoiser import (
    BDDenoiser,
    CompositePositionalEncoding,
    EdgeEmbedding,
    NodeEmbedding,
)
from discrete_diffusion.models.blocks.transformer import TimestepEmbedder as TimestepEmbedding

__all__ = [
    "BDDenoiser",
    "BDDenoiserBackbone",
    "CompositePositionalEncoding",
    "EdgeEmbedding",
    "NodeEmbedding",
    "TimestepEmbedding",
]
