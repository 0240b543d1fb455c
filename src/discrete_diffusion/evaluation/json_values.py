"""Numbers as JSON, which knows neither NaN nor infinity: null for what is not finite."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor


def rounded(values: Tensor, digits: int = 6) -> list[float | None]:
    """A vector as a list of ``digits`` significant digits; NaN and infinities become None."""
    return [
        float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values.tolist()
    ]


def finite(value: Any) -> Any:
    """``value`` with None for every NaN and infinity in it, in its dicts and lists too."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
