"""Training under Lightning."""

from discrete_diffusion.training.callbacks import (
    SampleAtValidation,
    TimeOfMeasuring,
    TrainingProgress,
    ValidationLine,
)
from discrete_diffusion.training.ema import EMA
from discrete_diffusion.training.metrics_log import MetricsLog
from discrete_diffusion.training.module import DiffusionModule
from discrete_diffusion.training.run_checkpoints import CheckpointFiles, RunCheckpoints
from discrete_diffusion.training.sharding import ShardedPrecision, whole_weights

__all__ = [
    "EMA",
    "CheckpointFiles",
    "DiffusionModule",
    "MetricsLog",
    "RunCheckpoints",
    "SampleAtValidation",
    "ShardedPrecision",
    "TimeOfMeasuring",
    "TrainingProgress",
    "ValidationLine",
    "whole_weights",
]
