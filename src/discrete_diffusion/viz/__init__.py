"""Pictures of bubble diagrams."""

from discrete_diffusion.viz.drawing import draw_diagram, draw_grid
from discrete_diffusion.viz.placement import Placement, place, place_all

__all__ = ["Placement", "draw_diagram", "draw_grid", "place", "place_all"]
