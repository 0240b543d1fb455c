"""Tensors as JSON: plain numbers, and null for what is not one."""

from __future__ import annotations

import math

from torch import Tensor


def rounded(values: Tensor, digits: int = 6) -> list[float | None]:
    """A vector as a list of ``digits`` significant digits; NaN and infinities become None."""
    return [
        float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values.tolist()
    ]
