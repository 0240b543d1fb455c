"""The command line, and ``compose`` for the same configs from Python."""

from discrete_diffusion.cli.compose import compose, config_dir
from discrete_diffusion.cli.main import main

__all__ = ["compose", "config_dir", "main"]
