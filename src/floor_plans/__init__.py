"""Bubble diagrams: floor plans as rooms and the spatial relations between them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discrete_diffusion.layout.vocab_config import RPLAN_VOCAB_CONFIG
    from floor_plans.diagrams.diagram import BubbleDiagram
    from floor_plans.diagrams.files.graph_formats import (
        from_graphml,
        from_networkx,
        to_graphml,
        to_networkx,
        to_node_link,
    )
    from floor_plans.diagrams.files.writers import write_diagrams
    from floor_plans.diagrams.partial import PartialDiagram
    from floor_plans.diagrams.procedural.generator import generate_plans
    from floor_plans.diagrams.tokens import decode, encode
    from floor_plans.drawings.readers import read_diagrams, read_partials
    from floor_plans.solver.diagram_list import Diagrams
    from floor_plans.solver.requests import PlanRequest, realise_diagrams

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
    "RPLAN_VOCAB_CONFIG": "diagrams.tokens",
    "BubbleDiagram": "diagrams.diagram",
    "Diagrams": "solver.diagram_list",
    "PartialDiagram": "diagrams.partial",
    "decode": "diagrams.tokens",
    "encode": "diagrams.tokens",
    "PlanRequest": "solver.requests",
    "generate_plans": "diagrams.procedural.generator",
    "read_diagrams": "drawings.readers",
    "read_partials": "drawings.readers",
    "realise_diagrams": "solver.requests",
    "write_diagrams": "diagrams.files.writers",
} | dict.fromkeys(
    ("from_graphml", "from_networkx", "to_graphml", "to_networkx", "to_node_link"),
    "diagrams.files.graph_formats",
)


def __getattr__(name: str) -> Any:
    """Import a module when a name of it is first requested: a list of domains needs none."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
