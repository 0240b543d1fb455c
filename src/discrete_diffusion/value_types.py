"""Values of the wrong kind, refused by name before anything is built from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omegaconf import DictConfig


_MAY_BE_NULL = ("trainer.", "callbacks.ema_decay")
"""Keys, or what they start with, whose value null means "off"."""

_OF_CONSTRUCTORS = ("algo.", "forward_process.", "noise.", "sampling.")
"""What keys start with whose numbers ``check_options`` compares with the annotations of a
constructor; only those say where null is a value."""

_OF_SEVERAL_KINDS = ("trainer.devices",)
"""A number or text; whoever reads them says what else is wrong."""


def check_kinds(config: DictConfig, defaults: DictConfig) -> None:
    """Raise ``ValueError`` for the first value that is not of the kind of its default.

    Kinds: a number, true or false, text, a list, keys. Anything passes where the default is null or
    an interpolation. Where the default is text a number passes too: ``trainer.devices=2``. Null in
    the place of a constructor's number passes: ``check_options`` refuses it where it means nothing.
    """
    from omegaconf import OmegaConf

    given = OmegaConf.to_container(config, resolve=False)
    expected = OmegaConf.to_container(defaults, resolve=False)
    for key, value, default in _pairs("", given, expected):
        wanted, got = _kind(default), _kind(value)
        off = got == "null" and key.startswith(_MAY_BE_NULL)
        off |= (wanted, got) == ("a number", "null") and key.startswith(_OF_CONSTRUCTORS)
        known = key in _OF_SEVERAL_KINDS or (wanted, got) == ("text", "a number")
        if got == wanted or off or known:
            continue
        shown = "null" if value is None else value
        raise ValueError(f"{key}={shown}: expected {wanted}, as in the default {key}={default}")


def _pairs(key: str, given: Any, default: Any) -> Iterator[tuple[str, Any, Any]]:
    """(key, value, default) of every leaf that both have and whose default has a kind."""
    if isinstance(given, dict) and isinstance(default, dict):
        for name in given.keys() & default.keys():
            yield from _pairs(f"{key}.{name}" if key else str(name), given[name], default[name])
    elif isinstance(given, list) and isinstance(default, list):
        for k, value in enumerate(given if default else []):
            yield from _pairs(f"{key}[{k}]", value, default[min(k, len(default) - 1)])
    elif default is not None and not _is_interpolated(given) and not _is_interpolated(default):
        yield key, given, default


def _is_interpolated(value: Any) -> bool:
    """Its kind is that of what it points to."""
    return isinstance(value, str) and "${" in value


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
