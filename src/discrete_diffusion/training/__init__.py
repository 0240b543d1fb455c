"""Training under Lightning."""

from discrete_diffusion.training.bound import BoundEstimate, blind_bounds, estimate_bound
from discrete_diffusion.training.callbacks import (
    LastCheckpoint,
    SampleAtValidation,
    ValidationLine,
)
from discrete_diffusion.training.ema import EMA
from discrete_diffusion.training.module import DiffusionModule
from discrete_diffusion.training.report import SampleReport, save_diagrams

__all__ = [
    "EMA",
    "BoundEstimate",
    "DiffusionModule",
    "LastCheckpoint",
    "SampleAtValidation",
    "SampleReport",
    "ValidationLine",
    "blind_bounds",
    "estimate_bound",
    "save_diagrams",
]
