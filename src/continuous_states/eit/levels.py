"""The six conductivities of phantoms, as ids and as numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

LEVELS = (1.0, 2.0, 2.75, 3.5, 4.25, 5.0)
"""Id 0 is the background."""

MASK_ID = len(LEVELS)
VOCAB_SIZE = len(LEVELS) + 1


def levels_to_conductivity(levels: Tensor) -> Tensor:
    """Int[...] ids 0..5 -> Float32[...]. Raises ``ValueError`` for another id."""
    if levels.numel() and not 0 <= int(levels.min()) <= int(levels.max()) < len(LEVELS):
        raise ValueError(
            f"ids from {int(levels.min())} to {int(levels.max())}; expected 0 to "
            f"{len(LEVELS) - 1}, which stand for the conductivities {LEVELS}"
        )
    return torch.tensor(LEVELS, device=levels.device)[levels.long()]


def are_levels(conductivity: Tensor) -> Tensor:
    """Bool[...]: whether each of Float[...] is one of the six."""
    nearest = levels_to_conductivity(conductivity_to_levels(conductivity))
    return (nearest - conductivity).abs() <= 1e-4


def conductivity_to_levels(conductivity: Tensor, levels: Sequence[float] = LEVELS) -> Tensor:
    """Float[...] -> Int64[...], the index of the nearest of the ascending ``levels``; of two, the
    lower one."""
    values = torch.tensor(levels, dtype=conductivity.dtype, device=conductivity.device)
    return torch.bucketize(conductivity.contiguous(), (values[1:] + values[:-1]) / 2)
