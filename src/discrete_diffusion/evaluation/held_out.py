"""The data that a checkpoint was trained on, rebuilt from its config, and what is measured on the
split it held out, whatever the state."""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from omegaconf.errors import OmegaConfBaseException
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.config.values import check_name
from discrete_diffusion.data.base import SPLITS, Dataset
from discrete_diffusion.runtime.processes import end_if_stopping
from discrete_diffusion.sampling.exactness import exactness_facts

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.requests import EvaluateRequest, Request
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.runtime.processes import Shard

logger = logging.getLogger(__name__)

D = TypeVar("D", bound=Dataset)

HELD_OUT = ("test", "val")
"""Splits to measure on, the preferred one first."""

BOUND_DRAWS = 4
"""Noise draws per held-out sample, if ``bound_draws`` does not say."""

SEEDS = 5
"""Sampling seeds, if ``seeds`` does not say."""

_CHOICE = (24,)
"""Keeps the choice of held-out samples apart from the noise of samples."""


class UnreadableDataError(ValueError):
    """The data of a checkpoint is not there any more, or cannot be read. ``reason``: why."""

    def __init__(self, path: object, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"the data of {path} cannot be read ({reason})")


def checkpoint_data(trained: TrainedModel) -> Any:
    """The ``Dataset`` of a checkpoint, of the class that its domain has; named in the log, with a
    warning if it is not the data that was trained on.

    Raises ``UnreadableDataError``.
    """
    path = trained.path
    try:
        data = trained.domain.build(trained.data_config)
    except (OSError, ValueError, OmegaConfBaseException) as error:
        raise UnreadableDataError(path, str(error).split("\n")[0]) from error
    found, expected = data.fingerprint(), trained.data_fingerprint
    if expected is not None and found != expected:
        logger.warning(
            "this is not the data that %s was trained on (fingerprint %s, then %s): what is held "
            "out here may have been trained on",
            *(path, found, expected),
        )
    logger.info("data: %s", data.summary())
    return data


def readable_data(trained: TrainedModel, remedy: str = "put it back where the run found it") -> Any:
    """``checkpoint_data``; ``ValueError`` with the ``remedy`` if it cannot be read."""
    try:
        return checkpoint_data(trained)
    except UnreadableDataError as error:
        raise ValueError(f"{error}; {remedy}") from error


def own_data(trained: TrainedModel) -> Any:
    """``checkpoint_data`` beside another reference; None if it cannot be read, which is logged."""
    try:
        return checkpoint_data(trained)
    except UnreadableDataError as error:
        logger.warning("the checkpoint's training data cannot be read (%s)", error.reason)
        return None


def check_reference(request: EvaluateRequest, *, of_files: bool) -> None:
    """``ValueError`` for ``split``, or keys under ``data``, where a file is compared with: of
    samples in files, or those of a model beside ``reference=FILE``."""
    if not of_files and request.data:
        key, value = next(iter(request.data.items()))
        raise ValueError(
            f"data.{key}={value} and reference={request.reference} both say what is measured; "
            "leave one of them out"
        )
    if request.split is not None:
        whose, key = ("a checkpoint", "samples") if of_files else ("this checkpoint", "reference")
        raise ValueError(
            f"split={request.split} chooses among the data of {whose}; leave it out with {key}=FILE"
        )


def held_out_split(
    data: Dataset, split: str | None = None, remedy: str = "choose another split"
) -> str:
    """The requested split, or the first of ``HELD_OUT`` that is not empty.

    Raises ``ValueError`` for an unknown split, and, with the ``remedy``, for an empty one.
    """
    if split is None:
        split = next((name for name in HELD_OUT if len(data.splits[name])), HELD_OUT[0])
    check_name("split", split, SPLITS)
    if len(data.splits[split]) == 0:
        raise ValueError(f"the {split} split is empty; {remedy}")
    return split


def name_of_split(trained: TrainedModel, data: Dataset, split: str) -> str:
    """Name of the samples of a split of ``checkpoint_data``, in words."""
    name, expected = (
        f"the {split} split of the checkpoint's data",
        trained.data_fingerprint,
    )
    if expected is None or data.fingerprint() == expected:
        return name
    return f"{name}, which has changed since it was trained, so it may have been trained on"


def held_out_rows(request: EvaluateRequest, available: int) -> Tensor:
    """Int[num], ascending: which of the ``available`` samples are measured: all, or
    ``num_held_out``, the same ones every time."""
    order = torch.randperm(available, generator=make_generator(0, *_CHOICE))
    return order[: request.num_held_out].sort().values


def num_held_out(request: EvaluateRequest, data: Dataset, split: str) -> int:
    """Number of samples of a split that are measured."""
    return len(held_out_rows(request, len(data.splits[split])))


def some_held_out(request: EvaluateRequest, data: D, split: str) -> D:
    """The data with the ``held_out_rows`` alone of a split."""
    examples = data.splits[split]
    rows = held_out_rows(request, len(examples))
    if len(rows) == len(examples):
        return data
    some = copy(data)
    some.splits = {**data.splits, split: examples[rows]}
    return some


def held_out_facts(request: EvaluateRequest, data: Dataset, split: str) -> dict[str, int]:
    """Entries of ``metrics.json`` on the held-out samples: how many were measured, of how many."""
    num, available = num_held_out(request, data, split), len(data.splits[split])
    return {"num_held_out": num, "num_held_out_available": available}


def sampling_seeds(request: EvaluateRequest, default: int = SEEDS) -> list[int]:
    """``seed`` and the next ones, ``seeds`` in all."""
    return list(range(request.seed, request.seed + (request.seeds or default)))


def keep_samples(request: EvaluateRequest, shard: Shard, write: Callable[[Path], object]) -> None:
    """Write samples into ``request.out``, if there is one, as soon as they are there: they are kept
    if what follows is stopped. Raises ``Stop`` if a signal has ended the sampling."""
    if request.out is not None and shard.rank == 0:
        write(request.out)
    end_if_stopping()


def checkpoint_facts(
    request: EvaluateRequest, trained: TrainedModel, data: Dataset
) -> dict[str, Any]:
    """Entries of ``metrics.json`` on the model measured and on the data it was measured on."""
    return {
        "checkpoint": trained.path,
        "step": trained.step,
        "data_fingerprint": data.fingerprint(),
        "trained_on_fingerprint": trained.data_fingerprint,
        "seed": request.seed,
        "precision": str(request.precision),
        "ema": request.ema,
    }


def sampling_facts(request: Request, trained: TrainedModel) -> dict[str, Any]:
    """Entries of ``metrics.json`` on how samples were made."""
    return {
        "sampling": trained.sampling,
        "sampling_steps": request.steps,
        **exactness_facts(trained.approximations()),
    }
