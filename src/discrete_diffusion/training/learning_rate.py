"""The learning rate along a run."""

from __future__ import annotations

import math
from typing import Any

from discrete_diffusion.config.naming import check_name
from discrete_diffusion.config.values import check_whole_number, is_number

LR_SCHEDULES = ("constant", "cosine")


def check_learning_rate(*, lr: Any, lr_schedule: Any, warmup_steps: Any) -> None:
    """``ValueError`` naming the key of ``config.optim`` whose value is none; imports no torch."""
    check_name("optim.lr_schedule", lr_schedule, LR_SCHEDULES)
    if not (is_number(lr) and lr > 0):
        raise ValueError(f"optim.lr={lr}: expected a positive number")
    check_whole_number("optim.warmup_steps", warmup_steps, least=0)


def lr_factor(step: int, *, schedule: str, warmup_steps: int, num_steps: int) -> float:
    """Learning rate at ``step`` as a share of its peak: linear warm-up, then constant or cosine.

    Cosine ends at 0 after ``num_steps``.
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if schedule == "constant":
        return 1.0
    progress = (step - warmup_steps) / max(num_steps - warmup_steps, 1)
    return 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
