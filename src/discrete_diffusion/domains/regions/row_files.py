"""Rows of features as files: ``samples.npz``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from discrete_diffusion.domains.regions.filling import Filling
from discrete_diffusion.whole_files import written_whole

FILLED_ROWS = "samples.npz"


def write_rows(
    folder: Path,
    arrays: Mapping[str, Tensor | NDArray[np.str_] | None],
    feature_names: Sequence[str],
) -> None:
    """Write ``samples.npz`` into a folder: tensors and text by name, None left out, and
    ``feature_names`` text[M]. It holds no pickle."""
    written: dict[str, Any] = {
        name: x.numpy() if isinstance(x, Tensor) else x
        for name, x in arrays.items()
        if x is not None
    }
    names = np.array(feature_names, dtype=np.str_)
    with (
        written_whole(folder / FILLED_ROWS) as unfinished,
        unfinished.open("wb") as file,  # given a name, numpy would append .npz to it
    ):
        np.savez_compressed(file, feature_names=names, **written)


def write_filling(
    folder: Path,
    filling: Filling,
    feature_names: Sequence[str],
    places: Mapping[str, NDArray[np.str_]] | None = None,
) -> None:
    """``samples.npz`` of a filling: ``truth``, ``predicted`` and ``filled`` Float32[W, N, M],
    ``masked`` and ``real`` Bool[W, N], ``feature_names``. Without a sampler there is no ``filled``.
    ``places``: text by name, where the windows lie.
    """
    arrays = {
        "truth": filling.truth,
        "real": filling.real,
        "masked": filling.masked,
        "predicted": filling.predicted,
        "filled": filling.filled,
        **(places or {}),
    }
    write_rows(folder, arrays, feature_names)
