"""Ids that are legal by position (``TokenLayout``), vocabularies of graphs (``VocabConfig``)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discrete_diffusion.layout.token_layout import (
        TokenLayout,
        row_layout,
        sequence_layout,
        sequence_positions,
    )
    from discrete_diffusion.layout.vocab_config import RPLAN_VOCAB_CONFIG, VocabConfig

__all__ = [
    "RPLAN_VOCAB_CONFIG",
    "TokenLayout",
    "VocabConfig",
    "row_layout",
    "sequence_layout",
    "sequence_positions",
]

_OF_GRAPHS = ("RPLAN_VOCAB_CONFIG", "VocabConfig")


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: both modules bring torch, tables of names do without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "vocab_config" if name in _OF_GRAPHS else "token_layout"
    return getattr(import_module(f"{__name__}.{module}"), name)
