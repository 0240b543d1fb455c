"""``ExamplesOnDisk``: a split whose samples are read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from discrete_diffusion.contracts import Batch
from discrete_diffusion.data.base import Examples

_MOST_AT_ONCE = 4096
"""Samples that stand for the split where something is fitted to it, and that are read at once."""


class ExamplesOnDisk(Examples):
    """``Examples`` that are not in memory: rows are read as they are taken.

    ``read``: Int64[B] row numbers -> their examples. ``sizes``: Int64[M], how many positions of
    each row are real, an expanded number where all are alike.
    """

    def __init__(self, read: Callable[[Tensor], Examples], sizes: Tensor) -> None:
        self.__dict__.update(read=read, sizes=sizes, conditions={})

    read: Callable[[Tensor], Examples]
    sizes: Tensor

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, rows: Tensor | slice) -> Examples:
        if isinstance(rows, slice):
            rows = torch.arange(*rows.indices(len(self)))
        elif rows.dtype == torch.bool:
            rows = rows.nonzero().squeeze(1)
        return self.read(rows)

    def parts(self) -> list[Tensor]:
        """Row numbers of the whole split, in parts that fit into memory."""
        return list(torch.arange(len(self)).split(_MOST_AT_ONCE))

    def batch(self) -> Batch:
        """The first rows, at most ``_MOST_AT_ONCE``."""
        return self[:_MOST_AT_ONCE].batch()

    def __getattr__(self, name: str) -> Tensor:
        """``x0`` or ``real`` of all rows, read at once: for held-out splits."""
        if name in ("x0", "real"):
            found: Tensor = getattr(self[:], name)
            return found
        raise AttributeError(name)
