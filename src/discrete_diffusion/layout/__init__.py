"""Which ids are legal where (``TokenLayout``), and vocabularies of graphs (``VocabConfig``)."""

from __future__ import annotations

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
