"""Parts of discrete_diffusion; importing it registers them."""

from my_project import backbone

__all__ = ["backbone"]
