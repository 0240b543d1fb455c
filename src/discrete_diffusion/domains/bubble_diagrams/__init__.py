"""Bubble diagrams: floor plans as rooms and the spatial relations between them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
    from discrete_diffusion.domains.bubble_diagrams.diagram_list import Diagrams
    from discrete_diffusion.domains.bubble_diagrams.files.graph_formats import (
        from_graphml,
        from_networkx,
        to_graphml,
        to_networkx,
        to_node_link,
    )
    from discrete_diffusion.domains.bubble_diagrams.files.writers import write_diagrams
    from discrete_diffusion.domains.bubble_diagrams.partial import PartialDiagram
    from discrete_diffusion.domains.bubble_diagrams.plans.formats.readers import (
        read_diagrams,
        read_partials,
    )
    from discrete_diffusion.domains.bubble_diagrams.plans.requests import (
        PlanRequest,
        realise_diagrams,
    )
    from discrete_diffusion.domains.bubble_diagrams.procedural.generator import generate_plans
    from discrete_diffusion.domains.bubble_diagrams.tokens import decode, encode
    from discrete_diffusion.layout.vocab_config import RPLAN_VOCAB_CONFIG

__all__ = [
    "RPLAN_VOCAB_CONFIG",
    "BubbleDiagram",
    "Diagrams",
    "PartialDiagram",
    "PlanRequest",
    "decode",
    "encode",
    "from_graphml",
    "from_networkx",
    "generate_plans",
    "read_diagrams",
    "read_partials",
    "realise_diagrams",
    "to_graphml",
    "to_networkx",
    "to_node_link",
    "write_diagrams",
]

_MODULES = {
    "RPLAN_VOCAB_CONFIG": "tokens",
    "BubbleDiagram": "diagram",
    "Diagrams": "diagram_list",
    "PartialDiagram": "partial",
    "decode": "tokens",
    "encode": "tokens",
    "PlanRequest": "plans.requests",
    "generate_plans": "procedural.generator",
    "read_diagrams": "plans.formats.readers",
    "read_partials": "plans.formats.readers",
    "realise_diagrams": "plans.requests",
    "write_diagrams": "files.writers",
} | dict.fromkeys(
    ("from_graphml", "from_networkx", "to_graphml", "to_networkx", "to_node_link"),
    "files.graph_formats",
)


def __getattr__(name: str) -> Any:
    """Import a module when a name of it is first requested: a list of domains needs none."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
