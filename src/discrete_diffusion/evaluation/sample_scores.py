"""Metrics of sets of samples, one set per sampling seed or file: values, intervals, the table; and
those of a perfect model, real samples against other real samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.evaluation.intervals import (
    Interval,
    confidence_interval,
    interval_entries,
    share_interval,
)
from discrete_diffusion.evaluation.table import COLUMNS, TableRow, TableSection
from discrete_diffusion.runtime import progress


@dataclass(frozen=True)
class Metric:
    """One number of a set of samples, a row of the table under the heading ``section``.

    ``share``: it is a share of the samples; ``of``: of those samples only that have these shares.
    ``of_each``: and each sample has the property by itself, as validity and not uniqueness, so that
    its interval is Wilson's. ``digits``: decimals, of ``percent`` in percent; None is 4, or 2 of a
    mean above 1. ``ratio``: decimals of the ratio of a distance to that of real data, one of
    which is none from 100 on; None: there is no ratio.
    """

    section: str
    meaning: str
    share: bool = False
    of_each: bool = True
    of: tuple[str, ...] = ()
    digits: int | None = None
    percent: bool = False
    ratio: int | None = None


@dataclass(frozen=True)
class SampleScores:
    """Metrics of several sets of samples, of ``sizes``, beside real data.

    ``per_seed``: by metric, a value of each set. ``real``: by metric, what real data scores in the
    place of samples, or the floor. ``facts``, ``tables``: further entries of ``metrics.json``,
    single numbers and others. ``further``: sections below those of the metrics; ``heads``: above
    the columns. ``notes``: how to read the table, in sentences.
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
        """Mean and 95 % interval by metric: Wilson's of shares that ``of_each`` sample is part of,
        else Student's over the sets."""
        return {name: self._interval(name) for name in self.per_seed}

    def _interval(self, name: str) -> Interval:
        metric, values, num = self.metrics.get(name), self.per_seed[name], None
        if metric is not None and metric.share:
            shares = (self.per_seed[each] for each in metric.of)
            num = max(1, sum(map(math.prod, zip(self.sizes, *shares, strict=True))))
            if metric.of_each:
                return share_interval(values, num)
        return confidence_interval(values, num=num)

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``: means by name, then what stands beside them."""
        return {
            **{name: interval.mean for name, interval in self.intervals.items()},
            **self.facts,
            **interval_entries(self.intervals),
            "per_seed": self.per_seed,
            **self.tables,
        }

    def sections(self) -> list[TableSection]:
        """A table of each section of the metrics, then the further ones."""
        rows: dict[str, list[TableRow]] = {each.section: [] for each in self.metrics.values()}
        for name, metric in self.metrics.items():
            if name in self.per_seed:
                rows[metric.section].append(self._row(name, metric))
        found = [TableSection(title, tuple(each), self.heads) for title, each in rows.items()]
        return [*found, *self.further]

    def _row(self, name: str, metric: Metric) -> TableRow:
        interval, real, digits = self.intervals[name], self.real.get(name), metric.digits
        if digits is None:
            digits = 2 if interval.mean > 1 else 4
        scale, unit = (100, " %") if metric.percent else (1, "")
        shown = "" if real is None else f"{scale * real:.{digits}f}{unit}"
        ratio = ""
        if metric.ratio is not None and real:  # a floor of 0 is not divided by
            whole = metric.ratio == 1 and interval.mean >= 100 * real
            ratio = f"{interval.mean / real:.{0 if whole else metric.ratio}f}"
        value = f"{interval.text(digits, scale=scale)}{unit}"
        return TableRow(name, value, shown, ratio, metric.meaning)


def shown_sizes(sizes: Sequence[int]) -> str:
    """``5 x 2,000`` for five equal sets, ``2,000 + 1,999`` for two unequal ones."""
    if len(set(sizes)) == 1:
        return f"{len(sizes)} x {sizes[0]:,}"
    return " + ".join(f"{size:,}" for size in sizes)


class _Set(Protocol):
    """Samples that are chosen by row."""

    def __len__(self) -> int: ...

    def select(self: S, rows: NDArray[np.int64]) -> S: ...


S = TypeVar("S", bound=_Set)


@dataclass(frozen=True)
class RealVsReal:
    """Every metric between two disjoint random sets of real samples, over ``draws`` such pairs.

    ``mean``, ``sd``: by metric name; ``sd`` is the spread of one pair (n - 1; 0 for one pair).
    ``num_samples``, ``num_reference``: sizes of the two sets, which may be smaller than requested.
    """

    mean: dict[str, float]
    sd: dict[str, float]
    num_samples: int
    num_reference: int
    draws: int

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``."""
        sizes = ("num_samples", "num_reference", "draws")
        return {
            "floors": self.mean,
            "floor_sd": self.sd,
            "floor_sizes": {name: getattr(self, name) for name in sizes},
        }


def real_vs_real(
    real: S,
    metrics: Callable[[S, S], Mapping[str, float]],
    *,
    num_samples: int,
    num_reference: int,
    draws: int = 20,
    seed: int = 0,
) -> RealVsReal:
    """The ``metrics`` of ``num_samples`` real samples against ``num_reference`` others.

    A distance between finite sets is above 0 even if both come from one distribution, and the
    smaller the sets the further; a model's distance is read beside this one, at the same sizes.
    If ``real`` holds fewer than both sizes together, the samples shrink to what the reference
    leaves of it; if the reference alone is more than half of it, the samples take at most one half
    and the reference the rest. Each pair depends on ``seed`` and its number alone.

    Raises ``ValueError`` for fewer than two samples, a size or number of pairs below 1.
    """
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
    found = []
    for draw in progress.track(range(draws), "floors", "draws"):
        order = np.random.default_rng([seed, draw]).permutation(available)
        ours = real.select(order[:num_samples])
        theirs = real.select(order[num_samples : num_samples + num_reference])
        found.append(metrics(ours, theirs))
    table = {name: np.array([scores[name] for scores in found]) for name in found[0]}
    return RealVsReal(
        mean={name: float(v.mean()) for name, v in table.items()},
        sd={name: float(v.std(ddof=1)) if draws > 1 else 0.0 for name, v in table.items()},
        num_samples=num_samples,
        num_reference=num_reference,
        draws=draws,
    )
