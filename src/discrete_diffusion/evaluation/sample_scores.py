"""Metrics of sets of samples: errors and intervals, table rows, and real-vs-real values."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from discrete_diffusion.evaluation.tables import COLUMNS, TableRow, TableSection
from discrete_diffusion.runtime import progress


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval; ``low`` and ``high`` are None for a single value.

    ``over_samples``: standard error of a share of samples; ``over_seeds``: standard error of the
    mean over seeds, None for one seed. In every table and picture ± is one standard error.
    """

    mean: float
    low: float | None
    high: float | None
    over_samples: float | None = None
    over_seeds: float | None = None

    @property
    def standard_error(self) -> float | None:
        """Larger of ``over_samples`` and ``over_seeds``; None if both are unknown."""
        known = [error for error in (self.over_samples, self.over_seeds) if error is not None]
        return max(known, default=None)

    def text(self, digits: int, *, scale: float = 1) -> str:
        """Format ``mean ± standard_error``, both times ``scale``."""
        error = self.standard_error
        return plus_minus(scale * self.mean, None if error is None else scale * error, digits)


def interval_entries(intervals: Mapping[str, Interval]) -> dict[str, Any]:
    """Entries of ``metrics.json``: ends of intervals, and standard errors of sample proportions."""
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

    It describes the variation between seeds, not between models or references. ``num``: for shares,
    the total number of samples of all seeds. If all shares are equal, the interval is Wilson's for
    ``num`` samples, since Student's would have width 0. For a share of independent samples, such as
    the share of valid samples, use ``share_interval``.

    Raises ``ValueError`` for no values, or for ``level`` outside (0, 1).
    """
    mean = _checked_mean(values, level)
    if len(values) == 1:
        return Interval(mean, None, None)
    from scipy.special import ndtri, stdtrit  # slow

    # equal shares have Wilson's interval
    if num is not None and max(values) == min(values):
        error = share_error(mean, num)
        return Interval(mean, *_wilson(mean, num, float(ndtri((1 + level) / 2))), error, 0.0)
    # Student's interval
    error = _error_of_mean(values)
    margin = float(stdtrit(len(values) - 1, (1 + level) / 2)) * error
    return Interval(mean, mean - margin, mean + margin, over_seeds=error)


def share_interval(values: Sequence[float], num: float, level: float = 0.95) -> Interval:
    """Wilson's interval of a share of independent samples.

    ``values``: shares, one per seed, of ``num`` samples in total. If they are overdispersed, as for
    several trained models (chi-squared test, 5 %), ``num`` is reduced until the interval is as wide
    as Student's over the seeds.

    Raises the errors of ``confidence_interval``.
    """
    mean = _checked_mean(values, level)
    from scipy.special import chdtri, ndtri, stdtrit  # slow

    # both errors
    z, several, used = float(ndtri((1 + level) / 2)), len(values) - 1, num
    over_samples, over_seeds = share_error(mean, num), _error_of_mean(values) if several else None
    # fewer samples count where seeds differ by more
    if over_seeds is not None:
        ratio = over_seeds / over_samples
        if several * ratio**2 > float(chdtri(several, 0.05)):
            used = num * min(1.0, (z / (float(stdtrit(several, (1 + level) / 2)) * ratio)) ** 2)
    return Interval(mean, *_wilson(mean, used, z), over_samples, over_seeds)


def _checked_mean(values: Sequence[float], level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"level={level}: expected a confidence level between 0 and 1, e.g. 0.95")
    if len(values) == 0:
        raise ValueError("no values to average: expected at least one, one per sampling seed")
    return statistics.fmean(values)


def _error_of_mean(values: Sequence[float]) -> float:
    """Standard error of the mean of several values."""
    return statistics.stdev(values) / math.sqrt(len(values))


def standard_error(values: Tensor, *, num: float | None = None) -> float:
    """Standard error of the mean of Float[M]; NaN for one value.

    ``num``: number of samples if the values are shares. For equal shares, return ``share_error``.
    """
    if len(values) < 2:
        return math.nan
    if num is not None and values.max() == values.min():
        return share_error(float(values[0]), num)
    return float(values.double().std() / math.sqrt(len(values)))


def share_error(share: float, num: float) -> float:
    """Standard error of a share of ``num`` samples, sqrt(p (1 - p) num + 1/4) / (num + 1).

    Half the width of Wilson's interval for z = 1: about sqrt(p (1 - p) / num), but
    1 / (2 (num + 1)) at p = 0 and p = 1.
    """
    low, high = _wilson(share, num, 1.0)
    return (high - low) / 2


def error_note(num_sets: int) -> str:
    """Sentence on the meaning of ± in a table on ``num_sets`` sets of samples."""
    others = (
        "of other numbers over the sets" if num_sets > 1 else "other numbers of one set have none"
    )
    shares = "± is one standard error: of shares over all samples"
    return f"{shares}, {others}; metrics.json has 95 % intervals."


def error_text(error: float, digits: int) -> str:
    """Format an error with ``digits`` decimals, or more until a digit is not 0."""
    # more decimals until a figure shows
    if error > 0 and float(f"{error:.{digits}f}") == 0:
        digits = -int(f"{error:.0e}".partition("e")[2])
    return f"{error:,.{digits}f}"


def plus_minus(value: float, error: float | None, digits: int = 3) -> str:
    """Format ``3.465 ± 0.012``, or only the value if the error is unknown."""
    shown = f"{round(value, digits) + 0.0:.{digits}f}"  # no sign of 0
    if error is None or math.isnan(error):
        return shown
    return f"{shown} ± {error_text(error, digits)}"


def _wilson(share: float, num: float, z: float) -> tuple[float, float]:
    """Ends of Wilson's interval (J. Am. Stat. Assoc. 22, 1927) of a share of ``num`` samples."""
    centre = (share + z * z / (2 * num)) / (1 + z * z / num)
    root = math.sqrt(share * (1 - share) / num + (z / (2 * num)) ** 2)
    half = z * root / (1 + z * z / num)
    return 0.0 if share == 0 else centre - half, 1.0 if share == 1 else centre + half


@dataclass(frozen=True)
class Metric:
    """Metric of a set of samples, shown as a row of the table ``section``.

    ``share``: True for a share of samples; ``of``: names of shares, if only samples with these
    properties count. ``of_each``: True if each sample has the property by itself (validity, but not
    uniqueness), so that the interval is Wilson's. ``percent``: True if shown in percent.
    ``digits``: number of decimals shown; None: 4, or 2 for a mean above 1. ``ratio``: number of
    decimals of the ratio of a distance to that of real data (a single decimal is dropped from 100
    on); None if the metric is not a distance. ``detail``: True if shown only in ``table.md``.
    """

    section: str
    meaning: str
    share: bool = False
    of_each: bool = True
    of: tuple[str, ...] = ()
    digits: int | None = None
    percent: bool = False
    ratio: int | None = None
    detail: bool = False


@dataclass(frozen=True)
class SampleScores:
    """Metrics of several sets of samples, with the metrics of real data.

    ``sizes``: sizes of the sets. ``per_seed``: by metric, a value for each set. ``real``: by
    metric, the value of real data, or the real-vs-real value. ``facts``, ``tables``: further
    entries of ``metrics.json``: single numbers, and others. ``further``: sections that follow those
    of the metrics; ``heads``: column heads. ``notes``: sentences on how to read the table.
    """

    metrics: Mapping[str, Metric]
    sizes: Sequence[int]
    per_seed: dict[str, list[float]]
    real: dict[str, float]
    facts: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, Any] = field(default_factory=dict)
    further: Sequence[TableSection] = ()
    heads: tuple[str, ...] = COLUMNS
    notes: list[str] = field(default_factory=list)

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """Mean and 95 % interval by metric.

        Wilson's interval for shares ``of_each`` sample, otherwise Student's over the sets.
        """
        intervals = {}
        for name, values in self.per_seed.items():
            metric = self.metrics.get(name)
            if metric is None or not metric.share:
                intervals[name] = confidence_interval(values)
                continue
            # a share of the samples that have the shares ``of``
            shares = (self.per_seed[each] for each in metric.of)
            num = max(1, sum(map(math.prod, zip(self.sizes, *shares, strict=True))))
            intervals[name] = (
                share_interval(values, num)
                if metric.of_each
                else confidence_interval(values, num=num)
            )
        return intervals

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``: means by name, then facts, intervals and tables."""
        return {
            **{name: interval.mean for name, interval in self.intervals.items()},
            **self.facts,
            **interval_entries(self.intervals),
            "per_seed": self.per_seed,
            **self.tables,
        }

    def sections(self) -> list[TableSection]:
        """Tables, one for each section of the metrics, then the ``further`` tables."""
        rows: dict[str, list[TableRow]] = {each.section: [] for each in self.metrics.values()}
        for name, metric in self.metrics.items():
            if name in self.per_seed:
                rows[metric.section].append(self._row(name, metric))
        sections = [TableSection(title, tuple(each), self.heads) for title, each in rows.items()]
        return [*sections, *self.further]

    def _row(self, name: str, metric: Metric) -> TableRow:
        interval, real, digits = self.intervals[name], self.real.get(name), metric.digits
        if digits is None:
            digits = 2 if interval.mean > 1 else 4
        scale, unit = (100, " %") if metric.percent else (1, "")
        shown = "" if real is None else f"{scale * real:.{digits}f}{unit}"
        # ratio to the real-vs-real value
        ratio = ""
        if metric.ratio is not None and real:  # no ratio to 0
            whole = metric.ratio == 1 and interval.mean >= 100 * real
            ratio = f"{interval.mean / real:.{0 if whole else metric.ratio}f}"
        value = f"{interval.text(digits, scale=scale)}{unit}"
        return TableRow(name, value, shown, ratio, metric.meaning, detail=metric.detail)


def shown_sizes(sizes: Sequence[int]) -> str:
    """Format sizes: ``5 x 2,000`` for five equal sets, ``2,000 + 1,999`` for unequal ones."""
    if len(set(sizes)) == 1:
        return f"{len(sizes)} x {sizes[0]:,}"
    return " + ".join(f"{size:,}" for size in sizes)


class _Set(Protocol):
    """Set of samples from which rows can be selected."""

    def __len__(self) -> int: ...

    def select(self: S, rows: NDArray[np.int64]) -> S: ...


S = TypeVar("S", bound=_Set)


@dataclass(frozen=True)
class RealVsReal:
    """Metrics between two disjoint random sets of real samples, over ``draws`` pairs of sets.

    ``mean``, ``sd``: by metric name; ``sd`` is the standard deviation over pairs (n - 1; 0 for one
    pair). ``num_samples``, ``num_reference``: sizes of the two sets, which may be smaller than
    requested.
    """

    mean: dict[str, float]
    sd: dict[str, float]
    num_samples: int
    num_reference: int
    draws: int

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``."""
        sizes = ("num_samples", "num_reference", "draws")
        of_sets = {name: getattr(self, name) for name in sizes}
        return {"floors": self.mean, "floor_sd": self.sd, "floor_sizes": of_sets}


def real_vs_real(
    real: S,
    metrics: Callable[[S, S], Mapping[str, float]],
    *,
    num_samples: int,
    num_reference: int,
    draws: int = 20,
    seed: int = 0,
) -> RealVsReal:
    """Measure ``metrics`` of ``num_samples`` real samples against ``num_reference`` other real
    ones.

    A distance between finite sets is above 0 even if both come from one distribution, and larger
    for smaller sets; this is the baseline for a model's distance at the same sizes. If ``real`` is
    smaller than both sizes together, the first set shrinks to what the reference leaves; if the
    reference is more than half of ``real``, the first set takes at most one half and the reference
    the rest. Each pair of sets depends only on ``seed`` and the number of the pair.

    Raises ``ValueError`` for fewer than two samples, or for a size or number of pairs below 1.
    """
    # sizes that the data allow
    sizes = {"num_samples": num_samples, "num_reference": num_reference, "draws": draws}
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name}={value}: expected at least 1")
    if (available := len(real)) < 2:
        raise ValueError(
            f"{available} real samples: a floor needs at least 2, to compare one set with another"
        )
    num_samples = min(num_samples, max(available - num_reference, available // 2))
    num_reference = min(num_reference, available - num_samples)
    # metrics of random disjoint sets
    found = []
    for draw in progress.track(range(draws), "floors", "draws"):
        order = np.random.default_rng([seed, draw]).permutation(available)
        ours = real.select(order[:num_samples])
        theirs = real.select(order[num_samples : num_samples + num_reference])
        found.append(metrics(ours, theirs))
    # mean and spread over the pairs
    table = {name: np.array([scores[name] for scores in found]) for name in found[0]}
    return RealVsReal(
        mean={name: float(v.mean()) for name, v in table.items()},
        sd={name: float(v.std(ddof=1)) if draws > 1 else 0.0 for name, v in table.items()},
        num_samples=num_samples,
        num_reference=num_reference,
        draws=draws,
    )
