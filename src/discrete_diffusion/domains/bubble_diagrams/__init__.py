"""Bubble diagrams: floor plans as rooms and the spatial relations between them."""

from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.files.readers import read_diagrams, read_partials
from discrete_diffusion.domains.bubble_diagrams.files.writers import write_diagrams
from discrete_diffusion.domains.bubble_diagrams.partial import PartialDiagram
from discrete_diffusion.domains.bubble_diagrams.procedural.generator import generate_plans
from discrete_diffusion.domains.bubble_diagrams.tokens import decode, encode
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG

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
