"""Training under Lightning, which a name of it brings when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discrete_diffusion.training.callbacks import (
        SampleAtValidation,
        TimeOfMeasuring,
        TrainingProgress,
        ValidationLine,
    )
    from discrete_diffusion.training.ema import EMA
    from discrete_diffusion.training.metrics_log import MetricsLog
    from discrete_diffusion.training.module import DiffusionModule
    from discrete_diffusion.training.optimizers import MuonAdamW
    from discrete_diffusion.training.run_checkpoints import CheckpointFiles, RunCheckpoints
    from discrete_diffusion.training.sharding import ShardedPrecision, whole_weights
    from discrete_diffusion.training.trackio_logger import TrackioLogger

__all__ = [
    "EMA",
    "CheckpointFiles",
    "DiffusionModule",
    "MetricsLog",
    "MuonAdamW",
    "RunCheckpoints",
    "SampleAtValidation",
    "ShardedPrecision",
    "TimeOfMeasuring",
    "TrackioLogger",
    "TrainingProgress",
    "ValidationLine",
    "whole_weights",
]

_MODULES = {
    "CheckpointFiles": "run_checkpoints",
    "DiffusionModule": "module",
    "EMA": "ema",
    "MetricsLog": "metrics_log",
    "MuonAdamW": "optimizers",
    "RunCheckpoints": "run_checkpoints",
    "SampleAtValidation": "callbacks",
    "ShardedPrecision": "sharding",
    "TimeOfMeasuring": "callbacks",
    "TrackioLogger": "trackio_logger",
    "TrainingProgress": "callbacks",
    "ValidationLine": "callbacks",
    "whole_weights": "sharding",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
