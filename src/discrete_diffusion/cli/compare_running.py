"""Runs of a comparison: check the cells' folders, run missing cells, compare all cells."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from discrete_diffusion.api.cells import Cell, CellFolder, check_folders, measure_cell, read_data
from discrete_diffusion.api.comparison_report import write_comparison
from discrete_diffusion.cli.train import TrainRequest, check_trainer_units, run_training
from discrete_diffusion.composing.parts import with_algorithm
from discrete_diffusion.composing.search_path import own_hydra, quoted
from discrete_diffusion.config.values import counted
from discrete_diffusion.data.base import Dataset
from discrete_diffusion.domains.registry import complete_data
from discrete_diffusion.evaluation.comparison_table import check_columns
from discrete_diffusion.evaluation.evaluation_protocol import EvaluationProtocol
from discrete_diffusion.evaluation.tables import write_json
from discrete_diffusion.runtime import progress
from discrete_diffusion.training.run import fit_and_try, new_algorithm

logger = logging.getLogger(__name__)


def compare_cells(
    cells: Sequence[Cell],
    config: DictConfig,
    overrides: Sequence[str],
    launcher: Sequence[str],
    user_dir: Path | None,
) -> dict[str, Any]:
    """Train and measure the cells that are not finished, and write the comparison."""
    # the measurements of every cell
    measurement = cells[0].measurement
    check_columns(config.columns or (), measurement.measures, measurement.columns)
    protocol = EvaluationProtocol(
        bound_samples=config.num_held_out,
        bound_draws=config.noise_samples,
        num_samples=config.eval.num_samples,
        draws=measurement.num_draws(config),
        verdicts=measurement.num_verdicts(config),
    )
    # backbones that were replaced
    replaced = [
        f"{cell.algorithm} cannot use {cell.instead_of}: {cell.backbone} (model={cell.model}, "
        f"{cell.parameters:,} parameters) takes its place"
        for cell in cells
        if cell.instead_of
    ]
    for line in dict.fromkeys(replaced):
        logger.info("%s", line)
    # a launcher may run the cells on other machines
    if not launcher:
        for cell in cells:
            if not cell.folder.is_trained:
                check_trainer_units(cell.config.trainer)
    # finished cells are kept; backbones are tried before the first run
    data = read_data(cells)
    check_folders(cells, data, overwrite=config.overwrite)
    missing = [cell for cell in cells if not cell.folder.is_finished(cell.config, protocol)]
    _try_backbones([cell for cell in missing if not cell.folder.is_trained], data)
    _log_state_of_cells(cells, missing)
    if missing:
        run_cells(missing, protocol, launcher=launcher, user_dir=user_dir)
    return write_comparison(cells, data, protocol, config, overrides=[*overrides, *launcher])


def _try_backbones(cells: Sequence[Cell], data: dict[str, Dataset]) -> None:
    """Try each algorithm and backbone on samples; ``ValueError`` listing those that fail."""
    # one cell of each combination
    pairs: dict[tuple[str, str], Cell] = {}
    for cell in cells:
        pairs.setdefault((cell.algorithm, cell.backbone), cell)
    refused = []
    for (algorithm, backbone), cell in pairs.items():
        config = complete_data(cell.config)
        try:
            fit_and_try(new_algorithm(config), data[cell.data], config)
        except (ValueError, TypeError) as error:
            refused.append(f"{algorithm} with {backbone}: {error}")
    if refused:
        count, listed = f"{len(refused)} of {len(pairs)}", "\n  ".join(refused)
        raise ValueError(f"compare refuses {count} combinations, and ran none:\n  {listed}")


def _log_state_of_cells(cells: Sequence[Cell], missing: Sequence[Cell]) -> None:
    # the state of each cell
    to_run = {cell.name for cell in missing}
    for cell in cells:
        if cell.name not in to_run:
            logger.info("%s: finished, kept", cell.name)
        elif cell.folder.is_trained:
            logger.info("%s: trained, kept; to be measured", cell.name)
        elif cell.folder.last.exists():
            logger.info("%s: interrupted, goes on", cell.name)
    if missing:
        logger.info("%d of %s to run", len(missing), counted(len(cells), "cell"))
    else:
        logger.info("nothing to train: %s finished", counted(len(cells), "cell"))
    # folders of other comparisons stay
    there = {path.parent.name for path in (cells[0].out / "cells").glob("*/cell.json")}
    replaced = {name for name in there if ".replaced-" in name}
    if others := there - {cell.name for cell in cells} - replaced:
        also = ", ".join(sorted(others))
        logger.info("also in %s, kept, not in the table: %s", cells[0].out, also)


def run_cells(
    cells: Sequence[Cell],
    protocol: EvaluationProtocol,
    *,
    launcher: Sequence[str] = (),
    user_dir: Path | None = None,
) -> None:
    """Run every cell by Hydra's launcher; by default one after the other in this process.

    Raises ``ValueError`` naming the cells that failed. Its cause is the last error that users
    cannot mend, if there is one."""
    from hydra.core.utils import JobStatus

    # cells on other machines do not tell how long the others take
    begun = None if launcher else time.perf_counter()
    task = partial(run_cell, protocol=protocol, num_cells=len(cells), begun=begun)
    returned = _run_by_launcher(cells, task, launcher, user_dir)
    # errors that users can mend, by cell; any other error is the cause
    failed, cause = [], None
    for cell, job in zip(cells, returned, strict=True):
        if job.status == JobStatus.COMPLETED:
            continue
        # return_value would raise it, and log a line
        error = job._return_value
        what = str(error)
        if not isinstance(error, Exception):
            raise error
        if not isinstance(error, ValueError | TypeError | OSError):
            cause = error
            what = f"{type(error).__name__}: {error}; HYDRA_FULL_ERROR=1 shows where it was raised"
        failed.append(f"{cell.name}: {what} (folder {cell.folder.path})")
    if failed:
        listed = "\n  ".join(failed)
        raise ValueError(
            f"{len(failed)} of {counted(len(cells), 'cell')} failed; the same command keeps the "
            "others and tries these again; delete the folder of one to train it anew:\n  "
            f"{listed}"
        ) from cause


def _run_by_launcher(
    cells: Sequence[Cell],
    task: Callable[[DictConfig], None],
    launcher: Sequence[str],
    user_dir: Path | None,
) -> Sequence[Any]:
    """Call ``task`` with the config of each cell by Hydra's launcher; return the results."""
    # Hydra has no public way to call a launcher
    from hydra._internal.callbacks import Callbacks
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.core.plugins import Plugins
    from hydra.types import HydraContext, RunMode

    # Hydra's config of a sweep that writes into the folder of the cells
    former = HydraConfig.instance().cfg
    shared = [f"hydra.sweep.dir={quoted(str(cells[0].folder.path.parent))}", *launcher]
    hydra_log = logging.getLogger("hydra")
    level = hydra_log.level
    with own_hydra(user_dir) as searchpath:
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        config = hydra.compose_config(
            "train", [*searchpath, *shared], run_mode=RunMode.MULTIRUN, from_shell=False
        )
        context = HydraContext(config_loader=hydra.config_loader, callbacks=Callbacks(config))
        try:
            HydraConfig.instance().set_config(config)
            # a line of overrides per job
            hydra_log.setLevel(logging.WARNING)
            found = Plugins.instance().instantiate_launcher(
                hydra_context=context, task_function=task, config=config
            )
            # the overrides of each cell, with its folder
            jobs = [[*c.overrides, f"hydra.sweep.subdir={c.name}"] for c in cells]
            jobs = [with_algorithm(words, user_dir)[0] for words in jobs]
            returned: Sequence[Any] = found.launch(jobs, initial_job_idx=0)
        finally:
            HydraConfig.instance().cfg = former
            hydra_log.setLevel(level)
    return returned


def run_cell(
    config: DictConfig,
    *,
    protocol: EvaluationProtocol,
    num_cells: int,
    begun: float | None = None,
) -> None:
    """Train or resume a cell in the folder that the launcher made for it, and measure it.

    ``begun``: start of the first cell, in seconds of ``time.perf_counter``. Raises the errors of
    ``train``, and ``ValueError`` if training has diverged."""
    from hydra.core.hydra_config import HydraConfig

    folder = CellFolder(Path(HydraConfig.get().runtime.output_dir))
    folder.write_plan(config)
    number = int(HydraConfig.get().job.num) + 1
    left = ""
    if begun is not None and number > 1:
        seconds = (time.perf_counter() - begun) / (number - 1) * (num_cells - number + 1)
        left = f", about {timedelta(seconds=round(seconds))} left for all"
    logger.info("--- %s, cell %d of %d%s", folder.path.name, number, num_cells, left)
    cell = f"cell {number} of {num_cells}, {folder.path.name}"
    with progress.shown(logger.info, bar=False), progress.task(cell):
        _complete_cell(config, folder, protocol)


def _complete_cell(config: DictConfig, folder: CellFolder, protocol: EvaluationProtocol) -> None:
    """Train the cell, unless it is trained already, and measure it."""
    if not folder.is_trained:
        # from the last checkpoint, if there is one
        resumed = config.copy()
        resumed.resume = str(folder.last) if folder.last.exists() else None
        train_log = logging.getLogger("discrete_diffusion.training.run")
        train_log.addFilter(_is_no_metric)
        start = time.perf_counter()
        try:
            run_training(TrainRequest(resumed, folder.path))
        finally:
            folder.add_seconds(time.perf_counter() - start)
            train_log.removeFilter(_is_no_metric)
    with progress.task("measuring"):
        result = measure_cell(config, folder, protocol)
    write_json(folder.path / "cell.json", result)


def _is_no_metric(record: logging.LogRecord) -> bool:
    """False for the last line of ``train``, with metrics of another split than the table's."""
    return not record.getMessage().startswith("metrics:")
