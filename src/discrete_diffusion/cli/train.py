"""``discrete-diffusion train``: check a config, and train a model into a run folder.

Errors that the config alone shows are found before torch is imported.
"""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.algorithms.registry import ALGORITHMS
from discrete_diffusion.building.algorithm import check_states
from discrete_diffusion.building.backbones import check_sizes
from discrete_diffusion.cli.run_folders import reserve_run_folder
from discrete_diffusion.config.constructors import check_keys
from discrete_diffusion.config.files import check_exists, plain
from discrete_diffusion.config.plugins import LazyEntry, import_plugins, imported_object
from discrete_diffusion.config.values import (
    Bounds,
    Count,
    CountOrZero,
    NotNegative,
    check_divides,
    check_name,
)
from discrete_diffusion.domains.registry import domain_of, options_of
from discrete_diffusion.hub import check_model
from discrete_diffusion.models.registry import BACKBONES
from discrete_diffusion.runtime.devices import (
    PRECISIONS,
    check_compile,
    check_precision,
    check_units,
    computes_on_gpu,
    trainer_devices,
)
from discrete_diffusion.runtime.package import install_command
from discrete_diffusion.runtime.processes import (
    CommandSignals,
    Stop,
    is_first,
    silence_nonzero_ranks,
)
from discrete_diffusion.training.learning_rate import check_learning_rate

if TYPE_CHECKING:
    from discrete_diffusion.checkpoints.start import StartingWeights

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainRequest:
    """Request of a training run: the whole ``config``, stored in checkpoints, and the run folder.

    Raises ``ValueError`` naming the key of an invalid value."""

    config: DictConfig
    folder: Path

    def __post_init__(self) -> None:
        check_values(self.config)


def run(config: DictConfig) -> None:
    """Train in the folder that Hydra made; after a signal, print how to resume the run."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    folder = Path(HydraConfig.get().runtime.output_dir)
    silence_nonzero_ranks()
    request = TrainRequest(config, folder)
    try:
        with reserve_run_folder(folder, config) if is_first() else nullcontext():
            run_training(request)
    except Stop as stop:
        # the exit status is that of the first process
        if not is_first():
            raise SystemExit(0) from None
        # a job of a sweep is resumed by a separate command
        hydra = HydraConfig.get()
        sources = hydra.runtime.config_sources
        folders = [source.path for source in sources if source.provider == "command-line"]
        words = [word for folder in folders for word in ("--config-dir", folder)]
        job = [*words, *hydra.overrides.task] if hydra.mode == RunMode.MULTIRUN else None
        print(f"discrete-diffusion: {stop}; {resume_hint(stop, folder, job)}", file=sys.stderr)
        raise SystemExit(stop.exit_status) from None
    if is_first():
        logger.info("next: discrete-diffusion sample checkpoint=%s", shlex.quote(str(folder)))


def run_training(request: TrainRequest) -> dict[str, Any]:
    """Train, evaluate and sample as requested; everything is written into the folder.

    The files are ``config.yaml``, ``checkpoints/{best,last}.{ckpt,safetensors}``, ``metrics.json``
    and the samples, see ``Report.save``. Returns the contents of ``metrics.json`` in the first
    process. Raises ``Stop`` on SIGINT or SIGTERM, as soon as a checkpoint allows resuming the run.
    """
    from hydra.utils import instantiate

    config = request.config
    with CommandSignals() as signals:
        # before data is read
        devices = trainer_devices(config.trainer)
        check_trainer_units(config.trainer)
        start = starting_weights(config)
        from discrete_diffusion.training.run import train  # slow

        return train(
            *(config, request.folder),
            devices=devices,
            start=start,
            signals=signals,
            instantiate=instantiate,
        )


def starting_weights(config: DictConfig) -> StartingWeights | None:
    """Read the weights of ``init.checkpoint``; None if it is null or the run is resumed."""
    from discrete_diffusion.checkpoints.start import read_starting_weights

    # a list of parts, of a checkpoint
    init = plain(config.init)
    parts = init["modules"]
    if parts is not None and not (isinstance(parts, list) and parts):
        raise ValueError(f"init.modules={parts}: expected a list, as in init.modules=[encoder]")
    if init["checkpoint"] is None:
        if parts is not None:
            raise ValueError("init.modules needs init.checkpoint; give init.checkpoint=FILE too")
        return None
    if config.resume is not None:
        logger.info("init.checkpoint is not read: resume=%s replaces it", config.resume)
        return None
    return read_starting_weights(str(init["checkpoint"]), ema=init["ema"])


def resume_hint(stop: Stop, folder: Path, job: Sequence[str] | None = None) -> str:
    """Return the command that resumes a stopped run; ``job``: its overrides in a sweep."""
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


# --- checks of a config ---

check_optimizer = LazyEntry("discrete_diffusion.training.optimizers:check_optimizer")

_LOGGERS = {
    "lightning.pytorch.loggers.TensorBoardLogger": ("tensorboard", install_command("tensorboard")),
    "lightning.pytorch.loggers.WandbLogger": ("wandb", "pip install wandb"),
    "lightning.pytorch.loggers.MLFlowLogger": ("mlflow", install_command("mlflow")),
    "discrete_diffusion.training.TrackioLogger": ("trackio", "pip install trackio"),
}
"""Package that each logger needs, and the command that installs it."""

_Endless = Annotated[int, Bounds(least=-1)]

_OF_TRAINING = {
    **dict.fromkeys(
        ("trainer.max_steps", "trainer.max_epochs", "trainer.num_sanity_val_steps"), _Endless
    ),
    "trainer.check_val_every_n_epoch": Count,
    "trainer.log_every_n_steps": CountOrZero,
    "trainer.gradient_clip_val": NotNegative,
    "optim.weight_decay": NotNegative,
    "optim.max_skipped_steps": Count,
    "callbacks.ema_decay": Annotated[float, Bounds(least=0, below=1)] | None,
}
_OF_RUNS = {
    **dict.fromkeys(("trainer.num_nodes", "trainer.accumulate_grad_batches", "threads"), Count),
    **dict.fromkeys(("data.batch_size", "data.length"), Count),
    **dict.fromkeys(("eval.num_held_out", "eval.noise_samples"), Count),
    **dict.fromkeys(("seed", "callbacks.num_samples", "eval.num_samples"), CountOrZero),
}
KEYS = _OF_TRAINING | _OF_RUNS
"""Annotations of the values, apart from null, of keys that no constructor has."""

STRATEGIES = ("auto", "ddp", "ddp_find_unused_parameters_true", "fsdp")
"""Strategies of Lightning in which every process runs the whole command."""


def check_values(config: DictConfig) -> None:
    """Raise ``ValueError`` or ``FileNotFoundError`` for errors that a ``train`` config alone shows.

    Does not import torch or read data."""
    # a launcher may run the job in another process, which has not imported them
    import_plugins(config.get("plugins"))
    BACKBONES.entry(config.algo.backbone)
    check_strategy(config)
    precision = str(config.trainer.get("precision", "32-true"))
    check_precision("trainer.precision", precision, (*PRECISIONS, "16-mixed"))
    check_compile(config.get("compile", False))
    check_keys(config, _OF_RUNS)
    check_training_values(config)
    for name, option in options_of(domain_of(config.data), "train").items():
        option.check(OmegaConf.select(config, f"eval.{name}"), f"eval.{name}")
    check_states(config)
    check_sizes(config)
    _check_reward(config)


def check_training_values(config: DictConfig) -> None:
    """Check the keys of training: its length, optimiser, loggers and files."""
    check_keys(config, _OF_TRAINING)
    # a number of batches, or a share of an epoch
    interval = config.trainer.get("val_check_interval")
    share = isinstance(interval, float) and 0 < interval <= 1
    whole = isinstance(interval, int) and not isinstance(interval, bool) and interval > 0
    if isinstance(interval, int | float) and not (share or whole):
        raise ValueError(
            f"trainer.val_check_interval={interval}: expected a whole number of batches, or a "
            "share of an epoch above 0 and at most 1.0"
        )
    # torch is imported unless the optimiser is plain AdamW
    optim, along = plain(config.optim), ("lr_schedule", "warmup_steps", "decay_steps")
    check_learning_rate(lr=optim["lr"], **{key: optim.get(key) for key in along})
    own = {key: optim[key] for key in optim if key not in (*along, "max_skipped_steps")}
    if not own.keys() <= {"lr", "betas", "weight_decay"}:
        check_optimizer(own)
    # packages that loggers need, and callbacks of the user
    for name, options in (config.logger or {}).items():
        package, command = _LOGGERS.get(options.get("_target_"), (None, ""))
        found = None if package is None else find_spec(package)
        if package is not None and (found is None or found.origin is None):
            raise ValueError(f"logger={name} takes {package}, which is not installed: {command}")
    for name, extra in (plain(config.callbacks).get("extra") or {}).items():
        target = extra.get("_target_") if isinstance(extra, dict) else extra
        imported_object(f"callbacks.extra.{name}._target_", target)
    # files to read
    if config.resume is None:
        check_model("init.checkpoint", OmegaConf.select(config, "init.checkpoint"))
    check_exists("resume", config.resume, "checkpoint")
    for key in domain_of(config.data).data_files:
        check_exists(f"data.{key}", config.data.get(key))


def _check_reward(config: DictConfig) -> None:
    """Check that tuning by a reward has a trained model and a reward."""
    algo = config.algo
    if not getattr(ALGORITHMS.entry(algo.name), "has_reward", False):
        return
    if algo.get("reward") is None:
        raise ValueError(
            f"algo={algo.name} needs reward=NAME, a score of the samples, such as reward=valid"
        )
    if config.resume is None and OmegaConf.select(config, "init.checkpoint") is None:
        raise ValueError(
            f"algo={algo.name} tunes a trained model; give init.checkpoint=MODEL, its checkpoint "
            "or run folder"
        )
    size = config.data.batch_size
    check_divides(algo.group_size, size, f"data.batch_size={size}", key="algo.group_size")


def check_strategy(config: DictConfig) -> None:
    """Raise ``ValueError`` for a ``trainer.strategy`` or ``trainer.devices`` that does not fit."""
    options = config.trainer
    name, devices = options.get("strategy") or "auto", options.get("devices", 1)
    check_name("trainer.strategy", name, STRATEGIES)
    number = isinstance(devices, int) and not isinstance(devices, bool) and devices > 0
    if devices not in ("auto", -1) and not number:
        raise ValueError(
            f"trainer.devices={devices}: expected a number from 1, or auto for all; choose GPUs "
            "before the command, as in CUDA_VISIBLE_DEVICES=1"
        )
    # other strategies have no further conditions
    if name != "fsdp":
        return
    # with FSDP each process has a part of the weights
    if options.get("accelerator") == "cpu":
        raise ValueError("trainer.strategy=fsdp is for GPUs; take trainer=ddp on the CPU")
    if config.callbacks.ema_decay is not None:
        raise ValueError(
            "EMA is not supported with trainer.strategy=fsdp: it averages whole weights, of which "
            "each process has a part; set callbacks.ema_decay=null, or take trainer=ddp"
        )
    if str(config.optim.get("_target_")).endswith(("MuonAdamW", ".Muon")):
        raise ValueError(
            "trainer.strategy=fsdp does not go with Muon, which moves whole matrices, of which "
            "each process has a part; take optim=adamw, or trainer=ddp"
        )
    if options.get("gradient_clip_algorithm") == "value":
        raise ValueError(
            "trainer.strategy=fsdp can clip only the norm of gradients; leave out "
            "trainer.gradient_clip_algorithm=value"
        )


def check_trainer_units(options: Mapping[str, Any]) -> None:
    """Apply ``check_units`` to the precision and accelerator of ``config.trainer``."""
    precision = str(options.get("precision", "32-true"))
    check_units("trainer.precision", precision, on_gpu=computes_on_gpu(options))
