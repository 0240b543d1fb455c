"""The command line, and ``compose`` for the same configs from Python."""

from discrete_diffusion.cli.main import main
from discrete_diffusion.composing.compose import compose
from discrete_diffusion.config.files import config_dir

__all__ = ["compose", "config_dir", "main"]
