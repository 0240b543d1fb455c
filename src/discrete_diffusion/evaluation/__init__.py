"""What is said of a trained model and of its samples."""

from discrete_diffusion.evaluation.bound import (
    BoundEstimate,
    BoundMeter,
    SampleBounds,
    blind_bounds,
    estimate_bound,
    sample_bounds,
)
from discrete_diffusion.evaluation.bound_by_time import BoundByTime, bound_by_time
from discrete_diffusion.evaluation.calibration import Calibration, measure_calibration
from discrete_diffusion.evaluation.model_scores import ModelScores, score_model
from discrete_diffusion.evaluation.pictures import draw_model_pictures

__all__ = [
    "BoundByTime",
    "BoundEstimate",
    "BoundMeter",
    "Calibration",
    "ModelScores",
    "SampleBounds",
    "blind_bounds",
    "bound_by_time",
    "draw_model_pictures",
    "estimate_bound",
    "measure_calibration",
    "sample_bounds",
    "score_model",
]
