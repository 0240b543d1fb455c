"""Schedules of the learning rate."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

from discrete_diffusion.config.values import check_name, check_whole_number, is_a, is_number

LR_SCHEDULES = ("constant", "cosine", "linear", "wsd")

DECAY_SHARE = 0.2
"""Default share of a run in which the learning rate of ``wsd`` falls."""


def check_learning_rate(
    *, lr: Any, lr_schedule: Any, warmup_steps: Any, decay_steps: Any = None
) -> None:
    """Raise ``ValueError`` naming a key of ``config.optim`` with a wrong value; no torch needed."""
    # schedule, peak and warm-up
    check_name("optim.lr_schedule", lr_schedule, LR_SCHEDULES)
    if not (is_number(lr) and lr > 0):
        raise ValueError(f"optim.lr={lr}: expected a positive number")
    check_whole_number("optim.warmup_steps", warmup_steps, least=0)
    # the decay of wsd, in steps or as a share
    if decay_steps is None:
        return
    if lr_schedule != "wsd":
        raise ValueError(
            f"optim.decay_steps={decay_steps} is of optim.lr_schedule=wsd, not of {lr_schedule}; "
            "leave it out"
        )
    if not _is_share(decay_steps) and not (is_a(Integral, decay_steps) and decay_steps > 0):
        raise ValueError(
            f"optim.decay_steps={decay_steps}: expected a whole number of steps, at least 1, or a "
            "share of the run between 0 and 1"
        )


def check_length(schedule: str, num_steps: int | None) -> None:
    """Raise ``ValueError`` if the learning rate falls towards the end, and the run is endless."""
    if num_steps is None and schedule != "constant":
        raise ValueError(
            f"optim.lr_schedule={schedule} needs a known length; set trainer.max_steps or "
            "trainer.max_epochs, or take optim.lr_schedule=constant"
        )


def lr_factor(
    step: int, *, schedule: str, warmup_steps: int, num_steps: int, decay_steps: float | None = None
) -> float:
    """Learning rate at ``step`` as a share of its peak.

    It rises linearly for W = ``warmup_steps``, (step + 1) / W, then follows ``schedule``. With
    p = (step - W) / (T - W), the share of the way to the end, T = ``num_steps``:

    - ``constant``: 1
    - ``cosine``: (1 + cos(pi p)) / 2
    - ``linear``: 1 - p
    - ``wsd``, warm-up, stable, decay: 1, then (T - step) / D in the last D steps,
      arXiv:2405.18392. D is ``decay_steps`` or that share of T, and at most T - W.
    """
    # warm-up
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if schedule == "constant":
        return 1.0
    # fall towards the end of the run
    falling = max(num_steps - warmup_steps, 1)
    if schedule == "wsd":
        decay = DECAY_SHARE if decay_steps is None else decay_steps
        steps = max(round(decay * num_steps), 1) if _is_share(decay) else decay
        return min(max(num_steps - step, 0) / min(steps, falling), 1.0)
    progress = min((step - warmup_steps) / falling, 1.0)
    return 1 - progress if schedule == "linear" else 0.5 * (1 + math.cos(math.pi * progress))


def _is_share(decay_steps: Any) -> bool:
    return isinstance(decay_steps, float) and 0 < decay_steps < 1
