"""The denoiser of bubble diagrams that reasons over triples, with the adapter of the flat one."""

from discrete_diffusion.models.bd_denoiser_pair.denoiser import BDDenoiserPair

__all__ = ["BDDenoiserPair"]
