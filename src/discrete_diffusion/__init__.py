"""Discrete diffusion in PyTorch: backbones that predict clean data, plugged in by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discrete_diffusion.loading import load

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def __getattr__(name: str) -> Any:
    """``load`` brings torch with it, so it is imported when first asked for."""
    if name == "load":
        from discrete_diffusion.loading import load

        return load
    raise AttributeError(f"module 'discrete_diffusion' has no attribute {name!r}")
