"""Fréchet ChemNet Distance (Preuer et al., arXiv 1803.09518), offline: the network is in the wheel
of ``fcd``."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from typing import Any

import numpy as np

from discrete_diffusion import progress
from discrete_diffusion.data.cache import cache_dir, cached_arrays

FEATURES = 512

ENOUGH = 10_000
"""Molecules below which the distance is biased upwards by more than the differences of interest."""

_ROWS = 128
_VERSION = 1


@dataclass(frozen=True)
class Activations:
    """``mean``: Float64[512], ``covariance``: Float64[512, 512], of ChemNet's last layer but one,
    over so many molecules."""

    mean: np.ndarray
    covariance: np.ndarray


def is_installed() -> bool:
    """Whether ``fcd`` is there, which the extra ``molecules`` brings."""
    from importlib.util import find_spec

    return find_spec("fcd") is not None


def activations(smiles: Sequence[str]) -> Activations:
    """Of canonical SMILES, at least two; kept on disk. Equal ones go through the network once."""
    texts, counts = np.unique(np.array(smiles), return_counts=True)
    digest = hashlib.sha256(repr((texts.tolist(), counts.tolist())).encode()).hexdigest()[:24]
    expected: dict[str, Any] = {
        "mean": (np.float64, (FEATURES,)),
        "covariance": (np.float64, (FEATURES, FEATURES)),
    }

    def computed() -> dict[str, np.ndarray]:
        found = _features(texts.tolist())
        mean = np.average(found, axis=0, weights=counts)
        return {"mean": mean, "covariance": np.cov(found.T, fweights=counts)}

    path = cache_dir() / f"chemnet-v{_VERSION}-{digest}.npz"
    arrays = cached_arrays(path, "ChemNet activations", expected, computed, compressed=False)
    return Activations(arrays["mean"], arrays["covariance"])


def _features(smiles: Sequence[str]) -> np.ndarray:
    """Float64[M, 512] of different SMILES: those that this process has not seen yet go through the
    network."""
    new = [text for text in smiles if text not in _seen]
    _seen.update(zip(new, _computed(new), strict=True) if new else ())
    return np.stack([_seen[text] for text in smiles]).astype(np.float64)


_seen: dict[str, np.ndarray] = {}
"""Float32[512] by SMILES: sets of samples overlap, as those valid before and after correction."""


def _computed(smiles: Sequence[str]) -> np.ndarray:
    """Float32[M, 512]: each padded to 350 characters, as ChemNet was trained, or to the longest."""
    import torch
    from fcd.utils import SmilesDataset

    network = _chemnet()
    encoded = SmilesDataset(list(smiles), warn=False)
    found = []
    with torch.inference_mode(), progress.task("ChemNet", len(smiles), "molecules") as going:
        for start in range(0, len(smiles), _ROWS):
            rows = range(start, min(start + _ROWS, len(smiles)))
            batch = torch.from_numpy(np.stack([encoded[row] for row in rows]))
            found.append(network(batch.transpose(1, 2).float()).numpy())
            going.advance(len(rows))
    return np.concatenate(found)


@cache
def _chemnet() -> Any:
    """From the file in the wheel; left to itself, ``fcd`` makes a copy and leaves it to be deleted
    with a warning."""
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
