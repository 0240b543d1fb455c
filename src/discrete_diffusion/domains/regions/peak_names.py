"""Peak names ``CHROMOSOME:START-END`` and their order along the genome."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_NAME = re.compile(r"([^\s:]+):(\d{1,12})-(\d{1,12})")


@dataclass(frozen=True)
class PeakPositions:
    """Where P peaks lie: ``chromosome`` Int64[P], numbered in natural order (chr2 before chr10),
    ``start`` and ``end`` Int64[P] in base pairs."""

    chromosome: Ints
    start: Ints
    end: Ints

    def genome_order(self) -> Ints:
        """Int64[P]: peaks sorted by chromosome, then start, then end."""
        return np.lexsort((self.end, self.start, self.chromosome))


def read_positions(names: Sequence[str], source: str) -> PeakPositions:
    """Positions of named peaks.

    Raises ``ValueError`` naming ``source`` and line for a name that is none or comes twice.
    """
    chromosomes: list[str] = []
    ends = np.zeros((len(names), 2), np.int64)
    lines: dict[str, int] = {}
    for row, name in enumerate(names):
        match = _NAME.fullmatch(name)
        if match is None or int(match[2]) >= int(match[3]):
            raise ValueError(
                f"{source}: peak_names, line {row + 1}: {name!r} is no peak; expected "
                "CHROMOSOME:START-END with START < END, e.g. chr1:100-600"
            )
        if (first := lines.setdefault(name, row)) != row:
            raise ValueError(
                f"{source}: peak_names, line {row + 1}: {name!r} stands in line {first + 1} too; "
                "give every peak once"
            )
        chromosomes.append(match[1])
        ends[row] = int(match[2]), int(match[3])
    numbers = {name: k for k, name in enumerate(sorted(set(chromosomes), key=_natural))}
    chromosome = np.array([numbers[name] for name in chromosomes], np.int64)
    return PeakPositions(chromosome, ends[:, 0], ends[:, 1])


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Runs of digits compare as numbers and come before letters."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(not p.isdigit(), int(p) if p.isdigit() else 0, p) for p in parts]
