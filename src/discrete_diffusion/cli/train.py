"""``discrete-diffusion train``: from a config to a run folder."""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from discrete_diffusion.api.output_folder import reserve_run_folder
from discrete_diffusion.cli.config_checks import check_values
from discrete_diffusion.cli.devices import check_trainer_units
from discrete_diffusion.config.files import plain
from discrete_diffusion.runtime.devices import trainer_devices
from discrete_diffusion.runtime.processes import CommandSignals, is_first, silence_nonzero_ranks
from discrete_diffusion.runtime.stopping import Stop

if TYPE_CHECKING:
    from discrete_diffusion.checkpoints.initialising import StartingWeights

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainRequest:
    """A training run: the whole ``config``, which its checkpoints keep, and the ``folder`` that
    receives everything.

    Raises ``ValueError`` naming the key for a value that cannot be."""

    config: DictConfig
    folder: Path

    def __post_init__(self) -> None:
        check_values(self.config)


def run(config: DictConfig) -> None:
    """Train in the folder that Hydra made for this run.

    Ctrl-C and SIGTERM end it with exit status 130 or 143 and a line that says how to go on.
    """
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    folder = Path(HydraConfig.get().runtime.output_dir)
    silence_nonzero_ranks()
    request = TrainRequest(config, folder)
    try:
        with reserve_run_folder(folder, config) if is_first() else nullcontext():
            run_training(request)
    except Stop as stop:
        if not is_first():  # only the first one's exit status tells how the run ended
            raise SystemExit(0) from None
        hydra = HydraConfig.get()
        sources = hydra.runtime.config_sources
        folders = [source.path for source in sources if source.provider == "command-line"]
        words = [word for folder in folders for word in ("--config-dir", folder)]
        job = [*words, *hydra.overrides.task] if hydra.mode == RunMode.MULTIRUN else None
        print(f"discrete-diffusion: {stop}; {resume_hint(stop, folder, job)}", file=sys.stderr)
        raise SystemExit(stop.exit_status) from None


def run_training(request: TrainRequest) -> dict[str, Any]:
    """Train, evaluate and sample as requested; everything is written into the folder.

    Writes ``config.yaml``, ``checkpoints/{best,last}.{ckpt,safetensors}``, ``metrics.json`` and
    the samples, see ``Report.save``.
    Returns what ``metrics.json`` holds; in the first process, where there are several.
    Raises ``Stop`` on SIGINT or SIGTERM, as soon as the run can go on from a checkpoint.
    """
    from hydra.utils import instantiate

    config = request.config
    with CommandSignals() as signals:
        devices = trainer_devices(config.trainer)  # before data is read
        check_trainer_units(config.trainer)
        start = starting_weights(config)
        from discrete_diffusion.training.fitting import train  # slow

        return train(
            *(config, request.folder),
            devices=devices,
            start=start,
            signals=signals,
            instantiate=instantiate,
        )


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
