"""Samplers of rows of numbers, fields and latents."""
