"""Briefs: requirements on a floor plan, and samples that meet them."""

from floor_plans.briefs.brief import Brief
from floor_plans.briefs.reading import brief_of, read_brief
from floor_plans.diagrams.files.yaml_nodes import BriefError

__all__ = ["Brief", "BriefError", "brief_of", "read_brief"]
