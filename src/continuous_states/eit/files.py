"""Phantoms with their Dirichlet-to-Neumann maps from one ``.npz`` file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuous_states.arrays import StoredArrays, numbers_of, open_npz, require_array
from continuous_states.eit.simulator import SimulationSettings

Floats = NDArray[np.float32]

_EXPECTED = (
    "media (M, H, H), dtn (M, n, n) and, for data.dtn_transform=ratio or difference, background "
    "(n, n)"
)


@dataclass(frozen=True)
class Phantoms:
    """``media``: Float32[M, H, H] conductivity, positive. ``dtn``: Float32[M, n, n].
    ``background``: Float32[n, n], the map of conductivity 1, or None. ``source``: the path, or what
    they are called. ``settings``: of simulated ones."""

    media: Floats
    dtn: Floats
    background: Floats | None
    source: str
    settings: SimulationSettings | None = None


def read_phantoms(path: str | Path) -> Phantoms:
    """The arrays ``media``, ``dtn`` and, if it is there, ``background`` of an ``.npz`` file.

    Raises ``FileNotFoundError`` or ``ValueError`` with file, array and fix for what is missing,
    damaged, of the wrong shape or kind, and for a value that cannot be.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no phantoms at {path.absolute()}; data.path=null simulates them")
    if path.suffix != ".npz" or path.is_dir():
        raise ValueError(f"{path}: expected FILE.npz")
    with open_npz(path) as store:
        media, dtn = _numbers(store, "media"), _numbers(store, "dtn")
        background = _numbers(store, "background") if "background" in store.keys else None
        source = store.source
    if media.ndim != 3 or media.shape[1] != media.shape[2]:
        raise ValueError(
            f"{source}: media has shape {media.shape}; expected (M, H, H), M square images"
        )
    if dtn.ndim != 3 or dtn.shape[1] != dtn.shape[2] or len(dtn) != len(media):
        raise ValueError(
            f"{source}: dtn has shape {dtn.shape}; expected ({len(media)}, n, n), a map for each "
            "image of media"
        )
    if background is not None and background.shape != dtn.shape[1:]:
        raise ValueError(
            f"{source}: background has shape {background.shape}; expected {dtn.shape[1:]}, the map "
            "of conductivity 1 on the mesh of dtn"
        )
    _check(source, "media", media, media > 0, "a positive number")
    _check(source, "dtn", dtn, np.isfinite(dtn), "a finite number")
    if background is not None:
        _check(source, "background", background, background != 0, "a number other than 0")
    return Phantoms(media, dtn, background, source)


def _numbers(store: StoredArrays, key: str) -> Floats:
    return numbers_of(require_array(store, key, _EXPECTED), key, store.source)


def _check(source: str, key: str, values: Floats, right: NDArray[np.bool_], what: str) -> None:
    wrong = np.argwhere(~(right & np.isfinite(values)))
    if len(wrong):
        place = tuple(wrong[0].tolist())
        raise ValueError(
            f"{source}: {key}{list(place)} is {values[place]}; expected {what} everywhere"
        )
