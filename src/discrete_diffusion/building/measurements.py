"""Numbers of samples that a run measures: a share of the work of training, unless configured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from discrete_diffusion.config.files import plain
from discrete_diffusion.domains.registry import build_layout, complete_data, data_state
from discrete_diffusion.sampling.registry import SAMPLERS, build_sampler

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.data.base import Dataset
    from discrete_diffusion.sampling.base import Sampler

SAMPLES_DRAWN = 1_000
"""Most samples if ``eval.num_samples`` is null."""

_AT_EACH_VALIDATION, _COMPARED = 200, 600
_LEAST_SAMPLED, _LEAST_BOUNDED = 16, 64

_AT_VALIDATION, _FINALLY = 0.125, 0.3
"""Work of a measurement, as a share of the work of training since the previous validation, and of
all training."""

_CHEAP = 1 << 15
"""Columns that a network computes in seconds, measured even after the shortest training."""


@dataclass(frozen=True)
class Work:
    """Mean number of columns that a network computes for one sample.

    ``trained``: columns to train on it; ``bounded``: columns for one noise sample of its bound;
    ``sampled``: columns to sample it.
    """

    trained: float
    bounded: float
    sampled: float

    @classmethod
    def of(cls, sizes: Sequence[int], sampler: Sampler[Any], algorithm: Any = None) -> Work:
        """Work of samples of ``sizes`` tokens. A backward pass costs twice the forward pass."""
        # three passes to train, one for a bound, two a step with guidance
        columns = max(1.0, sum(sizes) / len(sizes))
        sampled = sum(sampler.work(size, algorithm) for size in sizes) / len(sizes)
        guided = 1 if getattr(sampler, "guidance", 1) == 1 else 2
        return cls(3 * columns, columns, max(1.0, guided * sampled))

    def num_tried(self, num: int) -> int:
        """Number of samples in the check before training, if validations take ``num``."""
        return min(num, 4, int(_CHEAP / self.sampled))


def sizes_of(data: Dataset) -> list[int]:
    """Numbers of tokens, rows or pixels of at most 256 training samples, evenly spread."""
    import torch

    examples = data.splits["train"]
    rows = torch.linspace(0, len(examples) - 1, min(256, len(examples))).long()
    sizes: list[int] = examples[rows].real.flatten(1).sum(dim=1).tolist()
    return sizes or [1]  # an empty split is refused where batches are made


def samples_trained_on(config: Mapping[str, Any], num_train: int | None = None) -> float:
    """Number of samples, with repeats, that one process trains on; infinite if training has no end.

    ``num_train``: size of the training split, None if unknown.
    """
    # a batch has no more samples than there are
    trainer, batch_size = config["trainer"], config["data"]["batch_size"]
    if num_train is not None:
        batch_size = min(batch_size, num_train)
    steps, epochs = trainer.get("max_steps"), trainer.get("max_epochs")
    # the run ends by steps or by epochs, whichever is first
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
    """Number of batches of an epoch that ``trainer.limit_train_batches`` leaves of ``num``.

    The limit is a whole number of batches, or a share; 1.0 and null leave all.
    """
    if limit is None:
        return num
    return min(num, limit) if isinstance(limit, int) else int(num * limit)


def settle_validations(options: dict[str, Any]) -> None:
    """Set when a run is validated: a short run once, at its end.

    Without ``val_check_interval`` a longer run is validated every 500 batches, or every epoch if it
    ends by epochs.
    """
    # the default interval
    batches = options["max_steps"] * (options.get("accumulate_grad_batches") or 1)
    if options.get("val_check_interval") is None:
        every_epoch = batches < 0 or options.get("check_val_every_n_epoch") is not None
        options["val_check_interval"] = 1.0 if every_epoch else 500

    # a share is of an epoch; an interval longer than the run becomes the run
    interval = options["val_check_interval"]
    if isinstance(interval, float) and options.get("check_val_every_n_epoch") is None:
        options["check_val_every_n_epoch"] = 1
    if isinstance(interval, int) and 0 < batches < interval:
        options["val_check_interval"] = batches


def samples_between_validations(config: Mapping[str, Any], num_train: int) -> float:
    """Number of samples that one process trains on between two validations."""
    options, batch_size = plain(config["trainer"]), config["data"]["batch_size"]
    if options.get("max_steps") is None:
        options["max_steps"] = -1
    settle_validations(options)
    # a share is of an epoch
    batches = options["val_check_interval"]
    if isinstance(batches, float):
        num_batches = max(1, round(num_train / min(batch_size, num_train)))
        an_epoch = batches_of_epoch(num_batches, options.get("limit_train_batches"))
        batches = batches * an_epoch * options["check_val_every_n_epoch"]
    between = batches * min(batch_size, num_train)
    return min(between, samples_trained_on(config, num_train))


def with_measurements(
    config: DictConfig, *, num_train: int, num_held_out: int, work: Work
) -> tuple[DictConfig, list[str]]:
    """Copy of a ``train`` config with numbers for null amounts, and notes on reduced amounts."""
    # work of training, in all and between two validations
    whole = samples_trained_on(config, num_train) * work.trained
    between = samples_between_validations(config, num_train) * work.trained
    bounded, size = config.eval.noise_samples * work.bounded, config.data.batch_size
    # most, cost of one, allowed work, least
    amounts = {
        "eval.num_samples": (SAMPLES_DRAWN, work.sampled, _FINALLY * whole, _LEAST_SAMPLED),
        "eval.num_held_out": (num_held_out, bounded, _FINALLY * whole, _LEAST_BOUNDED),
        "callbacks.num_samples": (
            *(_AT_EACH_VALIDATION, work.sampled),
            *(_AT_VALIDATION * between, _LEAST_SAMPLED),
        ),
        "trainer.limit_val_batches": (
            *(-(-num_held_out // size), work.bounded * min(size, num_held_out)),
            *(_AT_VALIDATION * between, -(-_LEAST_BOUNDED // size)),
        ),
    }
    return _fill_in_amounts(config, amounts)


def with_terms(config: DictConfig) -> tuple[DictConfig, list[str]]:
    """Copy of a ``compare`` config with numbers for null amounts, and notes on reduced amounts.

    All cells are measured alike, by the work of the longest samples of tokens.
    """
    tokens = data_state(config.data) == "tokens"
    size = build_layout(complete_data(config).data).length if tokens else 1
    # settings of other cells' samplers are left out
    settings = signature(SAMPLERS.find(config.sampling.name)).parameters
    options = {k: v for k, v in config.sampling.items() if k == "name" or k in settings}
    work = Work.of([size], build_sampler(options))
    allowed = _FINALLY * samples_trained_on(config) * work.trained
    amounts = {
        "eval.num_samples": (SAMPLES_DRAWN, work.sampled, allowed, _LEAST_SAMPLED),
        "num_held_out": (
            *(_COMPARED, config.noise_samples * work.bounded),
            *(allowed, _LEAST_BOUNDED),
        ),
    }
    return _fill_in_amounts(config, amounts)


def _fill_in_amounts(
    config: DictConfig, amounts: Mapping[str, tuple[int, float, float, int]]
) -> tuple[DictConfig, list[str]]:
    """Fill in null keys with numbers of measurements that the work of training pays for.

    ``amounts``: by key the most, the cost of one, the allowed work, and the least if those are
    cheap. Bounds take at least two samples.
    """
    config, notes = OmegaConf.create(config), []
    for key, (most, cost, allowed, least) in amounts.items():
        # a number of the user stays
        if OmegaConf.select(config, key) is not None:
            continue
        num = most
        if cost > 0:  # else nothing is held out
            cheap = min(least, int(_CHEAP / cost))
            num = min(most, max(cheap, int(min(allowed / cost, most))))
        if not key.endswith("num_samples"):
            num = max(num, min(most, 2))
        # all validation batches are a share of 1
        all_batches = key == "trainer.limit_val_batches" and num == most
        OmegaConf.update(config, key, 1.0 if all_batches else num, force_add=True)
        if num < most:
            notes.append(
                f"{key}: {num:,} of {most:,}, a share of the work of training; set {key} to choose"
            )
    return config, notes
