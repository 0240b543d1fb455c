"""``BoxRule``: sizes that boxes may have, and the sectors of each relation as inequalities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from floor_plans.diagrams.geometry import SECTORS
from floor_plans.diagrams.rooms import SURROUNDING

Sector = tuple[tuple[int, int], tuple[int, int]]
"""(first, last) column and (first, last) row of a rectangle in ``SECTORS``."""


@dataclass(frozen=True)
class BoxRule:
    """Boxes with corners on a grid of ``grid`` x ``grid`` unit squares.

    ``threshold``: largest gap between two related boxes, as in ``relations_from_boxes``.
    ``min_side``: shortest side of a room; ``max_aspect``: its longest side / its shortest. The
    defaults are those of RPLAN, 256 pixels for 18 m: a side is at least 0.56 m.

    Raises ``ValueError`` for values that no box satisfies.
    """

    grid: int = 256
    threshold: int = 9
    min_side: int = 8
    max_aspect: int = 6

    def __post_init__(self) -> None:
        for name, least in (("grid", 1), ("threshold", 0), ("min_side", 1), ("max_aspect", 1)):
            if (value := getattr(self, name)) < least:
                raise ValueError(f"{name}={value}: expected at least {least}")
        if self.min_side > self.grid:
            raise ValueError(f"min_side={self.min_side}: no such box fits grid={self.grid}")


def sectors_of(code: int) -> tuple[Sector, ...]:
    """Rectangles of ``SECTORS`` that together cover a code other than "surrounding". A sector is a
    place of room i's centre relative to the box of room j."""
    if code == SURROUNDING:
        raise ValueError("'surrounding' depends on all four sides, not on a centre; take another")
    cells = {tuple(cell) for cell in np.argwhere(np.equal(SECTORS, code)).tolist()}
    # greedy cover: the rectangle with most cells that are not covered yet
    found: list[Sector] = []
    left = set(cells)
    while left:
        rectangles = [
            ((left_edge, right_edge), (top, bottom))
            for left_edge in range(5)
            for right_edge in range(left_edge, 5)
            for top in range(5)
            for bottom in range(top, 5)
            if _cells(((left_edge, right_edge), (top, bottom))) <= cells
        ]
        largest = max(rectangles, key=lambda rectangle: len(_cells(rectangle) & left))
        found.append(largest)
        left -= _cells(largest)
    return tuple(found)


def _cells(sector: Sector) -> set[tuple[int, int]]:
    """Cells (row, column) of a sector."""
    (left, right), (top, bottom) = sector
    return {(row, column) for row in range(top, bottom + 1) for column in range(left, right + 1)}
