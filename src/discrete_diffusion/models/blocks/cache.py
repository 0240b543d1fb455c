"""Keys and values of columns that a causal network has read."""

from __future__ import annotations

from torch import Tensor


class LayerCache:
    """Keys and values of one layer: room for ``capacity`` columns, filled from the left."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.num_filled = capacity, 0
        self._stored: Tensor | None = None  # (2, B, H, capacity, d)

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store the new columns (B, H, n, d) and return all so far, each (B, H, m + n, d)."""
        if self._stored is None:
            num, heads, _, width = k.shape
            self._stored = k.new_empty(2, num, heads, self.capacity, width)
        start, self.num_filled = self.num_filled, self.num_filled + k.shape[2]
        self._stored[0, :, :, start : self.num_filled] = k
        self._stored[1, :, :, start : self.num_filled] = v
        keys, values = self._stored[:, :, :, : self.num_filled].unbind(0)
        return keys, values


class KeyValueCache:
    """What a causal network has read, so that a call computes the new columns only.

    ``positions``: Int[K], the positions of all columns to come, in order (columns that are PAD in
    every sample are not among them). For sampling: it is filled in place, without gradients.

    Raises ``ValueError`` in ``take`` if more columns are given than it has positions for.
    """

    def __init__(self, positions: Tensor, *, num_layers: int) -> None:
        self.positions, self.num_read = positions, 0
        self.layers = [LayerCache(len(positions)) for _ in range(num_layers)]

    def take(self, num: int) -> Tensor:
        """Int[num]: the positions of the next columns, which count as read from now on."""
        start, stop = self.num_read, self.num_read + num
        if stop > len(self.positions):
            raise ValueError(
                f"the cache has read {start} of {len(self.positions)} columns and cannot take "
                f"{num} more"
            )
        self.num_read = stop
        return self.positions[start:stop]
