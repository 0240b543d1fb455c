"""Files of the code of MDLM, SEDD and Duo, read without running anything that they hold.

Their pickles hold settings of OmegaConf and tokenizers beside the weights. Objects of the libraries
in ``_STOOD_FOR`` are read as ``Unread``, which keeps their state and does nothing; a pickle that
names anything else is refused.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from discrete_diffusion.checkpoints.files import (
    DAMAGE,
    check_zip,
    is_weights_file,
    read_weights_file,
)
from discrete_diffusion.checkpoints.original_weights import EMBEDDING, Sizes
from discrete_diffusion.hub.published import CONFIG, WEIGHTS, OriginalCheckpoint

_IN_FOLDERS = (
    *(WEIGHTS, "pytorch_model.bin", "checkpoints-meta/checkpoint.pth", "checkpoint.pth"),
    *("checkpoints/best.ckpt", "best.ckpt", "checkpoints/last.ckpt", "last.ckpt"),
)
"""Files of a folder that hold weights: of the Hub, of a run of SEDD, of one of MDLM or Duo."""

_STOOD_FOR = frozenset(
    {"omegaconf", "transformers", "tokenizers", "typing", "collections", "pathlib"}
)
"""Packages whose objects mean nothing for the weights."""

_TYPES = frozenset(
    f"builtins.{each.__name__}"
    for each in (dict, list, tuple, set, frozenset, int, float, str, bytes, bool, object)
)
"""Types of Python itself that settings name."""

CONVERT = (
    "python -c \"import torch; c = torch.load('{name}', map_location='cpu', weights_only=False); "
    "torch.save({{k: c[k] for k in ('state_dict', 'model', 'ema') if k in c}}, 'weights.ckpt')\""
)
"""Command that keeps the weights alone, for the environment of the code that wrote a file."""


class Unread(dict[Any, Any]):
    """Stand-in for an object of another library in a pickle; its state, if it is one of keys."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, Mapping):
            self.update(state)


@dataclass(frozen=True)
class OriginalFile:
    """Contents of a file. ``weights``: of the network, by their names; ``averaged``: their moving
    average, or None; ``facts``: settings by name, such as ``length``; ``step``: optimiser steps
    taken, 0 if the file does not say."""

    path: Path
    weights: dict[str, Tensor]
    averaged: dict[str, Tensor] | None
    sizes: Sizes
    facts: dict[str, Any]
    step: int


def read_original_file(checkpoint: OriginalCheckpoint) -> OriginalFile:
    """The file of a checkpoint, or, of a folder, the first of ``_IN_FOLDERS`` in it.

    Raises ``FileNotFoundError`` or ``ValueError`` naming file, key and remedy: no such file,
    damaged, a pickle of other things, a key that is missing or has another shape.
    """
    checkpoint.check_exists("checkpoint")
    path = _file(checkpoint.path)
    facts = _beside(path)
    if is_weights_file(path):
        state: Mapping[str, Any] = read_weights_file(path)[1]
    else:
        state = _unpickled(path)
        facts |= _facts(state.get("hyper_parameters"))
    named, prefix = _network(state, path)
    weights = {k.removeprefix(prefix): v for k, v in named.items() if k.startswith(prefix)}
    try:
        sizes = Sizes.of(weights)
        sizes.check(weights)
        averaged = _averaged(state.get("ema"), sizes)
    except ValueError as error:
        raise ValueError(
            f"{path}: {f'behind {prefix!r}, ' if prefix else ''}{error}; expected the network of "
            f"a checkpoint of {checkpoint.kind.upper()}, whole"
        ) from error
    step = next((state[k] for k in ("global_step", "step") if isinstance(state.get(k), int)), 0)
    return OriginalFile(path, weights, averaged, sizes, facts, step)


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    for name in _IN_FOLDERS:
        if (path / name).is_file():
            return path / name
    raise ValueError(f"{path} is a folder without one of {', '.join(_IN_FOLDERS)}; give the file")


def _unpickled(path: Path) -> Mapping[str, Any]:
    try:
        check_zip(path)
        named = get_unsafe_globals_in_checkpoint(path)
        unknown = (name for name in named if name.partition(".")[0] not in _STOOD_FOR)
        refused = sorted(name for name in unknown if name not in _TYPES)
        if not refused:
            with safe_globals([(Unread, name) for name in named]):
                state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except DAMAGE as error:
        if not isinstance(error, pickle.UnpicklingError):
            raise ValueError(f"{path} is not a readable checkpoint: damaged, or not one") from error
        _, _, reason = str(error).rpartition("WeightsUnpickler error:")
        raise ValueError(_refusal(path, reason.strip().split("\n")[0])) from error
    if refused:
        raise ValueError(_refusal(path, f"its pickle holds {', '.join(refused[:3])}"))
    if not isinstance(state, Mapping):
        raise ValueError(f"{path} is not a checkpoint: it holds a {type(state).__name__}")
    return state


def _refusal(path: Path, reason: str) -> str:
    return (
        f"{path} is refused by torch.load(weights_only=True): {reason}. If you trust it, keep its "
        f"weights alone where the code that wrote it is installed: {CONVERT.format(name=path.name)}"
    )


_STATES = ("state_dict", "model")
"""Keys under which Lightning and SEDD keep the tensors; others keep them by themselves."""


def _network(state: Mapping[str, Any], path: Path) -> tuple[dict[str, Tensor], str]:
    """The tensors by name, and what stands before the names of the network's."""
    inside = next((state[k] for k in _STATES if isinstance(state.get(k), Mapping)), state)
    found = {str(k): v for k, v in inside.items() if isinstance(v, Tensor)}
    prefixes = [key.removesuffix(EMBEDDING) for key in found if key.endswith(EMBEDDING)]
    if len(prefixes) > 1 and "backbone." in prefixes:  # of a student, beside its teacher
        prefixes = ["backbone."]
    if len(prefixes) != 1:
        held = ", ".join([*found][:3]) or "no tensors"
        which = f"{len(prefixes)} keys end" if prefixes else "no key ends"
        raise ValueError(
            f"{path}: {which} in {EMBEDDING}, with which the network of MDLM, SEDD and Duo begins; "
            f"it holds {held}, ...; give a checkpoint of theirs, of one network"
        )
    return found, prefixes[0]


def _averaged(ema: Any, sizes: Sizes) -> dict[str, Tensor] | None:
    """Weights by name of the list ``shadow_params``, which has the network's parameters in their
    order, then those of the noise schedule, numbers."""
    shadow = ema.get("shadow_params") if isinstance(ema, Mapping) else None
    if not shadow:
        return None
    shapes = sizes.shapes()
    more = shadow[len(shapes) :]
    if len(shadow) < len(shapes) or any(value.numel() > 1 for value in more):
        raise ValueError(
            f"ema.shadow_params has {len(shadow)} tensors, but the network {len(shapes)} parameters"
        )
    for k, (key, shape) in enumerate(shapes.items()):
        if tuple(shadow[k].shape) != shape:
            raise ValueError(
                f"ema.shadow_params[{k}] is {tuple(shadow[k].shape)}, but {key} is {shape}"
            )
    return dict(zip(shapes, shadow, strict=False))


def _beside(path: Path) -> dict[str, Any]:
    """Settings of the ``config.json`` beside weights, as the Hub has them."""
    config = path.parent / CONFIG
    if not config.is_file():
        return {}
    try:
        return _facts(json.loads(config.read_text(encoding="utf-8")))
    except ValueError as error:
        raise ValueError(f"{config} is not valid JSON; repair it, or put it elsewhere") from error


_KEYS = {
    "length": ("model.length", "model_length", "length"),
    "n_heads": ("model.n_heads", "n_heads"),
    "dropout": ("model.dropout", "dropout"),
    "time_conditioning": ("algo.time_conditioning", "time_conditioning"),
    "noise": ("graph.type",),
    "scale_by_sigma": ("model.scale_by_sigma",),
}
"""Settings by name, and where the configs of MDLM, SEDD, Duo and the Hub have them."""


def _facts(settings: Any) -> dict[str, Any]:
    found = plain_values(settings)
    config = found.get("config", found) if isinstance(found, Mapping) else {}
    values = {name: [_at(config, key) for key in keys] for name, keys in _KEYS.items()}
    known = {name: [v for v in each if v is not None] for name, each in values.items()}
    return {name: each[0] for name, each in known.items() if each}


def _at(config: Any, key: str) -> Any:
    for part in key.split("."):
        config = config.get(part) if isinstance(config, Mapping) else None
    return config if isinstance(config, int | float | str) else None


def plain_values(node: Any) -> Any:
    """Values of a config of OmegaConf that was read as ``Unread``."""
    if isinstance(node, Unread) and "_content" in node:
        return plain_values(node["_content"])
    if isinstance(node, Unread) and "_val" in node:
        return node["_val"]
    if isinstance(node, Mapping):
        return {key: plain_values(value) for key, value in node.items()}
    return node
