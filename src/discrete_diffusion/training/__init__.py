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

_MODULES = {
    "CheckpointFiles": "run_checkpoints",
    "DiffusionModule": "module",
    "EMA": "ema",
    "MetricsLog": "metrics_log",
    "RunCheckpoints": "run_checkpoints",
    "SampleAtValidation": "callbacks",
    "ShardedPrecision": "sharding",
    "TimeOfMeasuring": "callbacks",
    "TrainingProgress": "callbacks",
    "ValidationLine": "callbacks",
    "whole_weights": "sharding",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
