"""Leave out the columns of a batch that are PAD in every sample.

With batches bucketed by room count that is most of the PAD: 6 rooms of at most 8 need 21 of 36
columns, and no attention mask at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class ColumnPacking:
    """The K of L columns that are computed, and those of them that attention may see as keys.

    ``kept``: their indices, ascending; ``columns``: the same as Int[K], or None if all are kept.
    ``key_mask``: Bool[B, 1, 1, K], False at PAD; None if none of the kept columns holds a PAD.
    """

    length: int
    kept: tuple[int, ...]
    columns: Tensor | None
    key_mask: Tensor | None

    @classmethod
    def full(cls, length: int) -> ColumnPacking:
        """Every column, without a mask."""
        return cls(length, tuple(range(length)), None, None)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> ColumnPacking:
        """The same on another device."""
        return self._each(lambda x: x.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> ColumnPacking:
        """The same in memory from which a GPU fetches it while the host goes on."""
        return self._each(lambda x: x.pin_memory())

    def _each(self, change: Callable[[Tensor], Tensor]) -> ColumnPacking:
        columns, mask = (None if x is None else change(x) for x in (self.columns, self.key_mask))
        return replace(self, columns=columns, key_mask=mask)

    def pack(self, x: Tensor) -> Tensor:
        """(B, L, ...) -> (B, K, ...)."""
        return x if self.columns is None else x.index_select(1, self.columns)

    def num_kept_before(self, column: int) -> int:
        """Number of the kept columns before ``column``."""
        return sum(kept < column for kept in self.kept)

    def unpack(self, x: Tensor, start: int = 0, stop: int | None = None) -> Tensor:
        """The kept columns among ``start..stop-1``, (B, k, C) -> (B, stop - start, C).

        Columns that were left out hold 0.
        """
        if self.columns is None:
            return x
        stop = self.length if stop is None else stop
        first, last = self.num_kept_before(start), self.num_kept_before(stop)
        full = x.new_zeros(x.shape[0], stop - start, x.shape[2])
        return full.index_copy(1, self.columns[first:last] - start, x)


def pack_columns(real: Tensor) -> ColumnPacking:
    """The packing of a batch whose tokens carry data where ``real`` (Bool[B, L]) is True.

    Shapes depend on the data here, so the 2 L flags travel to the host, the one such transfer of a
    forward pass; none if a backbone is given the packing of a batch that is still there. In an
    export, whose shapes are fixed, every column is kept and PAD is masked.
    """
    length = real.shape[1]
    if torch.compiler.is_exporting():
        return ColumnPacking(length, tuple(range(length)), None, _key_mask(real))
    some, every = torch.stack([real.any(dim=0), real.all(dim=0)]).tolist()
    kept = tuple(column for column in range(length) if some[column])
    if not kept:  # an empty batch, or nothing but PAD: nothing to leave out, nothing to protect
        return ColumnPacking.full(length)
    columns = None if len(kept) == length else torch.tensor(kept, device=real.device)
    if some == every:
        return ColumnPacking(length, kept, columns, None)
    keys = real if columns is None else real.index_select(1, columns)
    return ColumnPacking(length, kept, columns, _key_mask(keys))


def _key_mask(real: Tensor) -> Tensor:
    """Bool[B, 1, 1, K] of Bool[B, K]. A sample of nothing but PAD sees all of it, because a softmax
    over no keys is undefined."""
    return (real | ~real.any(dim=1, keepdim=True))[:, None, None, :]
