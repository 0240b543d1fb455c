"""Discrete diffusion in PyTorch: backbones that predict clean data, plugged in by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from discrete_diffusion.runtime.version import __version__

if TYPE_CHECKING:
    from discrete_diffusion.api.loading import evaluate, load
    from discrete_diffusion.api.loading import load as from_pretrained
    from discrete_diffusion.runs import compare, train

__all__ = ["__version__", "compare", "evaluate", "from_pretrained", "load", "train"]


_MODULES = {
    "compare": "discrete_diffusion.runs",
    "evaluate": "discrete_diffusion.api.loading",
    "from_pretrained": "discrete_diffusion.api.loading",
    "load": "discrete_diffusion.api.loading",
    "train": "discrete_diffusion.runs",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, as torch comes with it; ``from_pretrained`` is
    the name that the Hub's users know ``load`` by."""
    if name in _MODULES:
        attribute = "load" if name == "from_pretrained" else name
        return getattr(import_module(_MODULES[name]), attribute)
    raise AttributeError(f"module 'discrete_diffusion' has no attribute {name!r}")
