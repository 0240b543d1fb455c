"""Numbers of a run for trackio."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from lightning.pytorch.loggers.logger import Logger, rank_zero_experiment
from lightning.pytorch.utilities import rank_zero_only


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
