"""The libraries of the extra ``graphs``: igraph and orbit-count."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from discrete_diffusion.runtime.package import install_command

_MODULES = ("igraph", "orbit_count")


def library(name: str) -> Any:
    """One of the modules. Raises ``ValueError`` naming the extra that has it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ValueError(f"data of graphs take {name}: {install_command('graphs')}") from error


def check_installed() -> None:
    """``ValueError`` naming the extra if one of them is missing."""
    for name in _MODULES:
        if find_spec(name) is None:
            library(name)
