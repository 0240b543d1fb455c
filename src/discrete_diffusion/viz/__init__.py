"""Pictures of bubble diagrams and of windows of rows, and charts of what was measured."""

from discrete_diffusion.viz.adjacency import draw_adjacency
from discrete_diffusion.viz.bars import BarPanel, draw_bars
from discrete_diffusion.viz.bound_curve import draw_bound_by_time
from discrete_diffusion.viz.drawing import draw_diagram, draw_grid
from discrete_diffusion.viz.pareto import ModelPoint, draw_pareto
from discrete_diffusion.viz.placement import Placement, place, place_all
from discrete_diffusion.viz.reconstructions import draw_reconstructions, draw_side_by_side
from discrete_diffusion.viz.region_maps import draw_region_maps
from discrete_diffusion.viz.reliability import ReliabilityPanel, draw_reliability
from discrete_diffusion.viz.row_scores import draw_row_scores
from discrete_diffusion.viz.trajectory import animate, draw_film_strip

__all__ = [
    "BarPanel",
    "ModelPoint",
    "Placement",
    "ReliabilityPanel",
    "animate",
    "draw_adjacency",
    "draw_bars",
    "draw_bound_by_time",
    "draw_diagram",
    "draw_film_strip",
    "draw_grid",
    "draw_pareto",
    "draw_reconstructions",
    "draw_region_maps",
    "draw_reliability",
    "draw_row_scores",
    "draw_side_by_side",
    "place",
    "place_all",
]
