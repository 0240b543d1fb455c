"""Errors and intervals of means over sampling seeds, and of shares of samples.

One rule for shares: where everything that was measured agrees, a spread of 0 says nothing about the
error, since there are only so many samples; Wilson's interval of all of them takes its place.
"""

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

    @property
    def half_width(self) -> float | None:
        """(high - low) / 2, what stands behind ±; None for a single value."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def confidence_interval(
    values: Sequence[float], level: float = 0.95, *, num: float | None = None
) -> Interval:
    """Student's interval mean +- t_{n-1} s / sqrt(n) of n values, one per sampling seed.

    It says what other seeds would give, not how far the value is from that of another model
    or another reference.
    ``num``: of shares, the samples of all seeds together. Where all values are the same, the
    interval is Wilson's, of a share of so many.

    Raises ``ValueError`` without a value, or for ``level`` outside (0, 1).
    """
    if not 0 < level < 1:
        raise ValueError(f"level={level}: expected a confidence level between 0 and 1, e.g. 0.95")
    if len(values) == 0:
        raise ValueError("no values to average: expected at least one, one per sampling seed")
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Interval(mean, None, None)
    from scipy.special import ndtri, stdtrit  # slow

    if num is not None and max(values) == min(values):
        return Interval(mean, *_wilson(mean, num, float(ndtri((1 + level) / 2))))
    quantile = float(stdtrit(len(values) - 1, (1 + level) / 2))
    margin = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - margin, mean + margin)


def standard_error(values: Tensor, *, num: float | None = None) -> float:
    """Standard error of the mean of Float[M]; NaN for one value. ``num``: where they are shares of
    so many samples in all and are the same, that of ``share_error``."""
    if len(values) < 2:
        return math.nan
    if num is not None and values.max() == values.min():
        return share_error(float(values[0]), num)
    return float(values.double().std() / math.sqrt(len(values)))


def share_error(share: float, num: float) -> float:
    """One standard error of a share of ``num`` samples: sqrt(p (1 - p) / num); at 0 and 1, where
    that is 0, half of Wilson's interval of one standard error, 1 / (2 (num + 1))."""
    if not 0 < share < 1:
        low, high = _wilson(share, num, 1.0)
        return (high - low) / 2
    return math.sqrt(share * (1 - share) / num)


def error_text(error: float, digits: int) -> str:
    """An error to ``digits`` decimals, or as many more as show a figure that is not 0."""
    if error > 0 and float(f"{error:.{digits}f}") == 0:
        digits = -int(f"{error:.0e}".partition("e")[2])
    return f"{error:,.{digits}f}"


def _wilson(share: float, num: float, z: float) -> tuple[float, float]:
    """Both ends of Wilson's interval (J. Am. Stat. Assoc. 22, 1927) of a share of ``num``."""
    centre = (share + z * z / (2 * num)) / (1 + z * z / num)
    root = math.sqrt(share * (1 - share) / num + (z / (2 * num)) ** 2)
    half = z * root / (1 + z * z / num)
    return max(0.0, centre - half), min(1.0, centre + half)
