"""Amount that a run measures: in proportion to its training, unless the config has a number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

if TYPE_CHECKING:
    from omegaconf import DictConfig

WHOLE = 32_000
"""Samples that a run trains on from which it measures all; half of ``experiment=demo``."""

SAMPLES_DRAWN = 1_000
"""Samples of ``eval.num_samples: null`` then."""

_DRAWN_AT_VALIDATION, _COMPARED = 200, 600
_LEAST_DRAWN, _LEAST_BOUNDED = 16, 64


def samples_trained_on(config: Mapping[str, Any], num_train: int | None = None) -> float:
    """Samples that one process of a ``train`` config trains on, each counted every time; infinite
    without an end. ``num_train``: those there are, None if unknown."""
    trainer, batch_size = config["trainer"], config["data"]["batch_size"]
    if num_train is not None:
        batch_size = min(batch_size, num_train)
    steps, epochs = trainer.get("max_steps"), trainer.get("max_epochs")
    ends = [math.inf]
    if steps is not None and steps >= 0:
        ends.append(steps * batch_size * (trainer.get("accumulate_grad_batches") or 1))
    if epochs is not None and epochs >= 0 and num_train is not None:
        limit = trainer.get("limit_train_batches")
        num_batches = max(1, round(num_train / batch_size))
        few = batches_of_epoch(num_batches, limit) * batch_size
        ends.append(epochs * (num_train if limit is None else min(num_train, few)))
    return min(ends)


def batches_of_epoch(num: int, limit: float | None) -> int:
    """Number of the ``num`` batches of an epoch that ``trainer.limit_train_batches`` leaves: a
    whole number of them, or a share, of which 1.0 and null are all."""
    if limit is None:
        return num
    return min(num, limit) if isinstance(limit, int) else int(num * limit)


def in_proportion(most: int, trained_on: float, *, least: int) -> int:
    """Part of ``most``: the share that the training has of ``WHOLE``; at least ``least``."""
    return min(most, max(least, round(most * min(trained_on / WHOLE, 1.0))))


def with_measurements(
    config: DictConfig, *, num_train: int, num_held_out: int
) -> tuple[DictConfig, list[str]]:
    """A copy of a ``train`` config in which every null number of samples to measure is a number,
    and what to tell of those that a short run makes smaller."""
    whole = {
        "eval.num_samples": (SAMPLES_DRAWN, _LEAST_DRAWN),
        "eval.bound_samples": (num_held_out, _LEAST_BOUNDED),
        "callbacks.num_samples": (_DRAWN_AT_VALIDATION, _LEAST_DRAWN),
    }
    return _filled_in(config, whole, samples_trained_on(config, num_train))


def with_terms(config: DictConfig) -> tuple[DictConfig, list[str]]:
    """The same of a ``compare`` config, whose cells are all measured alike."""
    whole = {
        "eval.num_samples": (SAMPLES_DRAWN, _LEAST_DRAWN),
        "bound_samples": (_COMPARED, _LEAST_BOUNDED),
    }
    return _filled_in(config, whole, samples_trained_on(config))


def _filled_in(
    config: DictConfig, whole: Mapping[str, tuple[int, int]], trained_on: float
) -> tuple[DictConfig, list[str]]:
    """``whole``: by key, all there is to measure and the least of it."""
    config, notes = OmegaConf.create(config), []
    for key, (most, least) in whole.items():
        if OmegaConf.select(config, key) is not None:
            continue
        num = in_proportion(most, trained_on, least=least)
        OmegaConf.update(config, key, num, force_add=True)
        if num < most:
            notes.append(f"{key}: {num:,} of {most:,}, as the run is short; set {key} to choose")
    return config, notes
