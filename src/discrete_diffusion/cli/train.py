"""``discrete-diffusion train``: from a config to a run folder."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from discrete_diffusion.api.output_folder import reserve_run_folder
from discrete_diffusion.cli.config_checks import check_values
from discrete_diffusion.cli.devices import check_trainer_units
from discrete_diffusion.cli.earlier_runs import resume_hint, starting_weights
from discrete_diffusion.runtime.devices import trainer_devices
from discrete_diffusion.runtime.processes import CommandSignals, is_first, silence_nonzero_ranks
from discrete_diffusion.runtime.stopping import Stop


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
