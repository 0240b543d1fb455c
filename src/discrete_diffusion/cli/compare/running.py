"""Cells trained and measured, one after the other or by a launcher of Hydra's."""

from __future__ import annotations

import logging
import os
import platform
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.checkpoints.contents import read_checkpoint
from discrete_diffusion.cli.compare.folder import CellFolder, config_digest, write_json
from discrete_diffusion.cli.override_words import quoted
from discrete_diffusion.cli.own_algorithms import with_algorithm
from discrete_diffusion.cli.search_path import is_search_path, own_hydra
from discrete_diffusion.cli.train import TrainRequest, run_training
from discrete_diffusion.config.files import plain
from discrete_diffusion.config.naming import counted
from discrete_diffusion.config.plugins import import_plugins
from discrete_diffusion.domains import build_data, domain_of
from discrete_diffusion.evaluation.held_out import held_out_split
from discrete_diffusion.evaluation.json_values import finite
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.version import __version__
from discrete_diffusion.sampling import build_sampler
from discrete_diffusion.sampling.exactness import approximations, exactness
from discrete_diffusion.sampling.model import Model

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.cli.compare.cells import Cell
    from discrete_diffusion.evaluation.evaluation_protocol import EvaluationProtocol

logger = logging.getLogger(__name__)


def run_cells(
    cells: Sequence[Cell],
    protocol: EvaluationProtocol,
    *,
    launcher: Sequence[str] = (),
    user_config_dir: str | None = None,
) -> None:
    """``run_cell`` of every one, through a launcher of Hydra's: those that ``launcher``, overrides
    such as ``hydra/launcher=joblib``, choose and set; by default one after the other in this
    process. Hydra's global state is left as it was.

    Raises ``ValueError`` naming the cells that failed, from the last error that is none of those
    that users can mend, if there is one.
    """
    from hydra.core.utils import JobStatus

    task = partial(run_cell, protocol=protocol, num_cells=len(cells))
    returned = _launched(cells, task, launcher, user_config_dir)
    failed, cause = [], None
    for cell, job in zip(cells, returned, strict=True):
        if job.status == JobStatus.COMPLETED:
            continue
        error = job._return_value  # return_value would raise it, and write a line of its own
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


def _launched(
    cells: Sequence[Cell],
    task: Callable[[DictConfig], None],
    launcher: Sequence[str],
    user_config_dir: str | None,
) -> Sequence[Any]:
    """What Hydra's launcher returns of each cell, with the config of which it calls ``task``."""
    from hydra._internal.callbacks import Callbacks  # Hydra has no public way to call a launcher
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.core.plugins import Plugins
    from hydra.types import HydraContext, RunMode

    former = HydraConfig.instance().cfg
    shared = [f"hydra.sweep.dir={quoted(str(cells[0].folder.path.parent))}", *launcher]
    hydra_log = logging.getLogger("hydra")
    level = hydra_log.level
    with own_hydra(user_config_dir, cells[0].overrides) as searchpath:
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        config = hydra.compose_config(
            "train", [*searchpath, *shared], run_mode=RunMode.MULTIRUN, from_shell=False
        )
        context = HydraContext(config_loader=hydra.config_loader, callbacks=Callbacks(config))
        try:
            HydraConfig.instance().set_config(config)
            hydra_log.setLevel(logging.WARNING)  # a line of overrides per job
            found = Plugins.instance().instantiate_launcher(
                hydra_context=context, task_function=task, config=config
            )
            jobs = [
                [*(o for o in c.overrides if not is_search_path(o)), f"hydra.sweep.subdir={c.name}"]
                for c in cells
            ]
            jobs = [with_algorithm(words, user_config_dir)[0] for words in jobs]
            returned: Sequence[Any] = found.launch(jobs, initial_job_idx=0)
        finally:
            HydraConfig.instance().cfg = former
            hydra_log.setLevel(level)
    return returned


def run_cell(config: DictConfig, *, protocol: EvaluationProtocol, num_cells: int) -> None:
    """Train a cell in the folder that the launcher made for it, or go on with it, and measure it;
    one of ``num_cells`` to run.

    Raises the errors of ``train``, and ``ValueError`` if training has diverged.
    """
    from hydra.core.hydra_config import HydraConfig

    folder = CellFolder(Path(HydraConfig.get().runtime.output_dir))
    folder.write_plan(config)
    number = int(HydraConfig.get().job.num) + 1
    logger.info("--- %s, cell %d of %d", folder.path.name, number, num_cells)
    cell = f"cell {number} of {num_cells}, {folder.path.name}"
    with progress.shown(logger.info, bar=False), progress.task(cell):
        _finish(config, folder, protocol)


def _finish(config: DictConfig, folder: CellFolder, protocol: EvaluationProtocol) -> None:
    """Train the cell, unless it is trained, and measure it."""
    if not folder.is_trained:
        resumed = config.copy()
        resumed.resume = str(folder.last) if folder.last.exists() else None
        train_log = logging.getLogger("discrete_diffusion.cli.train")
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
    """False for the last line of ``train``: its metrics are of another split than those of the
    table, and of fewer noise draws."""
    return not record.getMessage().startswith("metrics:")


def measure_cell(
    config: DictConfig, folder: CellFolder, protocol: EvaluationProtocol
) -> dict[str, Any]:
    """Contents of ``cell.json`` of a trained cell: its averaged weights of the last step, measured.

    Raises ``ValueError`` if weights, samples or the bound are those of a training gone wrong.
    """
    import torch

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    import_plugins(config.get("plugins"))  # a job of a launcher is a process of its own
    device = "cuda" if torch.cuda.is_available() else "cpu"
    checkpoint = read_checkpoint(folder.last, device=device)
    algorithm = checkpoint.algorithm
    if not all(weight.isfinite().all() for weight in algorithm.parameters()):
        raise ValueError("training has diverged: the weights hold NaN or infinity")
    data = build_data(checkpoint.config)
    model = Model(algorithm, build_sampler(config), device)
    found = domain_of(config.data).cell_measurement().measure(model, data, protocol, folder.path)
    metrics = {**found.pop("metrics"), "seconds_training": folder.seconds}
    return finite(
        {
            "digest": config_digest(config),
            "data_fingerprint": data.fingerprint(),
            "terms": protocol.as_dict(),
            "sampling": plain(config.sampling),
            **(exactness(approximations(model.sampler, algorithm)) if protocol.num_samples else {}),
            "steps": checkpoint.step,
            "split": held_out_split(data),
            **dict.fromkeys(("quantity", "ordering", "rows", "bounds")),
            **found,
            "metrics": metrics,
            "statistics": dict(algorithm.statistics()),
            "versions": {
                "discrete_diffusion": __version__,
                "torch": str(torch.__version__),
                "python": platform.python_version(),
            },
            "hardware": hardware(),
        }
    )


def hardware() -> str:
    """Processor, cores, threads of torch and GPU."""
    import torch

    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    cpu = names[0] if names else platform.processor() or platform.machine()
    cores, threads = os.cpu_count() or 1, torch.get_num_threads()
    parts = [cpu, counted(cores, "core"), counted(threads, "thread")]
    return ", ".join(parts + ([torch.cuda.get_device_name()] if torch.cuda.is_available() else []))
