"""The interval of a mean over sampling seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval; ``low`` and ``high`` are None for a single value."""

    mean: float
    low: float | None
    high: float | None


def confidence_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Student's interval mean +- t_{n-1} s / sqrt(n) of n values, one per sampling seed.

    It says what other seeds would give, not how far the value is from that of another model
    or another reference. Raises ``ValueError`` without a value, or for ``level`` outside (0, 1).
    """
    if not 0 < level < 1:
        raise ValueError(f"level={level}: expected a confidence level between 0 and 1, e.g. 0.95")
    if len(values) == 0:
        raise ValueError("no values to average: expected at least one, one per sampling seed")
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Interval(mean, None, None)
    from scipy.special import stdtrit  # slow

    quantile = float(stdtrit(len(values) - 1, (1 + level) / 2))
    margin = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - margin, mean + margin)


def standard_error(values: Tensor) -> float:
    """Of the mean of Float[M]; NaN for one value."""
    if len(values) < 2:
        return math.nan
    return float(values.double().std() / math.sqrt(len(values)))
