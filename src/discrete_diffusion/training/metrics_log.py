"""The metrics table of a run, which a resumed run goes on with."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from lightning.fabric.loggers.logger import rank_zero_experiment
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.loggers.csv_logs import ExperimentWriter


class MetricsLog(CSVLogger):
    """Lightning's ``metrics.csv``, in which a resumed run keeps the rows before ``first_step``.

    Lightning deletes the file. Here a resumed run ends with the table of an uninterrupted one.
    ``first_step``: optimiser steps taken so far; ``former_run``: the folder of the run that took
    them, which may be this one's. Without both, or without a table there, a new one is started.
    """

    def __init__(
        self,
        *arguments: Any,
        first_step: int | None = None,
        former_run: str | Path | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.first_step, self.former_run = first_step, former_run

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        if self._experiment is None:
            header, rows = self._rows_to_keep()
            Path(self.log_dir, ExperimentWriter.NAME_METRICS_FILE).unlink(missing_ok=True)
            self._experiment = writer = ExperimentWriter(log_dir=self.log_dir)
            if rows:
                writer.metrics_keys = header
                with Path(writer.metrics_file_path).open("w", newline="") as file:
                    table = csv.DictWriter(file, fieldnames=header)
                    table.writeheader()
                    table.writerows(rows)
        return self._experiment

    def _rows_to_keep(self) -> tuple[list[str], list[dict[str, str]]]:
        """Header and rows of earlier steps; a line that a killed run left half-written goes."""
        if self.first_step is None or self.former_run is None:
            return [], []
        place = Path(self.log_dir).relative_to(self.save_dir)
        path = Path(self.former_run) / place / ExperimentWriter.NAME_METRICS_FILE
        if not path.is_file():
            return [], []
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            header = list(reader.fieldnames or [])
            rows = [row for row in reader if None not in row and None not in row.values()]
        kept = [row for row in rows if row.get("step", "").isdigit()]
        return header, [row for row in kept if int(row["step"]) < self.first_step]
