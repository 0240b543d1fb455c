"""``KeyValueCache``: keys and values of columns that a network has read, kept between its calls."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class KeyValueCache:
    """Keys and values of the first columns of samples, which later columns attend to.

    A network offers it by one method, ``new_cache(positions, groups, num_samples)``, and by the
    argument ``cache`` of its ``forward``:

        def new_cache(self, positions, groups, num_samples):
            return KeyValueCache(positions, groups, num_samples, num_layers=len(self.layers))

        def forward(self, x_t, sigma=None, *, cache=None, ...):
            # x_t (R, n): new columns at the positions cache.columns
            ...  # in layer k, queries, keys and values (R, H, n, d) of the new columns
            key, value = cache.layers[k].extend(key, value)  # (R, H, m + n, d), the m kept first
            # scores (R, H, n, m + n) are masked by cache.mask

    It returns the logits of the new columns, those of a call with all columns. Samplers call
    ``begin`` before every call.

    Keys and values of a column must be a function of the tokens up to the end of its block: with
    another noise level in each call they are not, and then nothing is kept. ``sampling.refresh``
    (``ColumnReader``) asks for other columns of each sample, and keeps what is out of date.

    Memory: 2 num_layers K D numbers per sample, D the width; 16 MiB for 8 samples of 512 tokens by
    ``dit_small`` in float32, 72 MiB per sample of 1,024 tokens by ``dit_base``.

    ``positions``: Int[K], the positions of all columns, ascending (columns that are PAD in every
    sample are not among them). ``groups``: Int[K], the block of each column, ascending; a column
    sees its own block and earlier ones. ``tables``, ``c``: what a network computes once for all
    calls, rotary tables and the vector of its noise level.
    """

    def __init__(
        self, positions: Tensor, groups: Tensor, num_samples: int, *, num_layers: int
    ) -> None:
        self.positions, self.groups, self.num_samples = positions, groups, num_samples
        self.layers = [LayerCache(self) for _ in range(num_layers)]
        self.tables: tuple[Tensor, ...] = ()
        self.c: Tensor | None = None
        self.begin(None, 0, len(positions), len(positions))

    def begin(self, rows: Tensor | None, start: int, stop: int, num_kept: int) -> None:
        """Prepare a call with the columns ``start`` to ``stop - 1`` of the samples ``rows``.

        ``rows``: Int[R], or None for all samples in order. Of the columns, those before
        ``num_kept`` are kept for later calls; those before ``start`` were kept by earlier ones.
        """
        self.rows, self.start, self.stop, self.num_kept = rows, start, stop, num_kept
        self.seen: Tensor | None = None
        self.index: Any = slice(start, stop)

    def begin_at(self, rows: Tensor | None, index: Tensor, seen: Tensor) -> None:
        """Prepare a call with the columns ``index`` Int[R, n] of the samples ``rows``.

        They replace what was kept of them, and attend to the columns ``seen`` Bool[R, K], wherever
        these stand: m + n is K, in the order of the positions.
        """
        self.rows, self.index, self.seen = rows, index, seen

    @property
    def columns(self) -> Tensor:
        """Positions of the new columns, Int[n]; Int[R, n] after ``begin_at``."""
        return self.positions[self.index]

    @property
    def rotary(self) -> Any:
        """``tables``, which have a row for each of the K columns, of the new columns."""
        tables = (table[self.index] for table in self.tables)
        return tuple(tables if self.seen is None else (table.unsqueeze(1) for table in tables))

    @property
    def mask(self) -> Tensor | None:
        """Bool, True where a key may be seen, broadcast to (R, 1, n, m + n); None if all may."""
        if self.seen is not None:
            return None if bool(self.seen.all()) else self.seen[:, None, None]
        own = self.groups[self.index]
        if len(own) < 2 or bool(own[0] == own[-1]):
            return None
        return (self.groups[: self.stop] <= own.unsqueeze(1))[None, None]


class LayerCache:
    """Keys and values of one layer, in memory for all columns of a ``KeyValueCache``."""

    def __init__(self, cache: KeyValueCache) -> None:
        self.cache = cache
        self._kept: Tensor | None = None  # (2, B, H, K, d)

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the new columns (R, H, n, d); return all of them, each (R, H, m + n, d)."""
        cache = self.cache
        rows, start, stop, num_kept = cache.rows, cache.start, cache.stop, cache.num_kept
        if cache.seen is None and start == num_kept == 0:
            return k, v
        if self._kept is None:
            _, heads, _, width = k.shape
            shape = (2, cache.num_samples, heads, len(cache.positions), width)
            self._kept = k.new_zeros(shape)
        # at any columns
        if cache.seen is not None:
            some = torch.arange(len(k), device=k.device) if rows is None else rows
            new = torch.stack([k, v]).permute(1, 3, 0, 2, 4)  # (R, n, 2, H, d)
            self._kept[:, some.unsqueeze(1), :, cache.index] = new
            keys, values = (self._kept if rows is None else self._kept[:, rows]).unbind(0)
            return keys, values
        # all samples: written in place, where columns that are not kept are overwritten later
        if rows is None:
            self._kept[0, :, :, start:stop] = k
            self._kept[1, :, :, start:stop] = v
            keys, values = self._kept[:, :, :, :stop].unbind(0)
            return keys, values
        new = torch.stack([k, v])
        if num_kept > start:
            self._kept[:, rows, :, start:num_kept] = new[:, :, :, : num_kept - start]
        keys, values = torch.cat([self._kept[:, rows, :, :start], new], dim=3).unbind(0)
        return keys, values
