"""Training of a run, from a config to a run folder."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.building.measurements import batches_of_epoch
from discrete_diffusion.checkpoints.start import (
    ResumePoint,
    StartingWeights,
    check_resumable,
    start_from,
)
from discrete_diffusion.config.files import plain
from discrete_diffusion.config.values import counted
from discrete_diffusion.domains.registry import complete_data
from discrete_diffusion.evaluation.tables import finite_or_none, write_metrics
from discrete_diffusion.runtime.atomic_files import atomic_write
from discrete_diffusion.runtime.processes import LostProcessError, Stop, StopSignals, all_processes
from discrete_diffusion.training.run import Run, build_run

if TYPE_CHECKING:
    from lightning.pytorch import Trainer

logger = logging.getLogger(__name__)


def train(
    config: DictConfig,
    folder: Path,
    *,
    devices: Mapping[str, Any],
    start: StartingWeights | None,
    signals: StopSignals,
    instantiate: Callable[..., Any],
) -> dict[str, Any]:
    """Train, evaluate and sample; everything is written into the folder.

    ``devices``: ``accelerator``, ``devices``, ``num_nodes`` and ``strategy`` of Lightning's
    ``Trainer``; ``start``: weights to start from; ``signals`` end the run between two steps;
    ``instantiate``: builds what a section with ``_target_`` names.

    Returns what ``metrics.json`` holds; in the first process, where there are several. Raises
    ``Stop`` once the run can go on from a checkpoint.
    """
    config = complete_data(config)
    built = build_run(config, on_gpu=devices["accelerator"] in ("cuda", "gpu"))
    resumed = None
    if config.resume is not None:
        resumed = check_resumable(
            config.resume,
            built.algorithm,
            config=plain(config),
            data_fingerprint=built.fingerprint,
        )
    else:
        if start is not None:
            start_from(start, built.algorithm, plain(config))
        elif built.algorithm.has_teacher:
            logger.warning(
                "%s without init.checkpoint=TEACHER learns from the data alone", config.algo.name
            )
        built.begin()
    from discrete_diffusion.training.run_checkpoints import RunCheckpoints
    from discrete_diffusion.training.trainer import build_trainer, finishing_loggers  # slow

    trainer = build_trainer(
        *(built.config, devices, folder, built.draw, built.report),
        instantiate=instantiate,
        signals=signals,
        resumed=resumed,
        num_tried=built.num_tried,
    )
    if trainer.is_global_zero:
        _begin(built, trainer, folder, resumed)
    with all_processes(trainer, config.threads), finishing_loggers(trainer):
        try:
            built.fit(trainer, resumed)
            metrics = built.final_metrics(trainer, folder)
        except Stop as stop:
            kept = trainer.checkpoint_callback
            saved = kept.last if isinstance(kept, RunCheckpoints) and kept.holds_run else None
            raise Stop(stop.number, saved, stop.where) from None
        except RuntimeError as error:
            if trainer.world_size == 1 or "onnection" not in str(error):  # torch has no type for it
                raise
            raise LostProcessError(
                "another process of this run has ended: was it killed, or out of memory? "
                f"{folder / 'checkpoints' / 'last.ckpt'} holds the run so far, see resume="
            ) from error
    if trainer.is_global_zero:
        write_metrics(folder, metrics)
        logger.info("%s", built.report.summary(metrics))
        logger.info("run folder: %s", folder)
    return finite_or_none(metrics)


def _begin(built: Run, trainer: Trainer, folder: Path, resumed: ResumePoint | None) -> None:
    """Write ``config.yaml``, hand the config to the loggers, and log what is about to be trained,
    and on what."""
    config = built.config
    if resumed is not None:
        resumed.announce(plain(config), trainer, folder)
    with atomic_write(folder / "config.yaml") as unfinished:
        OmegaConf.save(config, unfinished, resolve=True)
    for each in trainer.loggers:
        each.log_hyperparams(plain(config))
    logger.info("data: %s", built.data.summary())
    logger.info(
        "%s with %s, %s parameters", config.algo.name, config.algo.backbone, f"{built.size:,}"
    )
    if features := (config.get("model") or {}).get("features"):
        logger.info("model.features=[%s], of the graph revealed so far", ", ".join(features))
    _announce_steps(built, trainer)
    for line in built.shortened:
        logger.info("%s", line)


def _announce_steps(built: Run, trainer: Trainer) -> None:
    """Log how many samples a step takes, and how many steps an epoch has."""
    processes, accumulated = trainer.world_size, trainer.accumulate_grad_batches
    stream = built.batches(world_size=processes, accumulate=accumulated)
    asked, num = built.config.data.batch_size, len(stream.examples)
    if stream.batch_size < asked:
        logger.info("data.batch_size=%d, but every batch is all %d training samples", asked, num)
    parts_of_a_step = ""
    if processes * accumulated > 1:
        each = f", {accumulated} batches each" if accumulated > 1 else ""
        several = "processes" if processes > 1 else "process"
        parts_of_a_step = f"{processes} {several} of {stream.batch_size} samples{each}: "
    a_step = stream.batch_size * processes * accumulated
    batches = batches_of_epoch(len(stream), trainer.limit_train_batches)
    limited = f", by trainer.limit_train_batches={trainer.limit_train_batches}"
    logger.info(
        "%s%s samples a step; an epoch is %s%s, %.2f passes over all training samples",
        *(parts_of_a_step, f"{a_step:,}", counted(math.ceil(batches / accumulated), "step")),
        limited if batches < len(stream) else "",
        batches * stream.batch_size * processes / num,
    )
