"""Reconstructed images as a file: ``samples.npz``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from discrete_diffusion.domains.eit.reconstructing import Reconstructions
from discrete_diffusion.whole_files import written_whole

RECONSTRUCTIONS = "samples.npz"


def write_reconstructions(folder: Path, found: Reconstructions) -> None:
    """Write ``samples.npz`` into a folder: ``truth``, ``mean``, ``deviation`` and ``first``
    Float32[M, C, H, W], ``dtn`` Float32[M, n, n]. It holds no pickle."""
    arrays = {
        name: getattr(found, name).numpy()
        for name in ("truth", "dtn", "mean", "deviation", "first")
    }
    with (
        written_whole(folder / RECONSTRUCTIONS) as unfinished,
        unfinished.open("wb") as file,  # given a name, numpy would append .npz to it
    ):
        np.savez_compressed(file, **arrays)
