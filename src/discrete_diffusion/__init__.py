"""Discrete diffusion in PyTorch: backbones that predict clean data, plugged in by name."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
