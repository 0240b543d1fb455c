"""The command line; ``compose`` makes the same configs in Python."""

from discrete_diffusion.cli.main import main
from discrete_diffusion.composing.compose import compose
from discrete_diffusion.config.files import config_dir

__all__ = ["compose", "config_dir", "main"]
