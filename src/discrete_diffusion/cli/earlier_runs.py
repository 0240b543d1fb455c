"""Earlier runs that ``train`` starts from: weights (``init.checkpoint``), or all (``resume``)."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from discrete_diffusion.config.files import plain
from discrete_diffusion.config.naming import counted

if TYPE_CHECKING:
    from lightning.pytorch import Trainer

    from discrete_diffusion.algorithms.base import Algorithm
    from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
    from discrete_diffusion.checkpoints.initialising import StartingWeights
    from discrete_diffusion.checkpoints.resuming import ResumePoint
    from discrete_diffusion.runtime.stopping import Stop

logger = logging.getLogger(__name__)

_MAX_NAMED = 4


def starting_weights(config: DictConfig) -> StartingWeights | None:
    """Contents of ``init.checkpoint``; None without one, and for a run that is resumed. Raises the
    errors of ``read_starting_weights``."""
    from discrete_diffusion.checkpoints.initialising import read_starting_weights

    init = plain(config.init)
    parts = init["parts"]
    if parts is not None and not (isinstance(parts, list) and parts):
        raise ValueError(f"init.parts={parts}: expected a list, as in init.parts=[encoder]")
    if init["checkpoint"] is None:
        if parts is not None:
            raise ValueError("init.parts needs init.checkpoint; give init.checkpoint=FILE too")
        return None
    if config.resume is not None:
        logger.info("init.checkpoint is not read: resume=%s replaces it", config.resume)
        return None
    return read_starting_weights(str(init["checkpoint"]), ema=init["ema"])


def start_from(start: StartingWeights, algorithm: Algorithm, config: DictConfig) -> None:
    """Copy ``init.parts`` into the backbone and log what was copied.

    After ``Algorithm.fit``: what a part learnt from its data, such as the scale of maps, belongs to
    its weights."""
    from discrete_diffusion.checkpoints.initialising import initialise, other_meanings

    parts = config.init.parts
    done = initialise(
        algorithm.backbone,
        start,
        parts=None if parts is None else [str(part) for part in parts],
        config=plain(config),
    )
    if other := other_meanings(start.config, plain(config)):
        logger.warning(
            "%s of %s is another than here: ids or features may stand for other things",
            *(", ".join(other), start.path),
        )
    what = "the backbone" if parts is None else ", ".join(map(str, parts))
    logger.info("%s starts from %s: %s", what, start.path, counted(len(done.loaded), "tensor"))
    if done.missing:
        logger.warning("not in the file, so as initialised: %s", _named(done.missing))
    if done.unused:
        logger.info("in the file only: %s", _named(done.unused))
    if done.left:
        logger.info("not in init.parts, so as initialised: %s", ", ".join(done.left))


def _named(names: tuple[str, ...]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def resume_point(
    config: DictConfig, algorithm: TokenAlgorithm, data_fingerprint: str
) -> ResumePoint:
    """State of the run of ``config.resume``; ``ValueError`` if this one would not repeat it, or
    ends before that."""
    from discrete_diffusion.checkpoints.resuming import check_resumable

    point = check_resumable(
        config.resume, algorithm, config=plain(config), data_fingerprint=data_fingerprint
    )
    steps = config.trainer.max_steps  # null and -1: no limit
    if steps is not None and 0 < steps < point.step:
        raise ValueError(
            f"{point.path} is of step {point.step}, past trainer.max_steps={steps}; give a "
            "larger trainer.max_steps"
        )
    return point


def announce(point: ResumePoint, config: DictConfig, trainer: Trainer, folder: Path) -> None:
    logger.info("resuming %s at step %d, in %s", point.path, point.step, folder)
    if point.step == (steps := config.trainer.max_steps):
        logger.info("it has all its trainer.max_steps=%d: no training, only the evaluation", steps)
    for sentence in machine_changes(point, config, trainer):
        logger.warning("%s", sentence)


def machine_changes(point: ResumePoint, config: DictConfig, trainer: Trainer) -> list[str]:
    """A sentence for each change that makes numbers differ."""
    import torch

    now: dict[str, Any] = {"device": trainer.strategy.root_device.type, "torch": torch.__version__}
    if trainer.world_size == 1 or config.threads is not None:  # else they are divided at launch
        now["threads"] = torch.get_num_threads()
    was = point.machine
    sentences = [
        f"{name} was {was[name]} and is {value}: numbers may differ in their last bits"
        for name, value in now.items()
        if was.get(name, value) != value
    ]
    if (former := was.get("processes", trainer.world_size)) != trainer.world_size:
        sentences.append(
            f"the run had {former} processes and has {trainer.world_size}: each step sees other "
            "batches, so numbers will differ"
        )
    return sentences


def resume_hint(stop: Stop, folder: Path, job: Sequence[str] | None = None) -> str:
    """The rest of the last line of a run that was stopped. ``job``: its overrides, if it was one of
    a sweep."""
    if stop.checkpoint is None:
        return "nothing was saved yet"
    going_on = [f"resume={stop.checkpoint}", f"hydra.run.dir={folder}"]
    if job is None:
        return f"to go on, add {' '.join(going_on)} to the same command"
    command = shlex.join(["discrete-diffusion", "train", *job, *going_on])
    return (
        f"to go on with this job: {command}; jobs that have not begun, if any, are a new sweep, in "
        "another hydra.sweep.dir"
    )
