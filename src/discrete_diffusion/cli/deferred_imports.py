"""Modules that Lightning imports and a run does not use."""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

_PARTS = {"Metric": "metric", "MetricCollection": "collections", "__version__": "__about__"}
"""All that Lightning asks of torchmetrics -> the module that has it."""


class _Deferred(ModuleType):
    """torchmetrics, which is imported as a whole when anything else of it is requested."""

    def __getattr__(self, name: str) -> Any:
        if name == "_logger":  # of its module of messages
            return logging.getLogger("torchmetrics")
        if name in _PARTS:
            try:
                import_module("torchmetrics.utilities")  # first: its parts import each other
                return getattr(import_module(f"torchmetrics.{_PARTS[name]}"), name)
            except ImportError:  # a version with other parts
                pass
        self.__class__ = ModuleType  # type: ignore[assignment]
        assert self.__spec__ is not None
        assert self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def defer_torchmetrics() -> None:
    """Let ``import lightning`` load two classes of torchmetrics instead of all of it, which imports
    scipy, matplotlib and transformers: two of the seconds before a first step. Every use of
    torchmetrics finds what it always does."""
    if "torchmetrics" in sys.modules:
        return
    spec = find_spec("torchmetrics")
    if spec is not None and spec.loader is not None:
        package = module_from_spec(spec)
        package.__class__ = _Deferred
        sys.modules["torchmetrics"] = package
