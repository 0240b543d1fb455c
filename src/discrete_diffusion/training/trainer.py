"""The Lightning trainer of a config, its callbacks, and its loggers.

The loggers here are trackio, and the metrics table of a run, which a resumed run continues.
"""

from __future__ import annotations

import csv
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import LearningRateMonitor
from lightning.pytorch.loggers import CSVLogger, Logger
from lightning.pytorch.loggers.csv_logs import ExperimentWriter
from lightning.pytorch.loggers.logger import rank_zero_experiment
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig

from discrete_diffusion.building.measurements import settle_validations
from discrete_diffusion.checkpoints.start import ResumePoint
from discrete_diffusion.config.files import plain
from discrete_diffusion.evaluation.report import Report
from discrete_diffusion.runtime.atomic_files import append_text, write_text
from discrete_diffusion.runtime.processes import StopSignals, cluster_environment
from discrete_diffusion.training.callbacks import (
    EMA,
    SampleAtValidation,
    ShardedPrecision,
    TrainingProgress,
    ValidationLine,
)
from discrete_diffusion.training.run_checkpoints import CheckpointFiles, RunCheckpoints

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
    """Build Lightning's ``Trainer`` of a config; ``ValueError`` for values that it refuses."""
    # messages of Lightning that do not help a user
    for part in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(part).setLevel(logging.WARNING)
    for message, module in _THIRD_PARTY_WARNINGS:
        warnings.filterwarnings("ignore", message=message, module=rf"{module}\..*")

    # keyword arguments of the trainer
    options = {**plain(config.trainer), **devices}
    if "callbacks" in options:
        raise ValueError(
            "trainer.callbacks: add your own callbacks to those of the package by "
            "+callbacks.extra.NAME._target_=package.Class"
        )
    if options.get("max_steps") is None:  # null: without a limit, as for trainer.max_epochs
        options["max_steps"] = -1
    settle_validations(options)

    # plug-ins, loggers and callbacks
    plugins: list[Any] = [CheckpointFiles(), cluster_environment()]
    if options.get("strategy") == "fsdp":
        plugins.append(ShardedPrecision(options.pop("precision", "32-true")))
    loggers = build_loggers(config, folder, instantiate, resumed)
    callbacks = build_callbacks(config, folder, draw, report, signals, num_tried)
    callbacks += [instantiate(extra) for extra in config.callbacks.extra.values()]
    # Lightning's errors, with the arguments that it got
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
    """Build the callbacks; sampling comes before EMA, which swaps weights at the same hook."""
    # samples before the average, checkpoints last
    options = config.callbacks
    pictures = folder / "pictures"
    callbacks: list[Callback] = [
        TrainingProgress(),
        SampleAtValidation(
            draw, report, num_samples=options.num_samples, num_tried=num_tried, folder=pictures
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
    """Build the loggers of ``config.logger``, each a ``_target_`` with its arguments.

    For a resumed run, loggers get its step if they can drop later steps, which the run repeats."""
    # a resumed run repeats steps that are already in the logs
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
        # folder and name of the run, where the config has none
        given = {"save_dir": str(folder), **going_on.get(options["_target_"], {})}
        if options["_target_"] == _MLFLOW and options.get("tracking_uri") is None:
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # or it wants a database
            given["save_dir"] = str(folder.absolute() / "mlruns")
        for key in ("name", "run_name"):
            if options.get(key, "") is None:
                given[key] = folder.name
        loggers.append(instantiate(options, **given))
    return loggers


@contextmanager
def finishing_loggers(trainer: Trainer) -> Iterator[None]:
    """Finish the runs of services (wandb, trackio) after the block, so that the next is new."""
    try:
        yield
    finally:
        for each in trainer.loggers:
            finish = getattr(getattr(each, "experiment", None), "finish", None)
            if callable(finish):
                finish()


class _WholeRows(ExperimentWriter):
    """Lightning's table with one row per step; a row is written whole or not at all."""

    last_step: float | None = None
    """Step of the last row in the file."""

    def _check_log_dir_exists(self) -> None:
        """Keep an existing table, which Lightning would delete."""

    def log_metrics(self, metrics_dict: dict[str, float], step: int | None = None) -> None:
        """Add numbers to the row of a step."""
        super().log_metrics(metrics_dict, step)
        # numbers of one step are one row
        *rows, new = self.metrics
        if rows and rows[-1]["step"] == new["step"]:
            self.metrics = [*rows[:-1], {**rows[-1], **new}]

    def save(self) -> None:
        if not self.metrics:
            return
        path = Path(self.metrics_file_path)
        columns = sorted({*self.metrics_keys, *(key for row in self.metrics for key in row)})
        begun = self.metrics[0]["step"] == self.last_step
        if path.exists() and columns == self.metrics_keys and not begun:
            append_text(path, _csv_of(columns, self.metrics, head=False))
        else:
            # rewrite the file for a new column, or for more numbers of the last row
            former: list[dict[str, Any]] = [*_csv_rows(path)[1]]
            if begun:
                self.metrics[0] = {**former.pop(), **self.metrics[0]}
            write_text(path, _csv_of(columns, [*former, *self.metrics]))
        self.last_step = self.metrics[-1]["step"]
        self.metrics_keys, self.metrics = columns, []


def _csv_of(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, head: bool = True) -> str:
    text = StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=columns)
    if head:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _csv_rows(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Read the columns and complete rows of a table; both empty if the file is missing."""
    if not path.is_file():
        return [], []
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        columns = list(reader.fieldnames or [])
        return columns, [r for r in reader if None not in r and None not in r.values()]


class MetricsLog(CSVLogger):
    """Lightning's ``metrics.csv``, in which a resumed run keeps the rows before ``first_step``.

    Lightning would delete the file. Here the table of a resumed run equals that of an uninterrupted
    run. ``first_step``: optimiser steps taken by the former run; ``former_run``: folder of the
    former run, may be this folder; ``validation_due``: True if the validation after the last step
    is repeated. Without a step, a former run or its table, a new table is started.
    """

    def __init__(
        self,
        *arguments: Any,
        first_step: int | None = None,
        former_run: str | Path | None = None,
        validation_due: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.first_step, self.former_run = first_step, former_run
        self.validation_due = validation_due

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        if self._experiment is None:
            header, rows = self._rows_to_keep()
            self._experiment = writer = _WholeRows(log_dir=self.log_dir)
            if rows:
                writer.metrics_keys, writer.last_step = header, int(rows[-1]["step"])
                write_text(Path(writer.metrics_file_path), _csv_of(header, rows))
            else:
                Path(writer.metrics_file_path).unlink(missing_ok=True)
        return self._experiment

    def log_hyperparams(self, params: Any = None) -> None:
        """Write nothing: the run folder has its ``config.yaml``."""

    def _rows_to_keep(self) -> tuple[list[str], list[dict[str, str]]]:
        """Columns and rows of earlier steps, without an incomplete line of a killed run."""
        if self.first_step is None or self.former_run is None:
            return [], []
        # the table of the former run
        place = Path(self.log_dir).relative_to(self.save_dir)
        header, rows = _csv_rows(Path(self.former_run) / place / ExperimentWriter.NAME_METRICS_FILE)
        kept = [r for r in rows if r.get("step", "").isdigit() and int(r["step"]) < self.first_step]

        # the validation of the last step is repeated
        if self.validation_due and kept and int(kept[-1]["step"]) == self.first_step - 1:
            last = kept.pop()
            last = {k: "" if k.startswith("val/") else value for k, value in last.items()}
            if any(value for key, value in last.items() if key not in ("step", "epoch")):
                kept.append(last)
        return header, kept


class TrackioLogger(Logger):
    """Logger of trackio, which keeps a run in a database on this machine (``TRACKIO_DIR``).

    ``options``: arguments of ``trackio.init``; ``space_id=NAME`` sends the numbers to the Hugging
    Face Hub.
    """

    def __init__(self, *, project: str, name: str, save_dir: str, **options: Any) -> None:
        super().__init__()
        self._project, self._name, self._options = project, name, options
        self._run: Any = None

    @property
    def name(self) -> str:
        return self._project

    @property
    def version(self) -> str:
        return self._name

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        if self._run is None:
            trackio = import_module("trackio")
            self._run = trackio.init(self._project, name=self._name, **self._options)
        return self._run

    @rank_zero_only
    def log_hyperparams(self, params: Any, *_: Any, **__: Any) -> None:
        self._options["config"] = dict(params)
        _ = self.experiment

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self.experiment.log(dict(metrics), step=step)
