"""Values of a config, checked against their defaults; errors name the user's key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from numbers import Integral
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.values import is_a

if TYPE_CHECKING:
    from omegaconf import DictConfig


def check_scaling(what: str, preset: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` unless ``scales_with`` of a model preset, ``what``, is absent or names
    keys of it that hold whole numbers."""
    named = preset.get("scales_with") or ()
    sizes = [key for key, value in leaves(preset) if is_a(Integral, value) and key != "parameters"]
    for key in [named] if isinstance(named, str) else named:
        if key not in sizes:
            raise ValueError(
                f"{what}: scales_with names {key!r}, expected a key of it that holds a whole "
                f"number: {', '.join(sizes) or 'it has none'}"
            )


def set_derived(config: MutableMapping[str, Any], section: str, values: Mapping[str, Any]) -> None:
    """Write into a ``section`` of a config what follows from the data. Raise ``ValueError`` for a
    key that is set to something else."""
    for key, value in values.items():
        if config.get(key) not in (None, value):
            raise ValueError(
                f"{section}.{key}={config[key]}, but the data has {value}; leave it out"
            )
        config[key] = value


def leaves(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a nested config with its dotted key: ``("algo.name", "mdlm")``, ..."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


_MAY_BE_NULL = ("trainer.", "callbacks.ema_decay", "init.", "resume", "size_tolerance")
"""Beginnings of keys whose value null means "off"."""

_OF_CONSTRUCTORS = ("algo.", "forward_process.", "noise.", "sampling.")
"""Beginnings of keys whose values a signature describes, see ``signatures``."""

_OF_SEVERAL_KINDS = ("trainer.devices", "compile")
"""A number or text, checked where it is read."""


def check_kinds(config: DictConfig, defaults: DictConfig, *, described: bool = False) -> None:
    """``check_kinds_of`` for composed configs; ``described``: but for what signatures describe."""
    from omegaconf import OmegaConf

    plain: list[Any] = [OmegaConf.to_container(each, resolve=False) for each in (config, defaults)]
    for group in _OF_CONSTRUCTORS if described else ():
        plain[0].pop(group.rstrip("."), None)
    check_kinds_of(*plain)


def check_kinds_of(given: Any, expected: Any) -> None:
    """Raise ``ValueError`` for the first value of a plain config that is not of the kind of its
    default in ``expected``: a number, true or false, text, a list, keys.

    Anything passes where the default is null or an interpolation, a number where it is text
    (``trainer.devices=2``).
    """
    for key, value, default in _pairs("", given, expected):
        off = value is None and key.startswith(_MAY_BE_NULL)
        off |= value is None and key.startswith(_OF_CONSTRUCTORS) and _kind(default) == "a number"
        if not off and key not in _OF_SEVERAL_KINDS:
            check_kind(key, value, default)


def check_kind(key: str, value: Any, default: Any) -> None:
    """Raise ``ValueError`` unless a value is of the kind of its default, which may be null."""
    wanted, got = _kind(default), _kind(value)
    if default is None or got == wanted or (wanted, got) == ("text", "a number"):
        return
    shown = "null" if value is None else value
    usual = str(default).lower() if isinstance(default, bool) else default
    raise ValueError(f"{key}={shown}: expected {wanted}, as in the default {key}={usual}")


def _pairs(key: str, given: Any, default: Any) -> Iterator[tuple[str, Any, Any]]:
    """(key, value, default) of every leaf that both have and whose default has a kind."""
    if isinstance(given, dict) and isinstance(default, dict):
        for name in given.keys() & default.keys():
            yield from _pairs(f"{key}.{name}" if key else str(name), given[name], default[name])
    elif isinstance(given, list) and isinstance(default, list):
        for k, value in enumerate(given if default else []):
            yield from _pairs(f"{key}[{k}]", value, default[min(k, len(default) - 1)])
    elif default is not None:
        texts = [value for value in (given, default) if isinstance(value, str)]
        if not any("${" in text for text in texts):  # interpolated: of the kind it points to
            yield key, given, default


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "keys"
