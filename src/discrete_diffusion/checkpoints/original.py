"""Checkpoints of the code of MDLM, SEDD and Duo, read as models of this package.

No code in a file is run. The pickles hold settings of OmegaConf and tokenizers in addition to the
weights. Objects of the libraries in ``_IGNORED`` are read as ``Unread``, which keeps their state
and does nothing; a pickle that names anything else is refused.
"""

from __future__ import annotations

import json
import logging
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
from discrete_diffusion.checkpoints.original_format import (
    AS_PUBLISHED,
    EMBEDDING,
    FREQUENCIES,
    IDS,
    PARTS,
    Sizes,
    to_dit,
)
from discrete_diffusion.config.files import shipped_config
from discrete_diffusion.hub import CONFIG, WEIGHTS, OriginalCheckpoint

logger = logging.getLogger(__name__)

_SPECIAL = {30_522: (103, 101), 35: (4, 2)}
"""Ids of MASK and of the beginning of a sequence, by V, for tokenizers with a MASK: BERT's (LM1B)
and text8's. To other tokenizers, such as GPT-2's, MASK is appended as the last id, and a sequence
begins with the id before, the last of the tokenizer."""

_IN_FOLDERS = (
    *(WEIGHTS, "pytorch_model.bin", "checkpoints-meta/checkpoint.pth", "checkpoint.pth"),
    *("checkpoints/best.ckpt", "best.ckpt", "checkpoints/last.ckpt", "last.ckpt"),
)
"""Names of weight files in a folder: from the Hub, from a run of SEDD, of MDLM or Duo."""

_IGNORED = frozenset(
    {"omegaconf", "transformers", "tokenizers", "typing", "collections", "pathlib"}
)
"""Packages whose objects in a pickle are not needed for the weights."""

_TYPES = frozenset(
    f"builtins.{each.__name__}"
    for each in (dict, list, tuple, set, frozenset, int, float, str, bytes, bool, object)
)
"""Built-in types of Python that settings may contain."""

CONVERT = (
    "python -c \"import torch; c = torch.load('{name}', map_location='cpu', weights_only=False); "
    "torch.save({{k: c[k] for k in ('state_dict', 'model', 'ema') if k in c}}, 'weights.ckpt')\""
)
"""Command that keeps only the weights of a file; run in the environment that wrote the file."""

_STATES = ("state_dict", "model")
"""Keys under which Lightning and SEDD keep the tensors; other files have them at the top level."""

_SETTING_KEYS = {
    "length": ("model.length", "model_length", "length"),
    "n_heads": ("model.n_heads", "n_heads"),
    "dropout": ("model.dropout", "dropout"),
    "time_conditioning": ("algo.time_conditioning", "time_conditioning"),
    "noise": ("graph.type",),
    "scale_by_sigma": ("model.scale_by_sigma",),
}
"""Names of settings, with their keys in the configs of MDLM, SEDD, Duo and the Hub."""


@dataclass(frozen=True)
class OriginalModel:
    """Checkpoint of the original code as a model of this package.

    ``weights``: weights of the backbone ``dit``, averaged if the file has an average; ``trained``:
    last training weights; ``config``: config as ``train`` composes it.
    """

    path: Path
    config: dict[str, Any]
    weights: dict[str, Tensor]
    trained: dict[str, Tensor]
    length: int
    step: int


def read_original(checkpoint: OriginalCheckpoint) -> OriginalModel:
    """Read the model of a checkpoint.

    Raises the errors of ``_read_file``, and ``ValueError`` for another kind of network and for
    settings that do not fit the network.
    """
    file, kind = _read_file(checkpoint), checkpoint.kind
    # autoregressive networks do not read sigma
    causal = file.sizes.cond_dim is None
    if causal != (kind == "ar"):
        ones = "no {}, as autoregressive ones" if causal else "{}, as those of diffusion"
        weight = ones.format("sigma_map.mlp.0.weight")
        others = "ar:PATH" if causal else "mdlm:PATH, sedd:PATH or duo:PATH"
        raise ValueError(f"{file.path} has {weight}; load it as {others}, not as {kind}:")
    # variants of SEDD that this package cannot compute
    for name, value, other in (
        ("graph.type", file.settings.get("noise"), "uniform"),
        ("model.scale_by_sigma", file.settings.get("scale_by_sigma"), False),
    ):
        if kind == "sedd" and value == other:
            raise ValueError(
                f"{file.path} has {name}={str(value).lower()}; sedd: reads checkpoints of "
                "absorbing noise, whose output is scaled by sigma, alone"
            )
    # settings in the name come first
    settings = {**file.settings, **checkpoint.settings}
    config = _config_of_original(checkpoint, file, settings)
    data = config["data"]
    trained = to_dit(file.weights)
    averaged = {**trained} if file.averaged is None else to_dit(file.averaged)

    # the id of MASK has zero weights, as uniform noise never produces it
    for weights in (trained, averaged) if kind == "duo" else ():
        for name in {*IDS} & weights.keys():
            weights[name] = torch.cat([weights[name], torch.zeros_like(weights[name][:1])])
    logger.info(
        "%s: %s ids, MASK %d, length %d%s%s",
        *(checkpoint.name, f"{data['vocab_size']:,}", data["mask_id"], data["length"]),
        "" if "length" in settings else ", that of the published ones; ?length=N sets another",
        "" if file.averaged is None else "; averaged weights",
    )
    return OriginalModel(file.path, config, averaged, trained, data["length"], file.step)


def _config_of_original(
    checkpoint: OriginalCheckpoint, file: OriginalFile, settings: Mapping[str, Any]
) -> dict[str, Any]:
    parts, sizes = PARTS[checkpoint.kind], file.sizes

    # data: ids without a meaning; Duo's noise has all ids, so MASK is an additional id
    mask_id, begin_id = _SPECIAL.get(sizes.vocab_size, (sizes.vocab_size - 1, sizes.vocab_size - 2))
    vocab_size = sizes.vocab_size
    if checkpoint.kind == "duo":
        mask_id, vocab_size = vocab_size, vocab_size + 1
    data = {
        **shipped_config("data", "text"),
        "token_unit": "ids",
        "length": settings.get("length", 1024),  # that of the published ones
        "vocab_size": vocab_size,
        "mask_id": settings.get("mask_id", mask_id),
    }

    # the algorithm, and whether its network reads the noise level
    timed = parts.time_conditioning
    if checkpoint.kind == "mdlm":
        timed = bool(settings.get("time_conditioning", timed))
    algo = {**shipped_config("algo", parts.algo), "backbone": "dit", "time_conditioning": timed}
    if checkpoint.kind == "ar":
        algo["begin_id"] = settings.get("begin_id", begin_id)
    # the network, by its sizes
    model = {
        "name": checkpoint.kind,
        "backbones": ["dit"],
        "hidden_size": sizes.hidden_size,
        "n_blocks": sizes.n_blocks,
        "n_heads": _num_heads(checkpoint, file, settings),
        "cond_dim": sizes.cond_dim,
        "mlp_ratio": sizes.hidden_units / sizes.hidden_size,
        "dropout": settings.get("dropout", 0.1),
        "frequency_embedding_size": sizes.num_waves,
        "adaln": sizes.cond_dim is not None,
        **AS_PUBLISHED,
    }
    return {
        "data": data,
        "algo": algo,
        "model": model,
        "schedule": shipped_config("schedule", "log_linear"),
        "forward_process": shipped_config("forward_process", parts.process),
        "sampling": shipped_config("sampling", parts.sampler),
    }


def _num_heads(
    checkpoint: OriginalCheckpoint, file: OriginalFile, settings: Mapping[str, Any]
) -> int:
    # the rotary buffer has half a head's width
    heads = settings.get("n_heads")
    if FREQUENCIES in file.weights:
        given = checkpoint.settings.get("n_heads")
        heads = file.sizes.hidden_size // (2 * len(file.weights[FREQUENCIES]))
        if given not in (None, heads):
            raise ValueError(
                f"{checkpoint.name}: n_heads={given}, but {FREQUENCIES} in {file.path} is that of "
                f"{heads}; leave it out"
            )
    if heads is None:
        raise ValueError(
            f"{file.path} has no {FREQUENCIES}, which says how many heads there are; give "
            f"{checkpoint.name}{'&' if checkpoint.settings else '?'}n_heads=N"
        )
    return int(heads)


class Unread(dict[Any, Any]):
    """Stand-in for an object of another library in a pickle; keeps its state if that is a dict."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, Mapping):
            self.update(state)


@dataclass(frozen=True)
class OriginalFile:
    """Contents of a file of the original code.

    ``weights``: weights of the network by name; ``averaged``: moving average of the weights, or
    None; ``settings``: settings by name, such as ``length``; ``step``: optimiser steps taken, 0 if
    unknown.
    """

    path: Path
    weights: dict[str, Tensor]
    averaged: dict[str, Tensor] | None
    sizes: Sizes
    settings: dict[str, Any]
    step: int


def _read_file(checkpoint: OriginalCheckpoint) -> OriginalFile:
    """Read the file of a checkpoint; in a folder, the first of ``_IN_FOLDERS`` that exists.

    Raises ``FileNotFoundError`` or ``ValueError`` naming file, key and remedy if the file is
    missing, damaged or has other objects, or if a key is missing or has another shape.
    """
    checkpoint.check_exists("checkpoint")
    path = checkpoint.path
    if path.is_dir():
        files = (path / name for name in _IN_FOLDERS)
        if (file := next((file for file in files if file.is_file()), None)) is None:
            raise ValueError(f"{path} has none of {', '.join(_IN_FOLDERS)}; give the file")
        path = file

    # settings in config.json, as on the Hub, and in the pickle, then the tensors
    settings, config = {}, path.parent / CONFIG
    if config.is_file():
        try:
            settings = _known_settings(json.loads(config.read_text(encoding="utf-8")))
        except ValueError as error:
            raise ValueError(
                f"{config} is not valid JSON; repair it, or put it elsewhere"
            ) from error
    if is_weights_file(path):
        state: Mapping[str, Any] = read_weights_file(path)[1]
    else:
        state = _unpickle(path)
        settings |= _known_settings(state.get("hyper_parameters"))
    named, prefix = _network_tensors(state, path)
    weights = {k.removeprefix(prefix): v for k, v in named.items() if k.startswith(prefix)}
    try:
        sizes = Sizes.of(weights)
        sizes.check(weights)
        averaged = _averaged_weights(state.get("ema"), sizes)
    except ValueError as error:
        raise ValueError(
            f"{path}: {f'behind {prefix!r}, ' if prefix else ''}{error}; expected the network of "
            f"a checkpoint of {checkpoint.kind.upper()}, whole"
        ) from error
    # Lightning and SEDD name the step differently
    step = next((state[k] for k in ("global_step", "step") if isinstance(state.get(k), int)), 0)
    return OriginalFile(path, weights, averaged, sizes, settings, step)


def _unpickle(path: Path) -> Mapping[str, Any]:
    """Read a pickle; objects of other libraries become ``Unread``."""
    try:
        # the pickle is read only if all its names are allowed
        check_zip(path)
        named = get_unsafe_globals_in_checkpoint(path)
        unknown = (name for name in named if name.partition(".")[0] not in _IGNORED)
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


def _network_tensors(state: Mapping[str, Any], path: Path) -> tuple[dict[str, Tensor], str]:
    """Return the tensors by name, and the prefix of the names of the network's tensors."""
    # tensors below one of the known keys, or at the top
    inside = next((state[k] for k in _STATES if isinstance(state.get(k), Mapping)), state)
    tensors = {str(k): v for k, v in inside.items() if isinstance(v, Tensor)}
    prefixes = [key.removesuffix(EMBEDDING) for key in tensors if key.endswith(EMBEDDING)]
    if len(prefixes) > 1 and "backbone." in prefixes:  # a student, kept with its teacher
        prefixes = ["backbone."]
    if len(prefixes) != 1:
        held = ", ".join([*tensors][:3]) or "no tensors"
        number = f"{len(prefixes)} keys end" if prefixes else "no key ends"
        raise ValueError(
            f"{path}: {number} in {EMBEDDING}, with which the network of MDLM, SEDD and Duo begins;"
            f" it holds {held}, ...; give a checkpoint of their code, of one network"
        )
    return tensors, prefixes[0]


def _averaged_weights(ema: Any, sizes: Sizes) -> dict[str, Tensor] | None:
    """Averaged weights by name, from the list ``shadow_params``.

    The list has the network's parameters in their order, then numbers of the noise schedule.
    """
    shadow = ema.get("shadow_params") if isinstance(ema, Mapping) else None
    if not shadow:
        return None
    # as many tensors as parameters, then only numbers
    shapes = sizes.shapes()
    more = shadow[len(shapes) :]
    if len(shadow) < len(shapes) or any(value.numel() > 1 for value in more):
        raise ValueError(
            f"ema.shadow_params has {len(shadow)} tensors, but the network {len(shapes)} parameters"
        )
    # each with the shape of its parameter
    for k, (key, shape) in enumerate(shapes.items()):
        if tuple(shadow[k].shape) != shape:
            raise ValueError(
                f"ema.shadow_params[{k}] is {tuple(shadow[k].shape)}, but {key} is {shape}"
            )
    return dict(zip(shapes, shadow, strict=False))


def _known_settings(settings: Any) -> dict[str, Any]:
    """Return settings by the names of ``_SETTING_KEYS``; the first key found decides."""
    plain = plain_values(settings)
    config = plain.get("config", plain) if isinstance(plain, Mapping) else {}
    known: dict[str, Any] = {}
    for name, keys in _SETTING_KEYS.items():
        for key in keys:
            # follow the key, one part after the other
            value: Any = config
            for part in key.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
            if isinstance(value, int | float | str):
                known.setdefault(name, value)
    return known


def plain_values(node: Any) -> Any:
    """Convert a config of OmegaConf that was read as ``Unread`` to plain values."""
    if isinstance(node, Unread) and "_content" in node:
        return plain_values(node["_content"])
    if isinstance(node, Unread) and "_val" in node:
        return node["_val"]
    if isinstance(node, Mapping):
        return {key: plain_values(value) for key, value in node.items()}
    return node
