"""Loggers: the metrics table of a run, which a resumed run goes on with, and trackio."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.loggers.csv_logs import ExperimentWriter
from lightning.pytorch.loggers.logger import Logger, rank_zero_experiment
from lightning.pytorch.utilities import rank_zero_only

from discrete_diffusion.runtime.atomic_files import append_text, write_text


class _WholeRows(ExperimentWriter):
    """Lightning's table, whose rows are there whole or not at all: a new column writes it anew
    beside the old one. What is there before the first row stays."""

    def _check_log_dir_exists(self) -> None:
        """Lightning's deletes the table."""

    def save(self) -> None:
        path = Path(self.metrics_file_path)
        columns = sorted({*self.metrics_keys, *(key for row in self.metrics for key in row)})
        if not self.metrics:
            return
        if path.exists() and columns == self.metrics_keys:
            append_text(path, _table(columns, self.metrics, head=False))
        else:
            write_text(path, _table(columns, [*_rows(path)[1], *self.metrics]))
        self.metrics_keys, self.metrics = columns, []


def _table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, head: bool = True) -> str:
    text = StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=columns)
    if head:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _rows(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Columns and whole rows of a table; none if there is no file."""
    if not path.is_file():
        return [], []
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        columns = list(reader.fieldnames or [])
        return columns, [r for r in reader if None not in r and None not in r.values()]


class MetricsLog(CSVLogger):
    """Lightning's ``metrics.csv``, in which a resumed run keeps the rows before ``first_step``.

    Lightning deletes the file. Here a resumed run ends with the table of an uninterrupted one.
    ``first_step``: optimiser steps taken so far; ``former_run``: the folder of the run that took
    them, which may be this one's; ``validation_due``: the validation after the last of them is to
    be made, again if there is a row of it. Without both, or without a table there, a new one is
    started.
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
                writer.metrics_keys = header
                write_text(Path(writer.metrics_file_path), _table(header, rows))
            else:
                Path(writer.metrics_file_path).unlink(missing_ok=True)
        return self._experiment

    def log_hyperparams(self, params: Any = None) -> None:
        """Write nothing: the run folder has its ``config.yaml``."""

    def _rows_to_keep(self) -> tuple[list[str], list[dict[str, str]]]:
        """Header and rows of earlier steps; a line that a killed run left half-written goes."""
        if self.first_step is None or self.former_run is None:
            return [], []
        place = Path(self.log_dir).relative_to(self.save_dir)
        header, rows = _rows(Path(self.former_run) / place / ExperimentWriter.NAME_METRICS_FILE)
        ends = [self.first_step, self.first_step - self.validation_due]  # of steps, of validations
        return header, [
            row
            for row in rows
            if row.get("step", "").isdigit()
            and int(row["step"]) < ends[any(v for k, v in row.items() if k.startswith("val/"))]
        ]


class TrackioLogger(Logger):
    """A run of trackio, which keeps it in a database on this machine (``TRACKIO_DIR``).

    ``options``: of ``trackio.init``; ``space_id=NAME`` sends the numbers to the Hugging Face Hub.
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
