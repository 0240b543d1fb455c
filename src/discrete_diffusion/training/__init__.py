"""Training under Lightning."""

from discrete_diffusion.training.callbacks import (
    LastCheckpoint,
    SampleAtValidation,
    ValidationLine,
)
from discrete_diffusion.training.ema import EMA
from discrete_diffusion.training.module import DiffusionModule

__all__ = [
    "EMA",
    "DiffusionModule",
    "LastCheckpoint",
    "SampleAtValidation",
    "ValidationLine",
]
