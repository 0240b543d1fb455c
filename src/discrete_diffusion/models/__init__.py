"""Backbones: networks that predict clean data from noisy data, exchangeable by name."""
