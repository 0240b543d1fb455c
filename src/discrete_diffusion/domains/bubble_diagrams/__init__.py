"""Bubble diagrams: floor plans as rooms and the spatial relations between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.files.readers import read_diagrams, read_partials
from discrete_diffusion.domains.bubble_diagrams.files.writers import write_diagrams
from discrete_diffusion.domains.bubble_diagrams.partial import PartialDiagram
from discrete_diffusion.domains.bubble_diagrams.tokens import decode, encode
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams.procedural.generator import generate_plans

__all__ = [
    "RPLAN_VOCAB_CONFIG",
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
        from discrete_diffusion.domains.bubble_diagrams.procedural.generator import generate_plans

        return generate_plans
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
