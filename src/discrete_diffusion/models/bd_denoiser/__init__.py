"""The denoiser of bubble diagrams and its adapter to the backbone contract."""

from discrete_diffusion.models.bd_denoiser.adapter import BDDenoiserBackbone
from discrete_diffusion.models.bd_denoiser.denoiser import BDDenoiser

__all__ = ["BDDenoiser", "BDDenoiserBackbone"]
