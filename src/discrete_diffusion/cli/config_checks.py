"""Errors that the config of a command shows by itself: refused before torch is imported."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

from omegaconf import OmegaConf

from discrete_diffusion.algorithms.registry import ALGORITHMS
from discrete_diffusion.building.algorithm import check_states
from discrete_diffusion.building.backbones import check_sizes
from discrete_diffusion.cli.devices import check_strategy, check_trainer_precision
from discrete_diffusion.config.constructors import check_keys
from discrete_diffusion.config.files import check_exists, plain
from discrete_diffusion.config.plugins import LazyEntry, import_plugins, imported_object
from discrete_diffusion.config.values import (
    Bounds,
    Count,
    CountOrZero,
    NotNegative,
    check_compile,
    check_divides,
)
from discrete_diffusion.domains.registry import domain_of
from discrete_diffusion.domains.request_checks import options_of
from discrete_diffusion.hub.published import check_model
from discrete_diffusion.models.registry import check_backbone_name
from discrete_diffusion.runtime.extras import install_command
from discrete_diffusion.training.learning_rate import check_learning_rate

if TYPE_CHECKING:
    from omegaconf import DictConfig

check_optimizer = LazyEntry("discrete_diffusion.training.optimizers:check_optimizer")

_OF_LOGGERS = {
    "lightning.pytorch.loggers.TensorBoardLogger": (
        "tensorboard",
        install_command("tensorboard"),
    ),
    "lightning.pytorch.loggers.WandbLogger": ("wandb", "pip install wandb"),
    "lightning.pytorch.loggers.MLFlowLogger": (
        "mlflow",
        install_command("mlflow"),
    ),
    "discrete_diffusion.training.TrackioLogger": ("trackio", "pip install trackio"),
}
"""Loggers -> the package that they need, and the command that brings it."""

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
    **dict.fromkeys(("eval.bound_samples", "eval.bound_draws"), Count),
    **dict.fromkeys(("seed", "callbacks.num_samples", "eval.num_samples"), CountOrZero),
}
KEYS = _OF_TRAINING | _OF_RUNS
"""Keys that no constructor has -> what they may be, besides null."""


def check_values(config: DictConfig) -> None:
    """``ValueError`` or ``FileNotFoundError`` for what a ``train`` config alone shows to be wrong:
    names, precision, counts, ranges, sizes that do not divide, missing files, parts of different
    states. Imports no torch, reads no data."""
    import_plugins(config.get("plugins"))  # a job of a launcher is a process of its own
    check_backbone_name(config.algo.backbone)
    check_strategy(config)
    check_trainer_precision(config.trainer)
    check_compile(config.get("compile", False))
    check_keys(config, _OF_RUNS)
    check_training_values(config)
    for name, option in options_of(domain_of(config.data), "train").items():
        option.check(OmegaConf.select(config, f"eval.{name}"), f"eval.{name}")
    check_states(config)
    check_sizes(config)
    _check_reward(config)


def check_training_values(config: DictConfig) -> None:
    """The same of what training itself reads: its length, optimiser and files."""
    check_keys(config, _OF_TRAINING)
    _check_interval(config.trainer.get("val_check_interval"))
    _check_optim(plain(config.optim))
    _check_loggers(config.logger)
    for name, extra in (plain(config.callbacks).get("extra") or {}).items():
        target = extra.get("_target_") if isinstance(extra, dict) else extra
        imported_object(f"callbacks.extra.{name}._target_", target)
    if config.resume is None:
        check_model("init.checkpoint", OmegaConf.select(config, "init.checkpoint"))
    check_exists("resume", config.resume, "checkpoint")
    for key in domain_of(config.data).data_files:
        check_exists(f"data.{key}", config.data.get(key))


def _check_reward(config: DictConfig) -> None:
    """What an algorithm needs that tunes a trained model by a reward."""
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


def _check_optim(options: dict[str, Any]) -> None:
    """Check the section ``optim``; torch is imported where its optimiser is not plain AdamW."""
    along = ("lr_schedule", "warmup_steps", "decay_steps")
    check_learning_rate(lr=options["lr"], **{key: options.get(key) for key in along})
    of_optimizer = {
        key: value for key, value in options.items() if key not in (*along, "max_skipped_steps")
    }
    if not of_optimizer.keys() <= {"lr", "betas", "weight_decay"}:
        check_optimizer(of_optimizer)


def _check_loggers(loggers: Any) -> None:
    """``ValueError`` with what to type for a logger whose package is not installed."""
    for name, options in (loggers or {}).items():
        package, command = _OF_LOGGERS.get(options.get("_target_"), (None, ""))
        found = None if package is None else find_spec(package)
        if package is not None and (found is None or found.origin is None):
            raise ValueError(f"logger={name} takes {package}, which is not installed: {command}")


def _check_interval(value: Any) -> None:
    """Check ``trainer.val_check_interval``: a number of batches, or a share of an epoch."""
    share = isinstance(value, float) and 0 < value <= 1
    whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
    if isinstance(value, int | float) and not (share or whole):
        raise ValueError(
            f"trainer.val_check_interval={value}: expected a whole number of batches, or a share "
            "of an epoch above 0 and at most 1.0"
        )
