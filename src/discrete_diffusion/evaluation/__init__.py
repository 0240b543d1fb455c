"""What is said of a trained model and of its samples."""

from discrete_diffusion.evaluation.bound import (
    BoundMeter,
    blind_bounds,
    estimate_bound,
    sample_bounds,
)
from discrete_diffusion.evaluation.bound_by_time import bound_by_time
from discrete_diffusion.evaluation.calibration import measure_calibration
from discrete_diffusion.evaluation.model_scores import score_model

__all__ = [
    "BoundMeter",
    "blind_bounds",
    "bound_by_time",
    "estimate_bound",
    "measure_calibration",
    "sample_bounds",
    "score_model",
]
