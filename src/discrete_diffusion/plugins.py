"""Plug-ins of installed packages: entry points, imported on first use."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

_LOADED: set[tuple[str, str, str]] = set()


def load_plugins(
    group: str, noun: str, register: Callable[[str, Any], None] = lambda name, loaded: None
) -> None:
    """Import the entry points of a ``group`` that were not imported yet.

    A module registers what it has on import; anything else is given to ``register`` with the name
    of the entry point. A broken one warns by name, as a ``noun``, and disturbs nobody else.
    """
    for entry_point in entry_points(group=group):
        key = (group, entry_point.name, entry_point.value)
        if key in _LOADED:
            continue
        _LOADED.add(key)
        try:
            loaded = entry_point.load()
            if not isinstance(loaded, ModuleType):
                if not callable(loaded):
                    raise TypeError(f"expected a module or a builder, got {type(loaded).__name__}")
                register(entry_point.name, loaded)
        except Exception as error:  # a stranger's code: it must not take the others down
            package = entry_point.dist.name if entry_point.dist else "an unknown package"
            warnings.warn(
                f"{noun} plug-in {entry_point.name!r} ({entry_point.value}, from {package}) "
                f"was left out: {type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=3,
            )
