"""The precision of a trainer, and whether the device has units for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discrete_diffusion.cli.devices import computes_on_gpu
from discrete_diffusion.runtime.precision import PRECISIONS, check_precision, check_units

_TRAINING_PRECISIONS = (*PRECISIONS, "16-mixed")


def check_trainer_precision(options: Mapping[str, Any]) -> None:
    """``check_precision`` of a ``config.trainer``."""
    precision = str(options.get("precision", "32-true"))
    check_precision("trainer.precision", precision, _TRAINING_PRECISIONS)


def check_trainer_units(options: Mapping[str, Any]) -> None:
    """``check_units`` of a ``config.trainer``."""
    precision = str(options.get("precision", "32-true"))
    check_units("trainer.precision", precision, on_gpu=computes_on_gpu(options))
