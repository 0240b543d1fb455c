"""Fréchet ChemNet Distance (Preuer et al., arXiv 1803.09518), offline: the network is in the wheel
of ``fcd``."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np

from discrete_diffusion.data.files import cache_dir, cached_arrays
from discrete_diffusion.runtime import progress

FEATURES = 512

ENOUGH = 10_000
"""Molecules below which the distance is biased upwards by more than the differences of interest."""

_ROWS = 128
_VERSION = 1

_AT_ONCE = 80 * _ROWS
"""Molecules whose activations are in memory at once, of 4 kB each; of larger sets none is kept."""

_LONGEST = 350
"""Characters that ChemNet was trained on, the end among them."""


@dataclass(frozen=True)
class Activations:
    """``mean``: Float64[512], ``covariance``: Float64[512, 512], of ChemNet's last layer but one,
    over so many molecules."""

    mean: np.ndarray
    covariance: np.ndarray


def is_installed() -> bool:
    """True if ``fcd`` is there, which the extra ``molecules`` brings."""
    from importlib.util import find_spec

    return find_spec("fcd") is not None


def activations(smiles: Sequence[str]) -> Activations:
    """Activations of canonical SMILES, at least two; kept on disk. Equal ones go through the
    network once."""
    counted = sorted(Counter(smiles).items())
    texts, counts = [text for text, _ in counted], [count for _, count in counted]
    expected: dict[str, Any] = {
        "mean": (np.float64, (FEATURES,)),
        "covariance": (np.float64, (FEATURES, FEATURES)),
    }

    def computed() -> dict[str, np.ndarray]:
        found = _moments(texts, np.array(counts))
        return {"mean": found.mean, "covariance": found.covariance}

    arrays = cached_arrays(
        _cache_path(texts, counts), "ChemNet activations", expected, computed, compressed=False
    )
    return Activations(arrays["mean"], arrays["covariance"])


def is_known(smiles: Sequence[str]) -> bool:
    """True if the activations of these are on disk."""
    counted = sorted(Counter(smiles).items())
    return _cache_path([t for t, _ in counted], [count for _, count in counted]).is_file()


def _cache_path(texts: Sequence[str], counts: Sequence[int]) -> Path:
    digest = hashlib.sha256(repr((texts, counts)).encode()).hexdigest()[:24]
    return cache_dir() / f"chemnet-v{_VERSION}-{digest}.npz"


def _moments(texts: Sequence[str], counts: np.ndarray) -> Activations:
    """Moments in parts of ``_AT_ONCE``, of which two with n and m molecules, means a and b and sums
    of squares S and T around them make S + T + n m / (n + m) (b - a)(b - a)'."""
    blocks = _features(texts)
    if len(texts) <= _AT_ONCE:
        (found,) = blocks
        return Activations(
            np.average(found, axis=0, weights=counts), np.cov(found.T, fweights=counts)
        )
    num, mean, squares = 0, np.zeros(FEATURES), np.zeros((FEATURES, FEATURES))
    for found in blocks:
        weights, counts = counts[: len(found)], counts[len(found) :]
        more = int(weights.sum())
        apart = np.average(found, axis=0, weights=weights) - mean
        found -= mean + apart
        squares += (found.T * weights) @ found
        squares += num * more / (num + more) * np.outer(apart, apart)
        num += more
        mean += more / num * apart
    return Activations(mean, squares / (num - 1))


def activations_of(texts: Sequence[str]) -> np.ndarray:
    """Float32[M, 512] of each."""
    with progress.task("ChemNet", len(texts), "molecules") as going:
        return _computed(texts, max(_LONGEST, 1 + max(map(len, texts))), going)


def _features(texts: Sequence[str]) -> Iterator[np.ndarray]:
    """Float64[M, 512] of at most ``_AT_ONCE`` different SMILES, until there are no more. Those of a
    set that is no larger are remembered; they are computed once."""
    padded = max(_LONGEST, 1 + max(map(len, texts)))
    with progress.task("ChemNet", len(texts), "molecules") as going:
        for start in range(0, len(texts), _AT_ONCE):
            block = texts[start : start + _AT_ONCE]
            if len(texts) > _AT_ONCE:
                yield _computed(block, padded, going).astype(np.float64)
                continue
            if len(_seen) > 4 * _AT_ONCE:
                _seen.clear()
            new = [text for text in block if text not in _seen]
            going.begin_at(len(block) - len(new))
            _seen.update(zip(new, _computed(new, padded, going), strict=True) if new else ())
            yield np.stack([_seen[text] for text in block]).astype(np.float64)


_seen: dict[str, np.ndarray] = {}
"""Float32[512] by SMILES: sets of samples overlap, as those valid before and after correction."""


def _computed(smiles: Sequence[str], padded: int, going: progress.Task) -> np.ndarray:
    """Float32[M, 512]: each padded to so many characters."""
    import torch
    from fcd.utils import SmilesDataset

    network = _chemnet()
    encoded = SmilesDataset(list(smiles), pad_len=padded)
    found = []
    with torch.inference_mode():
        for start in range(0, len(smiles), _ROWS):
            rows = range(start, min(start + _ROWS, len(smiles)))
            batch = torch.from_numpy(np.stack([encoded[row] for row in rows]))
            output = network(batch.transpose(1, 2).float())  # a view of what is much larger
            found.append(output.numpy().copy())
            going.advance(len(rows))
    return np.concatenate(found)


@cache
def _chemnet() -> Any:
    """Load it from the file in the wheel; left to itself, ``fcd`` makes a copy and leaves it to be
    deleted with a warning."""
    from fcd import load_ref_model

    weights = next(file for file in files("fcd").iterdir() if file.name.endswith(".pt"))
    with as_file(weights) as path:
        return load_ref_model(str(path))


def frechet_distance(one: Activations, other: Activations) -> float:
    """|m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)).

    The trace of the root is the sum of the roots of the eigenvalues of C1^(1/2) C2 C1^(1/2), which
    is symmetric.
    """
    values, vectors = np.linalg.eigh(one.covariance)
    root = (vectors * np.sqrt(values.clip(min=0))) @ vectors.T
    crossed = np.linalg.eigvalsh(root @ other.covariance @ root)
    apart = one.mean - other.mean
    traces = np.trace(one.covariance) + np.trace(other.covariance)
    return float(apart @ apart + traces - 2 * np.sqrt(crossed.clip(min=0)).sum())


def fcd(one: Sequence[str], other: Sequence[str]) -> float:
    """The distance of two sets of canonical SMILES; NaN with fewer than two in either."""
    if min(len(one), len(other)) < 2:
        return math.nan
    return frechet_distance(activations(one), activations(other))
