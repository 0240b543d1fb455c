"""Discrete diffusion in PyTorch: backbones that predict clean data, plugged in by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discrete_diffusion.runtime.version import __version__

if TYPE_CHECKING:
    from discrete_diffusion.loading import load
    from discrete_diffusion.loading import load as from_pretrained

__all__ = ["__version__", "from_pretrained", "load"]


def __getattr__(name: str) -> Any:
    """``load`` brings torch with it, so it is imported when first used; ``from_pretrained`` is
    the name that the Hub's users know it by."""
    if name in ("load", "from_pretrained"):
        from discrete_diffusion.loading import load

        return load
    raise AttributeError(f"module 'discrete_diffusion' has no attribute {name!r}")
