"""Distances of two sets of molecules: Fréchet ChemNet Distance (FCD) and MMD of NSPDK.

FCD (Preuer et al., arXiv 1803.09518) is computed offline: the network is in the wheel of ``fcd``.

The MMD is that under the neighbourhood subgraph pairwise distance kernel, as GDSS (arXiv
2202.02514) measures it with EDeN: ``complexity=4``, discrete labels, linear kernel. Bonds become
vertices between their atoms. The neighbourhood of radius r of an atom is, at every distance up to
r, the multiset of (label, degree) there. A feature counts pairs of atoms at distance d <= 4 with
equal neighbourhoods of radius r <= 4, a half feature the second atom alone. Counts of each (r, d)
are scaled to unit length, then the whole vector. With those vectors phi,

    MMD^2 = | mean phi(x) - mean phi(y) |^2

Deviation: EDeN hashes features to 20 bits, so that many collide; here to 64, where none do in
practice.

The mean of sparse vectors over many molecules takes bounded memory: a coordinate is a 64-bit
number, and entries are sorted and summed in runs of at most ``MAX_SORTED``. Runs beyond
``MAX_KEPT`` entries lie in a temporary file. Runs are read by range of coordinates, one range of
all runs at a time.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
import weakref
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from importlib.util import find_spec
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.data.files import cache_dir, cached_arrays
from discrete_diffusion.runtime import progress

NUM_ACTIVATIONS = 512
"""Width of ChemNet's last layer but one."""

ENOUGH = 10_000
"""Number of molecules below which the upward bias of FCD exceeds differences of interest."""

_BATCH, _CACHE_VERSION = 128, 1

_MAX_ACTIVATIONS = 80 * _BATCH
"""Most molecules whose activations are in memory at once, 2 kB each; smaller sets are kept."""

_MAX_LENGTH = 350
"""Most characters of SMILES that ChemNet was trained on, including the end."""

_known: dict[str, np.ndarray] = {}
"""Activations Float32[512] by SMILES, kept since sets of samples overlap, such as those before and
after correction."""


@dataclass(frozen=True)
class Activations:
    """Moments of ChemNet's activations over a set: ``mean`` Float64[512], ``covariance``
    Float64[512, 512]."""

    mean: np.ndarray
    covariance: np.ndarray


def has_chemnet() -> bool:
    """True if ``fcd`` is installed, a part of the extra ``molecules``."""
    return find_spec("fcd") is not None


def fcd(one: Sequence[str], other: Sequence[str]) -> float:
    """Distance of two sets of canonical SMILES; NaN if either has fewer than two."""
    if min(len(one), len(other)) < 2:
        return math.nan
    return frechet_distance(chemnet_activations(one), chemnet_activations(other))


def frechet_distance(one: Activations, other: Activations) -> float:
    """Fréchet distance |m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)).

    The trace of the root is the sum of the roots of the eigenvalues of C1^(1/2) C2 C1^(1/2), which
    is symmetric.
    """
    values, vectors = np.linalg.eigh(one.covariance)
    root = (vectors * np.sqrt(values.clip(min=0))) @ vectors.T
    crossed = np.linalg.eigvalsh(root @ other.covariance @ root)
    apart = one.mean - other.mean
    traces = np.trace(one.covariance) + np.trace(other.covariance)
    return float(apart @ apart + traces - 2 * np.sqrt(crossed.clip(min=0)).sum())


def chemnet_activations(smiles: Sequence[str]) -> Activations:
    """Activations of at least two canonical SMILES, kept on disk; equal SMILES go through the
    network once."""
    # each molecule once, with its count
    counted = sorted(Counter(smiles).items())
    texts, counts = [text for text, _ in counted], [count for _, count in counted]
    expected: dict[str, Any] = {
        "mean": (np.float64, (NUM_ACTIVATIONS,)),
        "covariance": (np.float64, (NUM_ACTIVATIONS, NUM_ACTIVATIONS)),
    }

    def computed() -> dict[str, np.ndarray]:
        moments = _moments(texts, np.array(counts))
        return {"mean": moments.mean, "covariance": moments.covariance}

    # from the disk, if they are there
    digest = hashlib.sha256(repr((texts, counts)).encode()).hexdigest()[:24]
    path = cache_dir() / f"chemnet-v{_CACHE_VERSION}-{digest}.npz"
    arrays = cached_arrays(path, "ChemNet activations", expected, computed, compressed=False)
    return Activations(arrays["mean"], arrays["covariance"])


def _moments(texts: Sequence[str], counts: np.ndarray) -> Activations:
    """Moments of activations, computed in parts of ``_MAX_ACTIVATIONS``.

    Two parts with n and m molecules, means a and b and sums of squares S and T around them have
    together S + T + n m / (n + m) (b - a)(b - a)'.
    """
    blocks = _activation_blocks(texts)
    if len(texts) <= _MAX_ACTIVATIONS:
        (block,) = blocks
        return Activations(
            np.average(block, axis=0, weights=counts), np.cov(block.T, fweights=counts)
        )
    num, mean = 0, np.zeros(NUM_ACTIVATIONS)
    squares = np.zeros((NUM_ACTIVATIONS, NUM_ACTIVATIONS))
    for block in blocks:
        # moments of this part
        weights, counts = counts[: len(block)], counts[len(block) :]
        more = int(weights.sum())
        apart = np.average(block, axis=0, weights=weights) - mean
        block -= mean + apart
        # joined with those of the parts before
        squares += (block.T * weights) @ block
        squares += num * more / (num + more) * np.outer(apart, apart)
        num += more
        mean += more / num * apart
    return Activations(mean, squares / (num - 1))


def _activation_blocks(texts: Sequence[str]) -> Iterator[np.ndarray]:
    """Yield Float64[M, 512] of at most ``_MAX_ACTIVATIONS`` SMILES at a time; smaller sets
    are remembered."""
    # one length of padding for all parts
    padded = max(_MAX_LENGTH, 1 + max(map(len, texts)))
    with progress.task("ChemNet", len(texts), "molecules") as going:
        for start in range(0, len(texts), _MAX_ACTIVATIONS):
            block = texts[start : start + _MAX_ACTIVATIONS]
            if len(texts) > _MAX_ACTIVATIONS:
                yield _run_network(block, padded, going).astype(np.float64)
                continue
            if len(_known) > 4 * _MAX_ACTIVATIONS:
                _known.clear()
            new = [text for text in block if text not in _known]
            going.begin_at(len(block) - len(new))
            _known.update(zip(new, _run_network(new, padded, going), strict=True) if new else ())
            yield np.stack([_known[text] for text in block]).astype(np.float64)


def _run_network(smiles: Sequence[str], padded: int, going: progress.Task) -> np.ndarray:
    """Run ChemNet on SMILES padded to ``padded`` characters; return activations Float32[M, 512]."""
    import torch
    from fcd.utils import SmilesDataset

    # one-hot characters
    network = _chemnet()
    encoded = SmilesDataset(list(smiles), pad_len=padded)
    outputs = []
    with torch.inference_mode():
        for start in range(0, len(smiles), _BATCH):
            rows = range(start, min(start + _BATCH, len(smiles)))
            batch = torch.from_numpy(np.stack([encoded[row] for row in rows]))
            output = network(batch.transpose(1, 2).float())
            outputs.append(output.numpy().copy())  # a view of a much larger array
            going.advance(len(rows))
    return np.concatenate(outputs)


@cache
def _chemnet() -> Any:
    # from the file in the wheel; by default fcd makes a copy that is deleted with a warning
    from fcd import load_ref_model

    weights = next(file for file in files("fcd").iterdir() if file.name.endswith(".pt"))
    with as_file(weights) as path:
        return load_ref_model(str(path))


COMPLEXITY = 4
"""The largest radius and distance of NSPDK, in bonds."""

MAX_SORTED = 2_000_000
"""Entries that are sorted at once; sorting takes some four times their memory."""

MAX_KEPT = 24_000_000
"""Most entries that stay in memory."""

_ENTRY = np.dtype([("key", np.int64), ("value", np.float64)])
_RANGES = 64

Features = dict[int, float]
"""Values by the 64-bit hash of what is counted."""


def features_of_smiles(smiles: str) -> Features:
    """Features of a molecule as rdkit perceives it, with aromatic bonds as single bonds, as in
    GDSS."""
    from rdkit import Chem

    # vertices and edges of the graph
    mol = Chem.MolFromSmiles(smiles)
    labels: list[Hashable] = [atom.GetSymbol() for atom in mol.GetAtoms()]
    bonds = [
        (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), int(bond.GetBondTypeAsDouble()))
        for bond in mol.GetBonds()
    ]
    return nspdk_features(labels, bonds)


def nspdk_features(
    labels: Sequence[Hashable], bonds: Sequence[tuple[int, int, Hashable]]
) -> Features:
    """Features of a graph with the label of every vertex, and (i, j, label) of every edge."""
    num = len(labels)
    # bonds are vertices num, num + 1, ... between their atoms
    around: list[list[int]] = [[] for _ in range(num + len(bonds))]
    for k, (i, j, _) in enumerate(bonds, start=num):
        around[k] = [i, j]
        around[i].append(k)
        around[j].append(k)
    signs = [*labels, *(("bond", label) for _, _, label in bonds)]
    coloured = [(repr(sign), len(near)) for sign, near in zip(signs, around, strict=True)]
    # atoms by distance, and the neighbourhood of every radius
    shells = [_shells(root, around, 2 * COMPLEXITY) for root in range(num)]
    seen = [_neighbourhoods(each, coloured) for each in shells]
    # pairs of atoms and second atoms, by radius and distance
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
    # unit length of each kind, then of the whole vector
    values: Features = {}
    for of_kind in counts.values():
        length = math.sqrt(sum(count**2 for count in of_kind.values()))
        values.update({key: count / length for key, count in of_kind.items()})
    whole = math.sqrt(len(counts))
    return {key: value / whole for key, value in values.items()}


def _shells(root: int, around: Sequence[Sequence[int]], most: int) -> list[list[int]]:
    """Lists of vertices at distance 0, 1, ..., ``most`` from ``root``, as far as there are any."""
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
    """Hash of the neighbourhood of every radius."""
    inside: tuple[Any, ...] = ()
    hashes = []
    for shell in shells:
        inside = (inside, tuple(sorted(coloured[v] for v in shell)))
        hashes.append(hash(inside))
    return hashes


def mean_features(smiles: Sequence[str]) -> MeanFeatures:
    """Mean of the features of all molecules; features of equal molecules are computed once."""
    mean = MeanFeatures()
    counted = Counter(smiles)
    for text in progress.track(list(counted), "NSPDK", "molecules"):
        mean.add(features_of_smiles(text), counted[text])
    return mean


def nspdk_mmd(one: MeanFeatures, other: MeanFeatures) -> float:
    """MMD of two sets, squared as in GDSS: |mean of one - mean of the other|^2."""
    one._end_run()
    other._end_run()
    total = 0.0
    for k in range(_RANGES):
        # sums over the coordinates that either has in this range
        mine, theirs = one._range(k), other._range(k)
        keys = np.concatenate([mine["key"], theirs["key"]])
        distinct, place = np.unique(keys, return_inverse=True)
        cut, size = len(mine), len(distinct)
        sum_one = np.bincount(place[:cut], weights=mine["value"], minlength=size)
        sum_other = np.bincount(place[cut:], weights=theirs["value"], minlength=size)
        total += float(np.square(sum_one / max(one.num, 1) - sum_other / max(other.num, 1)).sum())
    return total


class MeanFeatures:
    """Sums of features by coordinate over ``num`` molecules, in bounded memory: runs of entries
    sorted by key, each key once, with the starts of the ranges and the end of the last."""

    def __init__(self) -> None:
        self.num = 0
        self._pending: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
        self._num_pending = self._num_kept = 0
        self._runs: list[tuple[list[int], NDArray[Any]]] = []
        self._file: IO[bytes] | None = None

    def add(self, features: Mapping[int, float], count: int = 1) -> None:
        """Add the features of ``count`` equal molecules: values by key, a signed 64-bit number."""
        size = len(features)
        keys = np.fromiter(features.keys(), dtype=np.int64, count=size)
        values = np.fromiter(features.values(), dtype=np.float64, count=size)
        self._pending.append((keys, count * values))
        self._num_pending += size
        self.num += count
        if self._num_pending >= MAX_SORTED:
            self._end_run()

    def _end_run(self) -> None:
        if not self._pending:
            return
        # sort, and sum entries of equal keys
        keys, values = (np.concatenate(part) for part in zip(*self._pending, strict=True))
        self._pending, self._num_pending = [], 0
        distinct, place = np.unique(keys, return_inverse=True)
        entries = np.empty(len(distinct), dtype=_ENTRY)
        entries["key"] = distinct
        entries["value"] = np.bincount(place, weights=values, minlength=len(distinct))
        # starts of the ranges of coordinates, which are of equal width
        width = 2**64 // _RANGES
        edges = np.array([k * width - 2**63 for k in range(1, _RANGES)], dtype=np.int64)
        cuts = [0, *np.searchsorted(distinct, edges).tolist(), len(distinct)]
        # in memory as long as there is room, then in a file
        if self._num_kept + len(entries) <= MAX_KEPT:
            self._num_kept += len(entries)
        else:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115
                weakref.finalize(self, self._file.close)
            start = self._file.seek(0, 2)
            self._file.write(entries.tobytes())
            self._file.flush()
            entries = np.memmap(self._file, _ENTRY, "r", start, entries.shape)
        self._runs.append((cuts, entries))

    def _range(self, k: int) -> NDArray[Any]:
        """Entries of all runs in range ``k`` of the coordinates."""
        parts = [entries[cuts[k] : cuts[k + 1]] for cuts, entries in self._runs]
        return np.concatenate([np.empty(0, _ENTRY), *parts])
