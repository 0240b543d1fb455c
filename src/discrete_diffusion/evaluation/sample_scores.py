"""Metrics of sets of samples, one set per sampling seed or file: values, intervals, the table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from discrete_diffusion.evaluation.intervals import (
    Interval,
    confidence_interval,
    interval_entries,
    share_interval,
)
from discrete_diffusion.evaluation.table import COLUMNS, TableRow, TableSection


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
