"""Errors and intervals of means over sampling seeds, and of shares of samples.

A share of samples has Wilson's interval of the samples of all seeds, which is never of no width.
Where other shares agree in all seeds, a spread of 0 says nothing about the error, since there are
only so many samples: Wilson's interval takes its place there too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

_ALPHA = 0.05
"""Seeds differ by more than their samples explain if that has a smaller probability."""


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval; ``low`` and ``high`` are None for a single value.

    ``over_samples``: of a share of samples, the standard error that so many of them leave;
    ``over_seeds``: that of the mean of the values of the seeds, None for one.
    ``±`` is one standard error in every table and picture, never half an interval.
    """

    mean: float
    low: float | None
    high: float | None
    over_samples: float | None = None
    over_seeds: float | None = None

    @property
    def standard_error(self) -> float | None:
        """The larger of both errors, as the seeds of a share differ by their samples too; None for
        a single value that is not a share."""
        known = [error for error in (self.over_samples, self.over_seeds) if error is not None]
        return max(known, default=None)

    def text(self, digits: int, *, scale: float = 1) -> str:
        """``mean ± standard_error``, both times ``scale``; the mean alone without an error."""
        error = self.standard_error
        return plus_minus(scale * self.mean, None if error is None else scale * error, digits)


def interval_entries(intervals: Mapping[str, Interval]) -> dict[str, Any]:
    """Entries of ``metrics.json``: ``intervals``, both ends by name, and ``errors``, of shares of
    samples the standard errors over samples and over seeds."""
    return {
        "intervals": {name: [each.low, each.high] for name, each in intervals.items()},
        "errors": {
            name: {"over_samples": each.over_samples, "over_seeds": each.over_seeds}
            for name, each in intervals.items()
            if each.over_samples is not None
        },
    }


def confidence_interval(
    values: Sequence[float], level: float = 0.95, *, num: float | None = None
) -> Interval:
    """Student's interval mean +- t_{n-1} s / sqrt(n) of n values, one per sampling seed.

    It says what other seeds would give, not how far the value is from that of another model
    or another reference.
    ``num``: of shares, the samples of all seeds together. Where all values are the same, the
    interval is Wilson's, of a share of so many. A share of the samples themselves, such as valid
    ones, has ``share_interval``.

    Raises ``ValueError`` without a value, or for ``level`` outside (0, 1).
    """
    mean = _checked_mean(values, level)
    if len(values) == 1:
        return Interval(mean, None, None)
    from scipy.special import ndtri, stdtrit  # slow

    if num is not None and max(values) == min(values):
        error = share_error(mean, num)
        return Interval(mean, *_wilson(mean, num, float(ndtri((1 + level) / 2))), error, 0.0)
    error = _over_seeds(values)
    margin = float(stdtrit(len(values) - 1, (1 + level) / 2)) * error
    return Interval(mean, mean - margin, mean + margin, over_seeds=error)


def share_interval(values: Sequence[float], num: float, level: float = 0.95) -> Interval:
    """Wilson's interval of a share of independent samples: ``values``, one per seed, are shares of
    ``num`` samples in all.

    Where the seeds differ by more than so many samples explain (chi-squared, 5 %), as those of
    several trained models may, ``num`` shrinks until the interval is as wide as Student's over the
    seeds.

    Raises ``ValueError`` as ``confidence_interval``.
    """
    mean = _checked_mean(values, level)
    from scipy.special import chdtri, ndtri, stdtrit  # slow

    z, several, used = float(ndtri((1 + level) / 2)), len(values) - 1, num
    over_samples, over_seeds = share_error(mean, num), _over_seeds(values) if several else None
    if over_seeds is not None:
        ratio = over_seeds / over_samples
        if several * ratio**2 > float(chdtri(several, _ALPHA)):
            used = num * min(1.0, (z / (float(stdtrit(several, (1 + level) / 2)) * ratio)) ** 2)
    return Interval(mean, *_wilson(mean, used, z), over_samples, over_seeds)


def _checked_mean(values: Sequence[float], level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"level={level}: expected a confidence level between 0 and 1, e.g. 0.95")
    if len(values) == 0:
        raise ValueError("no values to average: expected at least one, one per sampling seed")
    return statistics.fmean(values)


def _over_seeds(values: Sequence[float]) -> float:
    """Standard error of the mean of several values."""
    return statistics.stdev(values) / math.sqrt(len(values))


def standard_error(values: Tensor, *, num: float | None = None) -> float:
    """Standard error of the mean of Float[M]; NaN for one value. ``num``: where they are shares of
    so many samples in all and are the same, that of ``share_error``."""
    if len(values) < 2:
        return math.nan
    if num is not None and values.max() == values.min():
        return share_error(float(values[0]), num)
    return float(values.double().std() / math.sqrt(len(values)))


def share_error(share: float, num: float) -> float:
    """One standard error of a share of ``num`` samples: half of Wilson's interval of one standard
    error, sqrt(p (1 - p) num + 1/4) / (num + 1). About sqrt(p (1 - p) / num); 1 / (2 (num + 1)) at
    0 and 1, where that is 0."""
    low, high = _wilson(share, num, 1.0)
    return (high - low) / 2


def error_note(num_sets: int) -> str:
    """Sentence on what ± is in a table of numbers of ``num_sets`` sets of samples."""
    others = (
        "of other numbers over the sets" if num_sets > 1 else "other numbers of one set have none"
    )
    shares = "± is one standard error: of shares over all samples"
    return f"{shares}, {others}; metrics.json has 95 % intervals."


def error_text(error: float, digits: int) -> str:
    """An error to ``digits`` decimals, or as many more as show a figure that is not 0."""
    if error > 0 and float(f"{error:.{digits}f}") == 0:
        digits = -int(f"{error:.0e}".partition("e")[2])
    return f"{error:,.{digits}f}"


def plus_minus(value: float, error: float | None, digits: int = 3) -> str:
    """``3.465 ± 0.012``; the value alone where it has no error, as the mean of one sample."""
    shown = f"{round(value, digits) + 0.0:.{digits}f}"  # no sign of 0
    if error is None or math.isnan(error):
        return shown
    return f"{shown} ± {error_text(error, digits)}"


def _wilson(share: float, num: float, z: float) -> tuple[float, float]:
    """Both ends of Wilson's interval (J. Am. Stat. Assoc. 22, 1927) of a share of ``num``."""
    centre = (share + z * z / (2 * num)) / (1 + z * z / num)
    root = math.sqrt(share * (1 - share) / num + (z / (2 * num)) ** 2)
    half = z * root / (1 + z * z / num)
    return 0.0 if share == 0 else centre - half, 1.0 if share == 1 else centre + half
