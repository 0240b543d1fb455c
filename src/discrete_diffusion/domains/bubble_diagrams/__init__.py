"""Bubble diagrams: floor plans as rooms and the spatial relations between them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram, Diagrams
    from discrete_diffusion.domains.bubble_diagrams.files.readers import (
        read_diagrams,
        read_partials,
    )
    from discrete_diffusion.domains.bubble_diagrams.files.writers import write_diagrams
    from discrete_diffusion.domains.bubble_diagrams.partial import PartialDiagram
    from discrete_diffusion.domains.bubble_diagrams.procedural.generator import generate_plans
    from discrete_diffusion.domains.bubble_diagrams.tokens import decode, encode

__all__ = [
    "BubbleDiagram",
    "Diagrams",
    "PartialDiagram",
    "decode",
    "encode",
    "generate_plans",
    "read_diagrams",
    "read_partials",
    "write_diagrams",
]

_MODULES = {
    "RPLAN_VOCAB_CONFIG": "tokens",
    "BubbleDiagram": "diagram",
    "Diagrams": "diagram",
    "PartialDiagram": "partial",
    "decode": "tokens",
    "encode": "tokens",
    "generate_plans": "procedural.generator",
    "read_diagrams": "files.readers",
    "read_partials": "files.readers",
    "write_diagrams": "files.writers",
}


def __getattr__(name: str) -> Any:
    """Import a module when a name of it is first asked for: a list of domains needs none."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
