"""Briefs: what a floor plan must have, and samples that have it."""

from discrete_diffusion.domains.bubble_diagrams.briefs.brief import Brief
from discrete_diffusion.domains.bubble_diagrams.briefs.reading import brief_of, read_brief
from discrete_diffusion.domains.bubble_diagrams.files.yaml_nodes import BriefError

__all__ = ["Brief", "BriefError", "brief_of", "read_brief"]
