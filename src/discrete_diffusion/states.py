"""What samples are made of."""

STATES = ("tokens", "features", "field", "latent")
"""Ids per position, rows of numbers, images, latent vectors: data, algorithm and backbone agree."""
