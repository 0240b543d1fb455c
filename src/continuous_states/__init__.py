"""Rows of numbers, fields and latents of texts as states: a plug-in of ``discrete_diffusion``."""
