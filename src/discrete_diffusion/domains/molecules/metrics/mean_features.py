"""``MeanFeatures``: the mean of sparse vectors over many molecules, in bounded memory.

A coordinate is a 64-bit number. Entries are sorted and summed in runs of at most ``AT_ONCE``. Runs
beyond ``KEPT`` entries lie in a temporary file. All is read by range of coordinates, so that one
range of all runs is in memory at a time.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

AT_ONCE = 2_000_000
"""Entries that are sorted at once; sorting takes some four times their room."""

KEPT = 24_000_000
"""Entries that stay in memory."""

_ENTRY = np.dtype([("key", np.int64), ("value", np.float64)])

BYTES = _ENTRY.itemsize
"""Bytes of an entry."""

_RANGES = 64


@dataclass(frozen=True)
class _Run:
    """Entries in the order of their keys, each key once. ``cuts``: where each range begins, and the
    end. ``place``: the entries, or the file that holds them from byte ``start`` on."""

    cuts: list[int]
    place: NDArray[Any] | IO[bytes]
    start: int = 0

    def entries(self, k: int) -> NDArray[Any]:
        """Entries of range ``k``."""
        first, last = self.cuts[k], self.cuts[k + 1]
        if isinstance(self.place, np.ndarray):
            return self.place[first:last]
        self.place.seek(self.start + first * BYTES)
        return np.frombuffer(self.place.read((last - first) * BYTES), dtype=_ENTRY)


class MeanFeatures:
    """Sums by coordinate over ``num`` molecules, and how far two of them are apart."""

    def __init__(self) -> None:
        self.num = 0
        self._pending: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
        self._num_pending = self._num_kept = 0
        self._runs: list[_Run] = []
        self._file: IO[bytes] | None = None

    def add(self, features: Mapping[int, float], count: int = 1) -> None:
        """The features of ``count`` equal molecules: numbers of 64 bits, signed, to values."""
        size = len(features)
        keys = np.fromiter(features.keys(), dtype=np.int64, count=size)
        values = np.fromiter(features.values(), dtype=np.float64, count=size)
        self._pending.append((keys, count * values))
        self._num_pending += size
        self.num += count
        if self._num_pending >= AT_ONCE:
            self._end_run()

    def squared_distance(self, other: MeanFeatures) -> float:
        """|mean of these - mean of the others|^2."""
        self._end_run()
        other._end_run()
        return sum(
            float(np.square(np.subtract(*_means(self, other, k))).sum()) for k in range(_RANGES)
        )

    def _end_run(self) -> None:
        if not self._pending:
            return
        keys, values = (np.concatenate(part) for part in zip(*self._pending, strict=True))
        self._pending, self._num_pending = [], 0
        distinct, place = np.unique(keys, return_inverse=True)
        entries = np.empty(len(distinct), dtype=_ENTRY)
        entries["key"] = distinct
        entries["value"] = np.bincount(place, weights=values, minlength=len(distinct))
        cuts = [0, *np.searchsorted(distinct, _edges()).tolist(), len(distinct)]
        if self._num_kept + len(entries) <= KEPT:
            self._num_kept += len(entries)
            self._runs.append(_Run(cuts, entries))
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
            weakref.finalize(self, self._file.close)
        start = self._file.seek(0, 2)
        self._file.write(entries.tobytes())
        self._runs.append(_Run(cuts, self._file, start))

    def _range(self, k: int) -> NDArray[Any]:
        return np.concatenate([np.empty(0, _ENTRY), *(run.entries(k) for run in self._runs)])


def _edges() -> NDArray[np.int64]:
    """Beginnings of the second range of coordinates and of those that follow."""
    width = 2**64 // _RANGES
    return np.array([k * width - 2**63 for k in range(1, _RANGES)], dtype=np.int64)


def _means(
    one: MeanFeatures, other: MeanFeatures, k: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means of the coordinates that either has in range ``k``."""
    mine, theirs = one._range(k), other._range(k)
    keys = np.concatenate([mine["key"], theirs["key"]])
    distinct, place = np.unique(keys, return_inverse=True)
    cut, size = len(mine), len(distinct)
    sums = (
        np.bincount(place[:cut], weights=mine["value"], minlength=size),
        np.bincount(place[cut:], weights=theirs["value"], minlength=size),
    )
    return sums[0] / max(one.num, 1), sums[1] / max(other.num, 1)
