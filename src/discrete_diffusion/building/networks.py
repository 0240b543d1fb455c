"""The classes of all networks of ours: imported as one, with torch, when the first one is built."""

from __future__ import annotations

from discrete_diffusion.models import latent_space, text_models
from discrete_diffusion.models.bd_denoiser import BDDenoiser, BDDenoiserBackbone
from discrete_diffusion.models.bd_denoiser_pair import BDDenoiserPair
from discrete_diffusion.models.dit import DiT
from discrete_diffusion.models.dtn_encoder import DtNEncoder
from discrete_diffusion.models.dtn_regressor import DtNRegressor
from discrete_diffusion.models.dtn_unet import DtNUNet
from discrete_diffusion.models.film_unet import FiLMUNet
from discrete_diffusion.models.film_unet_tokens import FilmUNetTokens
from discrete_diffusion.models.get_region import GetRegion
from discrete_diffusion.models.mixtures import DiTMixture, GraphMixture
from discrete_diffusion.models.my_transformer import MyTransformer

__all__ = [
    "BDDenoiser",
    "BDDenoiserBackbone",
    "BDDenoiserPair",
    "DiT",
    "DiTMixture",
    "DtNEncoder",
    "DtNRegressor",
    "DtNUNet",
    "FiLMUNet",
    "FilmUNetTokens",
    "GetRegion",
    "GraphMixture",
    "MyTransformer",
    "latent_space",
    "text_models",
]
