"""What ``train`` says of a run that goes on, and of one that was stopped."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from discrete_diffusion.config_files import plain

if TYPE_CHECKING:
    from lightning.pytorch import Trainer

    from discrete_diffusion.algorithms import TokenAlgorithm
    from discrete_diffusion.checkpoints import ResumePoint
    from discrete_diffusion.stopping import Stop

logger = logging.getLogger(__name__)


def resume_point(
    config: DictConfig, algorithm: TokenAlgorithm, data_fingerprint: str
) -> ResumePoint:
    """Where the run of ``config.resume`` stands; ``ValueError`` if this one would not repeat it,
    or should have ended before."""
    from discrete_diffusion.checkpoints import check_resumable

    point = check_resumable(
        config.resume, algorithm, config=plain(config), data_fingerprint=data_fingerprint
    )
    steps = config.trainer.max_steps  # null and -1: no limit
    if steps is not None and 0 < steps < point.step:
        raise ValueError(
            f"{config.resume} is of step {point.step}, past trainer.max_steps={steps}; give a "
            "larger trainer.max_steps"
        )
    return point


def announce(point: ResumePoint, config: DictConfig, trainer: Trainer, folder: Path) -> None:
    """Log where a run goes on, and what may make its numbers differ."""
    logger.info("resuming %s at step %d, in %s", point.path, point.step, folder)
    if point.step == (steps := config.trainer.max_steps):
        logger.info("it has all its trainer.max_steps=%d: no training, only the evaluation", steps)
    for sentence in machine_changes(point, config, trainer):
        logger.warning("%s", sentence)


def machine_changes(point: ResumePoint, config: DictConfig, trainer: Trainer) -> list[str]:
    """A sentence for each thing that changes last bits, or the order of batches."""
    import torch

    now: dict[str, Any] = {
        "device": trainer.strategy.root_device.type,
        "torch": torch.__version__,
    }
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


def how_to_go_on(stop: Stop, folder: Path) -> str:
    """The rest of the last line of a run that was stopped."""
    if stop.checkpoint is None:
        return "nothing was saved yet"
    return f"to go on, add resume={stop.checkpoint} hydra.run.dir={folder} to the same command"
