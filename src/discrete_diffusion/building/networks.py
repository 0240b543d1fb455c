"""The classes of all networks of ours: imported as one, with torch, when the first one is built."""

from __future__ import annotations

from discrete_diffusion.models.bd_denoiser import BDDenoiser, BDDenoiserBackbone
from discrete_diffusion.models.bd_denoiser_pair import BDDenoiserPair
from discrete_diffusion.models.dit import DiT
from discrete_diffusion.models.mixtures import DiTMixture, GraphMixture
from discrete_diffusion.models.my_transformer import MyTransformer

__all__ = [
    "BDDenoiser",
    "BDDenoiserBackbone",
    "BDDenoiserPair",
    "DiT",
    "DiTMixture",
    "GraphMixture",
    "MyTransformer",
]
