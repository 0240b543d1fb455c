"""When a run may go on from a checkpoint: only as the run that wrote it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from discrete_diffusion.checkpoints.contents import SENSELESS, read_contents, reason_of
from discrete_diffusion.checkpoints.files import LAST
from discrete_diffusion.config.constructors import leaves
from discrete_diffusion.config.values import is_number

if TYPE_CHECKING:
    from lightning.pytorch import Trainer

    from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm

logger = logging.getLogger(__name__)

_KEPT = (
    *("seed", "algo", "model", "noise", "forward_process", "optim"),
    *("data.batch_size", "data.node_order", "data.symmetry", "callbacks.ema_decay"),
    *("trainer.precision", "trainer.gradient_clip_val", "trainer.gradient_clip_algorithm"),
    *("trainer.accumulate_grad_batches", "trainer.limit_train_batches", "trainer.overfit_batches"),
)
"""Config keys on which the numbers of a run depend; a resumed run keeps them."""

_FREE = ("optim.max_skipped_steps", "model.encoder.download", "model.decoder.download")
"""Keys among these on which no number depends."""

_UNSET = {
    "trainer.precision": "32-true",
    "trainer.gradient_clip_val": 0,
    "trainer.gradient_clip_algorithm": "norm",
    "trainer.accumulate_grad_batches": 1,
    "trainer.limit_train_batches": 1.0,
    "trainer.overfit_batches": 0,
    "algo.condition_dropout": 0.0,
    "algo.weighting": "velocity",
    "model.fact_dropout": 0.3,
    "model.bias": True,
    "model.activation": "gelu",
    "model.sigma_input": "share",
    "model.adaln": True,
    "model.attention": "sdpa",
}
"""Meaning of an absent or null key: to Lightning, and in runs from before the key existed."""

_BATCHES_OR_SHARE = ("trainer.limit_train_batches", "trainer.overfit_batches")
"""Keys of which 1 is one batch and 1.0 is all of them."""

_NUMBERS = {
    "EMA": ("latest_update_step",),
    "SkippedSteps": ("total",),
    "RunCheckpoints": ("best_score", "best_step"),
}
"""What callbacks keep that is a number, or null."""

_MAX_NAMED = 6
_ABSENT = "absent"


@dataclass(frozen=True)
class ResumePoint:
    """State of an interrupted run.

    ``step``: optimiser steps taken; ``config``, ``machine``: of the run that wrote it;
    ``stream``: the state of its training ``BatchStream``, or None. ``validation_due``: it was
    written before a validation, which the resumed run begins with.
    """

    path: Path
    step: int
    config: dict[str, Any]
    machine: dict[str, Any]
    stream: dict[str, int] | None
    validation_due: bool = False

    @property
    def run_folder(self) -> Path | None:
        """The folder of the run that wrote it, None if the file does not lie in one."""
        folder = self.path.resolve().parent
        return folder.parent if folder.name == "checkpoints" else None

    def announce(self, config: Mapping[str, Any], trainer: Trainer, folder: Path) -> None:
        """Log where the run goes on, and what will differ from it."""
        logger.info("resuming %s at step %d, in %s", self.path, self.step, folder)
        if self.step == (steps := config["trainer"].get("max_steps")):
            logger.info(
                "it has all its trainer.max_steps=%d: no training, only the evaluation", steps
            )
        for sentence in (*code_left_out(self, config), *machine_changes(self, config, trainer)):
            logger.warning("%s", sentence)


def check_resumable(
    path: str | Path,
    algorithm: TokenAlgorithm,
    *,
    config: Mapping[str, Any],
    data_fingerprint: str,
) -> ResumePoint:
    """State of the run of a ``.ckpt``, or of the last.ckpt of a run folder, if a run with this
    config would repeat its numbers.

    What may differ: the length, the validations and the machine in ``trainer``, ``eval``,
    ``sampling``, ``logger``, ``threads``, and how the same data is found.

    Raises the errors of ``load``, and ``ValueError`` naming every key that differs, what it was and
    what it is, if the weights do not fit ``algorithm``, or if this run ends before that one did.
    """
    found = read_contents(path, of_folder=LAST)
    path = found.path
    info, state = found.info, found.state
    if state is None:
        raise ValueError(f"{path} holds weights only; resume from the .ckpt beside it")
    changes = _changes(info["config"], config)
    if info["data_fingerprint"] != data_fingerprint:
        changes.append(f"the data (fingerprint {info['data_fingerprint']} -> {data_fingerprint})")
    if changes:
        named = ", ".join(changes[:_MAX_NAMED])
        more = f" and {len(changes) - _MAX_NAMED} more" if len(changes) > _MAX_NAMED else ""
        raise ValueError(
            f"{path} and this run do not fit: {named}{more} (was -> is); restore these settings, "
            "or start a new run without resume"
        )
    found.load_into(algorithm)
    if not {"global_step", "loops", "optimizer_states"} <= set(state):
        raise ValueError(f"{path} holds no training state; resume from a run's last.ckpt")
    try:
        loop = state["loops"].get("fit_loop", {}).get("state_dict", {})
        stream = (loop.get("combined_loader") or [None])[0]  # as Lightning keeps it
        callbacks = state.get("callbacks", {})
        saved = callbacks.get("RunCheckpoints", {})
        for name, keys in _NUMBERS.items():
            for key in keys:
                value = (callbacks.get(name) or {}).get(key)
                if value is not None and not is_number(value):
                    raise TypeError(f"{name}.{key} is a {type(value).__name__}, no number")
        due, step = bool(saved.get("validation_due", False)), int(state["global_step"])
    except SENSELESS as error:
        raise ValueError(f"{path} holds a broken training state: {reason_of(error)}") from error
    steps = (config.get("trainer") or {}).get("max_steps")  # null and -1: no limit
    if steps is not None and 0 < steps < step:
        raise ValueError(
            f"{path} is of step {step}, past trainer.max_steps={steps}; give a larger "
            "trainer.max_steps"
        )
    return ResumePoint(path, step, info["config"], info["machine"], stream, due)


def code_left_out(point: ResumePoint, config: Mapping[str, Any]) -> list[str]:
    """A sentence for each class that the run had from its config and this one lacks: a file chooses
    no code, so the command must name it."""
    now = dict(leaves(config))
    return [
        f"{key.removesuffix('._target_')} of {point.path} is left out: a checkpoint names no code "
        f"that is run; give {'+' * (not key.startswith('optim'))}{key}={value} to have it"
        for key, value in leaves(point.config)
        if key.endswith("_target_") and value is not None and now.get(key) != value
    ]


def machine_changes(point: ResumePoint, config: Mapping[str, Any], trainer: Trainer) -> list[str]:
    """A sentence for each change that makes numbers differ."""
    now: dict[str, Any] = {"device": trainer.strategy.root_device.type, "torch": torch.__version__}
    if (
        trainer.world_size == 1 or config.get("threads") is not None
    ):  # else they are divided at launch
        now["threads"] = torch.get_num_threads()
    was = point.machine
    sentences = [
        f"{name} was {was[name]} and is {value}: numbers may differ in their last bits"
        for name, value in now.items()
        if was.get(name, value) != value
    ]
    if (former := was.get("processes", trainer.world_size)) != trainer.world_size:
        sentences.append(
            f"the run had {former} processes and has {trainer.world_size}: each step sees other "
            "batches, so numbers will differ"
        )
    return sentences


def _changes(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """``key was -> is`` for every leaf under ``_KEPT`` that differs; absent and null are one."""
    old, new = dict(leaves(was)), dict(leaves(now))
    keys = [
        k
        for k in {**old, **new}
        if k not in _FREE and any(k == kept or k.startswith(f"{kept}.") for kept in _KEPT)
    ]
    return [
        f"{key} {old.get(key, _ABSENT)} -> {new.get(key, _ABSENT)}"
        for key in keys
        if _meaning(key, old.get(key)) != _meaning(key, new.get(key))
    ]


def _meaning(key: str, value: Any) -> Any:
    """A value such that two of one meaning are equal."""
    value = _UNSET.get(key) if value is None else value
    return (value, isinstance(value, int) and value == 1) if key in _BATCHES_OR_SHARE else value
