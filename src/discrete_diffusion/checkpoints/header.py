"""Schema of a checkpoint's info: its keys, the kinds of their values, its digest.

What others wrote is read with it before anything else looks at it, so that an odd value is one
``ValueError`` that names file and key.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.config.constructors import check_kinds_of, leaves
from discrete_diffusion.config.files import shipped_config
from discrete_diffusion.config.values import is_a
from discrete_diffusion.runtime.package import __version__

FORMAT = 1

_PARTS = ("data", "algo", "model", "noise", "forward_process")
"""Groups of a config that a model is built from."""

_NAMES = {"algo": ("name", "backbone"), "sampling": ("name",), "data": ("domain",)}
"""Keys of the groups that must be there, and be texts."""

_LARGEST = 2**53
"""Bound of whole numbers: a model, its data and its run have none above."""

_LARGEST_SIZE = 2**16
"""Bound of sizes, such as widths, lengths and numbers of ids, of a network of fewer weights."""

_MOST_VALUES = 2**18
"""Bound of keys and values in a config; it is eightfold for the other parts of an info."""

_LONGEST = 2**28
"""Bound of the characters of a part of an info."""

_NO_SIZE = {
    *("seed", "parameters", "counted", "plans", "samples", "windows", "words", "span", "split"),
    *("batch", "theta", "period", "reward"),
}
"""Words in the keys of whole numbers that no tensor is as large as."""


def _is_count(value: Any) -> bool:
    return is_a(int, value) and 0 <= value <= _LARGEST


def _is_list_of(kind: type, value: Any) -> bool:
    return isinstance(value, list | tuple) and all(is_a(kind, each) for each in value)


def _is_part(part: Any) -> bool:
    """True for an entry of ``plugins``, see ``plugged_in``."""
    return (
        isinstance(part, Mapping)
        and part.keys() >= {"noun", "name", "module"}
        and all(isinstance(value, str) for value in part.values())
    )


_SCHEMA: dict[str, tuple[Callable[[Any], bool], str]] = {
    "version": (lambda value: isinstance(value, str), "a text"),
    "config": (lambda value: isinstance(value, Mapping), "keys, such as data and model"),
    "plugins": (
        lambda value: _is_list_of(object, value) and all(map(_is_part, value)),
        "a list of parts, each with the texts noun, name and module",
    ),
    "vocabulary": (lambda value: isinstance(value, Mapping), "keys, such as n_max"),
    "size_counts": (
        lambda value: _is_list_of(int, value) and all(map(_is_count, value)) and any(value),
        "a list of whole numbers, at least 0, not all of them 0",
    ),
    "data_fingerprint": (lambda value: value is None or isinstance(value, str), "a text or null"),
    "step": (_is_count, "a whole number, at least 0"),
    "scheduled_steps": (
        lambda value: value is None or _is_count(value),
        "a whole number, at least 0, or null",
    ),
    "machine": (lambda value: isinstance(value, Mapping), "keys, such as threads"),
}
"""Keys of an info besides ``format`` and ``digest``: what a value must be, in code and in words."""

_OPTIONAL = ("version", "plugins", "scheduled_steps")


def digest_of(info: Mapping[str, Any], weights: Mapping[str, Tensor]) -> str:
    """SHA-256 of the info as JSON, then of every tensor's name, type, shape and bytes by name."""
    digest = hashlib.sha256(json.dumps(info, sort_keys=True, default=str).encode())
    for name in sorted(weights):
        value = weights[name].detach().cpu().contiguous()
        digest.update(f"\n{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def with_new_digest(info: Mapping[str, Any], weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """The info of a checkpoint, with the digest that it has with other ``weights``."""
    content = {key: value for key, value in info.items() if key != "digest"}
    return {**content, "digest": digest_of(content, weights)}


def check_header(info: Any, weights: Mapping[str, Tensor], path: Path) -> None:
    """``check_schema``, and raise ``ValueError`` for a digest that is not that of the info and of
    the ``weights``, and for sizes that no network of these ``weights`` has."""
    _check_format(info, path)
    _check_plain(info, path)
    if not is_a(str, info.get("digest")):
        raise ValueError(
            f"{path} is refused: it has no digest, which every checkpoint of discrete_diffusion has"
        )
    if info["digest"] != with_new_digest(info, weights)["digest"]:
        raise ValueError(f"{path} is a damaged checkpoint: its contents do not match its digest")
    check_schema(info, path)
    _check_sizes(info, weights, path)


def check_schema(info: Any, path: Path) -> None:
    """Raise ``ValueError`` naming file and key unless ``info`` is that of a checkpoint which this
    version reads, and every value is of its kind: of the kinds in ``_SCHEMA``, and in the groups of
    the config of the kinds of the shipped defaults."""
    _check_format(info, path)
    _check_plain(info, path)
    if missing := [key for key in _SCHEMA if key not in info and key not in _OPTIONAL]:
        raise ValueError(
            f"{path} is not a checkpoint of discrete_diffusion: it has no {', '.join(missing)}"
        )
    for key, (fits, expected) in _SCHEMA.items():
        if key in info and not fits(info[key]):
            raise ValueError(f"{path}: {key} is {_shown(info[key])}; expected {expected}")
    _check_config(info["config"], path)


def _check_format(info: Any, path: Path) -> None:
    written: Any = info.get("format") if isinstance(info, dict) else None
    if not is_a(int, written) or written < 1:
        raise ValueError(f"{path} is not a checkpoint of discrete_diffusion: it names no format")
    if written > FORMAT:
        raise ValueError(
            f"{path} is a checkpoint of format {written}, written by version "
            f"{info.get('version', '?')}; this version ({__version__}) reads up to {FORMAT}: "
            "upgrade discrete-diffusion"
        )


def _check_plain(info: dict[str, Any], path: Path) -> None:
    """Raise ``ValueError`` for what JSON has no form for, such as a tensor or a list in itself, and
    for what the config library would replace."""
    for key, value in info.items():
        text = _as_json(key, value, path)
        _, live, rest = text.partition("${")
        if key == "config" and (live or '"???"' in text):
            raise ValueError(
                f"{path} is refused: its config holds {live + rest[:40] or '???'!r}, which would "
                "read values of this machine; a checkpoint of discrete_diffusion holds plain "
                "values alone"
            )


def _as_json(key: str, value: Any, path: Path) -> str:
    """JSON of a value of the info. It is counted while it is written: in a pickle a few lists that
    hold one another several times stand for any number of values."""
    most = _MOST_VALUES if key == "config" else 8 * _MOST_VALUES
    pieces, length = [], 0
    try:
        for piece in json.JSONEncoder(sort_keys=True).iterencode(value):
            pieces.append(piece)
            length += len(piece)
            if len(pieces) > most or length > _LONGEST:
                break
        else:
            return "".join(pieces)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{path}: {key} holds more than keys, lists, numbers and texts: {error}"
        ) from error
    raise ValueError(f"{path}: {key} holds more values, or longer ones, than any checkpoint does")


def _check_sizes(info: Mapping[str, Any], weights: Mapping[str, Tensor], path: Path) -> None:
    """Raise ``ValueError`` for a whole number that may be a size and is larger than all weights
    together: its network would take all memory before it is found not to fit."""
    most = max(_LARGEST_SIZE, sum(value.numel() for value in weights.values()))
    parts = {group: info["config"][group] for group in _PARTS}
    for key, value in leaves({**parts, "vocabulary": info["vocabulary"]}):
        numbers = value if isinstance(value, list | tuple) else [value]
        large = any(is_a(int, number) and abs(number) > most for number in numbers)
        if large and _NO_SIZE.isdisjoint(re.split(r"[._]", key)):
            raise ValueError(
                f"{path}: {key} is {_shown(value)}; expected at most {most}, as the file has no "
                "weights for more"
            )


def _check_config(config: Mapping[str, Any], path: Path) -> None:
    """Check the parts that a model is built from and its sampler."""
    if missing := [key for key in _PARTS if not isinstance(config.get(key), Mapping)]:
        raise ValueError(
            f"{path} is not a checkpoint of discrete_diffusion: its config has no "
            f"{', '.join(missing)} with keys of its own"
        )
    plugins = config.get("plugins")
    if not (plugins is None or is_a(str, plugins) or _is_list_of(str, plugins)):
        raise ValueError(
            f"{path}: config.plugins is {_shown(plugins)}; expected a list of names of modules"
        )
    for group in (*_PARTS, *(["sampling"] if "sampling" in config else [])):
        _check_group(config[group], group, path)


def _check_group(keys: Any, group: str, path: Path) -> None:
    """Check a group of a config against the shipped one of its name, if there is one."""
    if not isinstance(keys, Mapping):
        raise ValueError(f"{path}: config.{group} is {_shown(keys)}; expected keys, such as name")
    for key in _NAMES.get(group, ("name",)):
        if not is_a(str, keys.get(key)) and (key in keys or group in _NAMES):
            raise ValueError(f"{path}: {group}.{key} is {_shown(keys.get(key))}; expected a text")
    for key, value in leaves(keys, f"{group}."):
        if is_a(int, value) and abs(value) > _LARGEST:
            raise ValueError(f"{path}: {key} is {_shown(value)}; expected at most {_LARGEST}")
    try:
        check_kinds_of({group: keys}, {group: shipped_config(group, keys.get("name", ""))})
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def unusual_settings(config: Mapping[str, Any]) -> str:
    """``model.d_model=16, ...``: settings of the model, the data and the algorithm that are not as
    shipped, to name what may be wrong with a model that cannot be built."""
    found = []
    for group in ("model", "algo", "data"):
        usual = dict(leaves(shipped_config(group, config[group].get("name", ""))))
        found += [
            f"{group}.{key}={_shown(value)}"
            for key, value in leaves(config[group])
            if key in usual and usual[key] != value
        ]
    return ", ".join(found[:8]) + (", ..." if len(found) > 8 else "")


def _shown(value: Any) -> str:
    """A value of a file as a message quotes it: short, without what a terminal would obey."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
