"""Discrete diffusion in PyTorch: backbones that predict clean data, plugged in by name."""

__version__ = "0.1.0"
