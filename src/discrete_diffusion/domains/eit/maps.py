"""What is done to Dirichlet-to-Neumann maps before a network sees them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.naming import unknown_name
from discrete_diffusion.options import is_number

Maps = NDArray[np.float32]

DTN_TRANSFORMS = ("ratio", "difference", "none")

_NOISE_STREAM = 1


def check_transform(name: str) -> None:
    """Raise ``ValueError`` unless ``name`` is one of ``DTN_TRANSFORMS``."""
    if name not in DTN_TRANSFORMS:
        raise ValueError(unknown_name("data.dtn_transform", name, DTN_TRANSFORMS))


def transform_maps(dtn: Maps, background: NDArray | None, name: str) -> Maps:
    """Float32[M, n, n] divided by the map of conductivity 1, Float[n, n], entry by entry
    (``ratio``), less it (``difference``) or as they are (``none``, the one that needs no
    ``background``). Symmetric maps stay symmetric.

    Raises ``ValueError`` for an unknown name.
    """
    check_transform(name)
    if name == "none" or background is None:
        return dtn
    reference = background.astype(np.float32)
    return dtn / reference if name == "ratio" else dtn - reference


def add_noise(dtn: Maps, noise_level: float, seed: int) -> Maps:
    """Float32[M, n, n] with every entry times 1 + noise_level e, e ~ N(0, 1).

    Each entry has an e of its own: a noisy map is not symmetric, and its rows do not sum to 0.
    Raises ``ValueError`` for a level below 0.
    """
    if not is_number(noise_level) or not 0 <= noise_level < np.inf:
        raise ValueError(f"data.noise_level={noise_level}: expected a number, at least 0")
    if noise_level == 0:
        return dtn
    noisy = np.empty_like(dtn)
    for k, matrix in enumerate(dtn):
        rng = np.random.default_rng([seed, _NOISE_STREAM, k])
        noisy[k] = matrix * (1 + noise_level * rng.standard_normal(matrix.shape))
    return noisy
