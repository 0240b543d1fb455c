"""Charts of what was measured."""

from discrete_diffusion.viz.bars import BarPanel, draw_bars
from discrete_diffusion.viz.bound_curve import draw_bound_by_time
from discrete_diffusion.viz.pareto import ModelPoint, draw_pareto
from discrete_diffusion.viz.reliability import ReliabilityPanel, draw_reliability

__all__ = [
    "BarPanel",
    "ModelPoint",
    "ReliabilityPanel",
    "draw_bars",
    "draw_bound_by_time",
    "draw_pareto",
    "draw_reliability",
]
