"""Bubble diagrams: floor plans as rooms and the spatial relations between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discrete_diffusion.data.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.data.bubble_diagrams.partial import PartialDiagram
from discrete_diffusion.data.bubble_diagrams.partial_reader import read_partials
from discrete_diffusion.data.bubble_diagrams.readers import read_diagrams
from discrete_diffusion.data.bubble_diagrams.tokens import decode, encode
from discrete_diffusion.data.bubble_diagrams.writers import write_diagrams

if TYPE_CHECKING:
    from discrete_diffusion.data.bubble_diagrams.generator import generate_plans

__all__ = [
    "BubbleDiagram",
    "PartialDiagram",
    "decode",
    "encode",
    "generate_plans",
    "read_diagrams",
    "read_partials",
    "write_diagrams",
]


def __getattr__(name: str) -> Any:
    """Load the plan generator when it is first asked for."""
    if name == "generate_plans":
        from discrete_diffusion.data.bubble_diagrams.generator import generate_plans

        return generate_plans
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
