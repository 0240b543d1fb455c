"""Configs of this package, on Hydra's search path."""
