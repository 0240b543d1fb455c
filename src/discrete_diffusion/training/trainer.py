"""The Lightning trainer of a config: callbacks, loggers, and which of its messages are noise."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import LearningRateMonitor
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig

from discrete_diffusion.building.measurements import settle_validations
from discrete_diffusion.checkpoints.start import ResumePoint
from discrete_diffusion.config.files import plain
from discrete_diffusion.evaluation.report import Report
from discrete_diffusion.runtime.processes import StopSignals, cluster_environment
from discrete_diffusion.training.callbacks import (
    EMA,
    SampleAtValidation,
    TimeOfMeasuring,
    TrainingProgress,
    ValidationLine,
)
from discrete_diffusion.training.run_checkpoints import CheckpointFiles, RunCheckpoints
from discrete_diffusion.training.sharding import ShardedPrecision

_MLFLOW = "lightning.pytorch.loggers.MLFlowLogger"

_THIRD_PARTY_WARNINGS = (
    (r".*The number of training batches .* is smaller than the logging interval.*", "lightning"),
    (r".*Experiment logs directory .* exists and is not empty.*", "lightning"),  # logged already
    (r"Be aware that when using .ckpt_path., callbacks .*", "lightning"),  # logged already
    (r".isinstance\(treespec, LeafSpec\). is deprecated.*", "lightning"),
)


def build_trainer(
    config: DictConfig,
    devices: Mapping[str, Any],
    folder: Path,
    draw: Callable[[int], Any],
    report: Report,
    *,
    instantiate: Callable[..., Any],
    signals: StopSignals,
    resumed: ResumePoint | None = None,
    num_tried: int = 4,
) -> Trainer:
    """Lightning's ``Trainer`` with ``config.trainer`` and ``devices`` as keyword arguments.

    ``instantiate``: builds what a section with ``_target_`` names; ``signals`` end the run between
    two steps; ``resumed``: where a run goes on, None for a new one; ``num_tried``: samples that the
    check before training draws.

    Raises ``ValueError`` for values that Lightning refuses.
    """
    for part in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(part).setLevel(logging.WARNING)
    for message, module in _THIRD_PARTY_WARNINGS:
        warnings.filterwarnings("ignore", message=message, module=rf"{module}\..*")
    options = {**plain(config.trainer), **devices}
    if "callbacks" in options:
        raise ValueError(
            "trainer.callbacks: callbacks of your own are added to those of the package by "
            "+callbacks.extra.NAME._target_=package.Class"
        )
    if options.get("max_steps") is None:  # null is no limit, as for trainer.max_epochs
        options["max_steps"] = -1
    settle_validations(options)
    plugins: list[Any] = [CheckpointFiles(), cluster_environment()]
    if options.get("strategy") == "fsdp":
        plugins.append(ShardedPrecision(options.pop("precision", "32-true")))
    loggers = build_loggers(config, folder, instantiate, resumed)
    callbacks = build_callbacks(config, folder, draw, report, signals, num_tried)
    callbacks += [instantiate(extra) for extra in config.callbacks.extra.values()]
    try:
        return Trainer(
            default_root_dir=folder,
            logger=loggers,
            callbacks=callbacks,
            plugins=plugins,
            enable_progress_bar=False,
            enable_model_summary=False,
            **options,
        )
    except (TypeError, ValueError, ImportError, MisconfigurationException) as error:
        options["strategy"] = config.trainer.get("strategy")
        raise ValueError(f"trainer={options}: Lightning refuses this: {error}") from error


def build_callbacks(
    config: DictConfig,
    folder: Path,
    draw: Callable[[int], Any],
    report: Report,
    signals: StopSignals,
    num_tried: int,
) -> list[Callback]:
    """Sampling comes before EMA, which swaps weights at the same hook."""
    options = config.callbacks
    pictures = folder / "pictures"
    callbacks: list[Callback] = [
        TrainingProgress(),
        TimeOfMeasuring(options.num_samples),
        SampleAtValidation(
            draw,
            report,
            num_samples=options.num_samples,
            num_tried=num_tried,
            folder=pictures,
        ),
    ]
    if options.ema_decay is not None:
        callbacks.append(EMA(decay=options.ema_decay))
    callbacks.append(ValidationLine(report.headlines))
    if config.logger:
        callbacks.append(LearningRateMonitor(logging_interval="step"))
    callbacks.append(RunCheckpoints(folder / "checkpoints", signals=signals))
    return callbacks


def build_loggers(
    config: DictConfig,
    folder: Path,
    instantiate: Callable[..., Any],
    resumed: ResumePoint | None = None,
) -> list[Logger]:
    """The loggers of ``config.logger``, each a ``_target_`` with its arguments; those of services
    call the run by its folder.

    Those that can drop what a resumed run is about to repeat, or go on with it, learn where it goes
    on.
    """
    going_on: dict[str, dict[str, Any]] = {}
    if resumed is not None:
        run, step = resumed.run_folder, resumed.step
        former = None if run is None else str(run)
        going_on = {
            "discrete_diffusion.training.MetricsLog": {
                "first_step": step,
                "former_run": former,
                "validation_due": resumed.validation_due,
            },
            "lightning.pytorch.loggers.TensorBoardLogger": {"purge_step": step},
            "discrete_diffusion.training.TrackioLogger": {"resume": "allow"},
        }
    loggers = []
    for options in (config.logger or {}).values():
        given = {"save_dir": str(folder), **going_on.get(options["_target_"], {})}
        if options["_target_"] == _MLFLOW and options.get("tracking_uri") is None:
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # or it asks for a database
            given["save_dir"] = str(folder.absolute() / "mlruns")
        for key in ("name", "run_name"):
            if options.get(key, "") is None:
                given[key] = folder.name
        loggers.append(instantiate(options, **given))
    return loggers


@contextmanager
def finishing_loggers(trainer: Trainer) -> Iterator[None]:
    """Finish the runs of services (wandb, trackio) at the end: the next one of this process is
    another."""
    try:
        yield
    finally:
        for each in trainer.loggers:
            finish = getattr(getattr(each, "experiment", None), "finish", None)
            if callable(finish):
                finish()
