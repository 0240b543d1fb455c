"""What a checkpoint says of itself, and the digest that notices a changed bit.

Both kinds of file, Lightning's ``.ckpt`` and the ``.safetensors`` beside it, carry the same *info*:

=====================  ==========================================================================
``format``             number of this layout; a reader refuses one it does not know
``version``            version of the package that wrote it
``config``             the resolved config, enough to rebuild the algorithm
``vocabulary``         what ids or numbers mean, see ``Domain.vocabulary``
``size_counts``        training samples of each size
``data_fingerprint``   ``TokenDataset.fingerprint()`` of the data trained on
``step``               optimiser steps taken
``scheduled_steps``    optimiser steps after which the run was to end; null without an end
``machine``            what the last bits depend on: threads, processes, device, torch
``digest``             SHA-256 of all of the above and of the averaged weights
=====================  ==========================================================================
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion import __version__
from discrete_diffusion.domains import domain_of
from discrete_diffusion.plugins import import_plugins

FORMAT = 1
INFO_KEY = "discrete_diffusion"
WEIGHTS_PREFIX = "algorithm."
"""The algorithm's parameters inside the Lightning module."""

_INFO_KEYS = ("config", "vocabulary", "size_counts", "data_fingerprint", "step", "machine")
_CONFIG_KEYS = ("data", "algo", "model", "noise", "forward_process")


def checkpoint_info(
    config: Mapping[str, Any], size_counts: list[int], *, data_fingerprint: str
) -> dict[str, Any]:
    """The part of the info known before training: plain containers, so that no pickle is needed."""
    return {
        "format": FORMAT,
        "version": __version__,
        "config": dict(config),
        "vocabulary": domain_of(config["data"]).vocabulary(config["data"]),
        "size_counts": list(size_counts),
        "data_fingerprint": data_fingerprint,
    }


def algorithm_weights(state_dict: Mapping[str, Any]) -> dict[str, Tensor]:
    """The algorithm's own tensors of a Lightning ``state_dict``, by their name in it."""
    return {
        name.removeprefix(WEIGHTS_PREFIX): value
        for name, value in state_dict.items()
        if name.startswith(WEIGHTS_PREFIX) and isinstance(value, Tensor)
    }


def sealed(
    info: Mapping[str, Any],
    state_dict: Mapping[str, Any],
    *,
    step: int,
    machine: dict[str, Any],
    scheduled_steps: int | None = None,
) -> dict[str, Any]:
    """``info`` with where the run stands and the digest of it all and of the weights."""
    content = {**info, "step": step, "scheduled_steps": scheduled_steps, "machine": machine}
    return {**content, "digest": _digest(content, algorithm_weights(state_dict))}


def check_info(info: Any, weights: Mapping[str, Tensor], path: object) -> dict[str, Any]:
    """The info, once it is known to be ours, readable by this version, unchanged and to speak of
    the same vocabulary; else ``ValueError`` with one sentence. ``weights``: the averaged ones."""
    written = info.get("format") if isinstance(info, dict) else None
    if not isinstance(written, int) or written < 1:
        raise ValueError(f"{path} is not a checkpoint of discrete_diffusion: it names no format")
    if written > FORMAT:
        raise ValueError(
            f"{path} is a checkpoint of format {written}, written by version "
            f"{info.get('version', '?')}; this version ({__version__}) reads up to {FORMAT}: "
            "upgrade discrete-diffusion"
        )
    content = {key: value for key, value in info.items() if key != "digest"}
    if info.get("digest") != _digest(content, weights):
        raise ValueError(f"{path} is a damaged checkpoint: its contents do not match its digest")
    if missing := [key for key in _INFO_KEYS if key not in info]:
        raise ValueError(
            f"{path} is not a checkpoint of discrete_diffusion: it has no {', '.join(missing)}"
        )
    _check_config(info["config"], path)
    try:
        import_plugins(info["config"].get("plugins"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    _check_vocabulary(info, path)
    return info


def _check_config(config: Any, path: object) -> None:
    groups = config if isinstance(config, Mapping) else {}
    missing = [key for key in _CONFIG_KEYS if not isinstance(groups.get(key), Mapping)]
    if missing:
        raise ValueError(
            f"{path} is not a checkpoint of discrete_diffusion: its config has no "
            f"{', '.join(missing)} with keys of its own"
        )


def _check_vocabulary(info: Mapping[str, Any], path: object) -> None:
    data = info["config"]["data"]
    written, ours = info["vocabulary"], domain_of(data).vocabulary(data)
    differing = [key for key in ours if written.get(key) != ours[key]]
    if differing:
        key = differing[0]
        raise ValueError(
            f"{path} was written by version {info.get('version', '?')} with other {key}: "
            f"{_first_difference(written.get(key), ours[key])}; read it with that version"
        )


def _first_difference(written: Any, ours: Any) -> str:
    if isinstance(written, list) and isinstance(ours, list) and len(written) == len(ours):
        k = next(k for k in range(len(ours)) if written[k] != ours[k])
        return f"number {k} is {written[k]} there and {ours[k]} here"
    return f"{written} there and {ours} here"


def _digest(info: Mapping[str, Any], weights: Mapping[str, Tensor]) -> str:
    """SHA-256 of the info as JSON, then of every tensor's name, type, shape and bytes by name."""
    digest = hashlib.sha256(json.dumps(info, sort_keys=True, default=str).encode())
    for name in sorted(weights):
        value = weights[name].detach().cpu().contiguous()
        digest.update(f"\n{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
