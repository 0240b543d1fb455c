"""Algorithms on rows of numbers, fields and latents."""
