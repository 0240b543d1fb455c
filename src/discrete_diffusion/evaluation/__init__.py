"""What is said of a trained model and of its samples."""

from discrete_diffusion.evaluation.bound import (
    BoundEstimate,
    BoundMeter,
    blind_bounds,
    estimate_bound,
)
from discrete_diffusion.evaluation.report import SampleReport, save_diagrams

__all__ = [
    "BoundEstimate",
    "BoundMeter",
    "SampleReport",
    "blind_bounds",
    "estimate_bound",
    "save_diagrams",
]
