"""Briefs: what a floor plan is asked to have, and samples that have it."""

from discrete_diffusion.domains.bubble_diagrams.briefs.brief import Brief

__all__ = ["Brief"]
