"""Networks on rows of numbers, on fields, and from text to text; importing them imports torch."""

from __future__ import annotations

from continuous_states.networks import latent_space, text_models
from continuous_states.networks.dtn_unet import DtNEncoder, DtNRegressor, DtNUNet, FilmUNetTokens
from continuous_states.networks.film_unet import FiLMUNet
from continuous_states.networks.get_region import GetRegion

__all__ = [
    "DtNEncoder",
    "DtNRegressor",
    "DtNUNet",
    "FiLMUNet",
    "FilmUNetTokens",
    "GetRegion",
    "latent_space",
    "text_models",
]
