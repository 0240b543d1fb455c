"""When a run may go on from a checkpoint: only as the run that wrote it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.checkpoints.files import is_weights_file, read_training_file
from discrete_diffusion.checkpoints.loading import load_weights, split_training_state

if TYPE_CHECKING:
    from discrete_diffusion.algorithms import Algorithm

_KEPT = (
    *("seed", "algo", "model", "noise", "forward_process", "optim"),
    *("data.batch_size", "data.node_order", "data.symmetry", "callbacks.ema_decay"),
)
"""Config keys on which the numbers of a run depend; a resumed run keeps them."""

_MAX_NAMED = 6
_ABSENT = "absent"


@dataclass(frozen=True)
class ResumePoint:
    """Where an interrupted run stands.

    ``step``: optimiser steps taken; ``config``, ``machine``: of the run that wrote it;
    ``stream``: the state of its training ``BatchStream``, or None.
    """

    path: Path
    step: int
    config: dict[str, Any]
    machine: dict[str, Any]
    stream: dict[str, int] | None


def check_resumable(
    path: str | Path,
    algorithm: Algorithm,
    *,
    config: Mapping[str, Any],
    data_fingerprint: str,
) -> ResumePoint:
    """Where the run of a ``.ckpt`` stands, if a run with this config would repeat its numbers.

    What may differ: ``trainer`` (its length and checks), ``eval``, ``sampling``, ``logger``,
    ``threads``, and how the same data is found.

    Raises the errors of ``load``, and ``ValueError`` naming every key that differs, what it was and
    what it is, or if the weights do not fit ``algorithm``.
    """
    path = Path(path)
    if is_weights_file(path):
        raise ValueError(f"{path} holds weights only; resume from the .ckpt beside it")
    state = read_training_file(path)
    info, weights = split_training_state(state, path)
    changes = _changes(info["config"], config)
    if info.get("data_fingerprint", data_fingerprint) != data_fingerprint:
        changes.append(f"the data (fingerprint {info['data_fingerprint']} -> {data_fingerprint})")
    if changes:
        named = ", ".join(changes[:_MAX_NAMED])
        more = f" and {len(changes) - _MAX_NAMED} more" if len(changes) > _MAX_NAMED else ""
        raise ValueError(
            f"{path} and this run do not fit: {named}{more} (was -> is); keep what was, or start a "
            "new run without resume"
        )
    load_weights(algorithm, weights, info, path)
    if not {"global_step", "loops", "optimizer_states"} <= set(state):
        raise ValueError(f"{path} holds no training state; resume from a run's last.ckpt")
    return ResumePoint(
        path, int(state["global_step"]), info["config"], info.get("machine", {}), _stream(state)
    )


def _changes(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """``key was -> is`` for every leaf under ``_KEPT`` that differs."""
    old, new = dict(_leaves(was)), dict(_leaves(now))
    keys = [
        k for k in {**old, **new} if any(k == kept or k.startswith(f"{kept}.") for kept in _KEPT)
    ]
    return [
        f"{key} {old.get(key, _ABSENT)} -> {new.get(key, _ABSENT)}"
        for key in keys
        if old.get(key, _ABSENT) != new.get(key, _ABSENT)
    ]


def _leaves(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _stream(state: Mapping[str, Any]) -> dict[str, int] | None:
    """The state of the training stream, as Lightning keeps it."""
    loop = state["loops"].get("fit_loop", {}).get("state_dict", {})
    loaders = loop.get("combined_loader") or [None]
    return loaders[0]
