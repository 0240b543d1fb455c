"""What came of reading plans: every line, record or file of the source is accounted for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from discrete_diffusion.data.bubble_diagrams.diagram import BubbleDiagram


class Problem(NamedTuple):
    """A plan that cannot be read.

    ``path``: the file it is in. ``record``: where, e.g. "line 3" or "record 17" (numbered from 1),
    empty if the file holds one plan. ``field``: what is wrong in it, empty if all of it is.
    ``reason``: got, expected, remedy.
    """

    path: Path
    record: str
    field: str
    reason: str

    def sentence(self) -> str:
        """``plans.jsonl, line 3, field 'rooms[1]': ...``"""
        record = f", {self.record}" if self.record else ""
        where = f", field '{self.field}'" if self.field else ""
        return f"{self.path}{record}{where}: {self.reason}"


@dataclass(frozen=True)
class ReadReport:
    """What ``read_report`` returns.

    ``path``: the file or folder. ``diagrams``: in its order. ``num_records``: lines, records or
    files that hold a plan each, ``unit`` what they are called, so that
    ``num_records = len(diagrams) + len(problems) + num_duplicates``. ``problems``: the invalid
    ones. ``num_duplicates``: those the source itself flags as duplicates. ``left_out``: what else
    the diagrams do not hold, counted by name ("self-loops", "walls", "node attributes").
    ``codes``: the tables that integer room codes were read by; none if rooms go by name.
    """

    path: Path
    diagrams: tuple[BubbleDiagram, ...]
    num_records: int
    unit: str
    problems: tuple[Problem, ...]
    num_duplicates: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    codes: tuple[str, ...] = ()

    def counts(self) -> str:
        """How many diagrams were read, and how many of what was left out."""
        read, total = (
            _counted(len(self.diagrams), "diagrams"),
            _counted(self.num_records, self.unit),
        )
        codes = f" (room codes of {' and '.join(self.codes)})" if self.codes else ""
        text = f"{self.path}{codes}: {read} from {total}"
        if self.num_duplicates:
            text += f"; {self.num_duplicates:,} flagged as duplicates left out"
        for name, count in self.left_out.items():
            text += f"; {_counted(count, name)} left out"
        if self.problems:
            text += f"; {len(self.problems):,} invalid left out"
        return text

    def summary(self) -> str:
        """One sentence: the counts, and the first reason if something is invalid."""
        first = f", the first: {self.problems[0].sentence()}" if self.problems else ""
        return self.counts() + first


def _counted(count: int, plural: str) -> str:
    return f"{count:,} {plural.removesuffix('s') if count == 1 else plural}"
