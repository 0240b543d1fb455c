"""Maximum mean discrepancy under the neighbourhood subgraph pairwise distance kernel (NSPDK).

As GDSS (arXiv 2202.02514) measures it with EDeN: ``complexity=4``, discrete labels, linear kernel.
Bonds become vertices between their atoms. The neighbourhood of radius r of an atom is, at every
distance up to r, the multiset of (label, degree) there. A feature counts pairs of atoms at distance
d <= 4 with equal neighbourhoods of radius r <= 4, a half feature the second atom alone. Counts of
each (r, d) are scaled to unit length, then the whole vector. With those vectors phi,

    MMD^2 = | mean phi(x) - mean phi(y) |^2

Deviation: EDeN hashes features to 20 bits, of which many collide; here to 64, of which none do in
practice.

The mean of sparse vectors over many molecules takes bounded memory: a coordinate is a 64-bit
number, and entries are sorted and summed in runs of at most ``AT_ONCE``. Runs beyond ``KEPT``
entries lie in a temporary file. All is read by range of coordinates, so that one range of all runs
is in memory at a time.
"""

from __future__ import annotations

import math
import tempfile
import weakref
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.runtime import progress

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


COMPLEXITY = 4
"""The largest radius and distance, in bonds."""

Features = dict[int, float]
"""By the hash, of 64 bits, of what is counted."""


def nspdk_mmd(one: MeanFeatures, other: MeanFeatures) -> float:
    """MMD of two sets by their ``mean_features``, squared as in GDSS."""
    return one.squared_distance(other)


def mean_features(smiles: Sequence[str]) -> MeanFeatures:
    """The mean of the features of every molecule; equal ones are looked at once."""
    found = MeanFeatures()
    counted = Counter(smiles)
    for text in progress.track(list(counted), "NSPDK", "molecules"):
        found.add(features_of_smiles(text), counted[text])
    return found


def features_of_smiles(smiles: str) -> Features:
    """Features of a molecule as rdkit perceives it, aromatic bonds counting as single, as GDSS
    does."""
    from rdkit import Chem

    mol = Chem.MolFromSmiles(smiles)
    labels: list[Hashable] = [atom.GetSymbol() for atom in mol.GetAtoms()]
    bonds = [
        (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), int(bond.GetBondTypeAsDouble()))
        for bond in mol.GetBonds()
    ]
    return features(labels, bonds)


def features(labels: Sequence[Hashable], bonds: Sequence[tuple[int, int, Hashable]]) -> Features:
    """Features of a graph: the label of every vertex, and (i, j, label) of every edge."""
    num = len(labels)
    around: list[list[int]] = [[] for _ in range(num + len(bonds))]
    for k, (i, j, _) in enumerate(bonds, start=num):
        around[k] = [i, j]
        around[i].append(k)
        around[j].append(k)
    signs = [*labels, *(("bond", label) for _, _, label in bonds)]
    coloured = [(repr(sign), len(near)) for sign, near in zip(signs, around, strict=True)]
    shells = [_shells(root, around, 2 * COMPLEXITY) for root in range(num)]
    seen = [_neighbourhoods(each, coloured) for each in shells]

    counts: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for v, shell in enumerate(shells):
        for distance in range(0, min(2 * COMPLEXITY + 1, len(shell)), 2):
            for u in shell[distance]:
                for radius in range(0, min(len(seen[v]), len(seen[u])), 2):
                    first, second = seen[v][radius], seen[u][radius]
                    low, high = (first, second) if first < second else (second, first)
                    of_kind = counts[radius, distance]
                    of_kind[hash((radius, distance, low, high))] += 1
                    of_kind[hash((radius, distance, second))] += 1
    found: Features = {}
    for of_kind in counts.values():
        length = math.sqrt(sum(count**2 for count in of_kind.values()))
        found.update({key: count / length for key, count in of_kind.items()})
    whole = math.sqrt(len(counts))  # every kind has length 1
    return {key: value / whole for key, value in found.items()}


def _shells(root: int, around: Sequence[Sequence[int]], most: int) -> list[list[int]]:
    """The vertices at distance 0, 1, ..., at most ``most``, as far as there are any."""
    shells, visited = [[root]], {root}
    while len(shells) <= most:
        reached = [w for v in shells[-1] for w in around[v] if w not in visited]
        if not reached:
            break
        visited.update(reached)
        shells.append(list(dict.fromkeys(reached)))
    return shells


def _neighbourhoods(
    shells: Sequence[Sequence[int]], coloured: Sequence[tuple[str, int]]
) -> list[int]:
    """Number, for every radius, that identifies the neighbourhood among others of this radius."""
    inside: tuple[Any, ...] = ()
    found = []
    for shell in shells:
        inside = (inside, tuple(sorted(coloured[v] for v in shell)))
        found.append(hash(inside))
    return found
