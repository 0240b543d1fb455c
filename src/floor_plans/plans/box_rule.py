"""Rule of the boxes that a floor plan may have, and of when two of them stand in a relation, as
inequalities."""

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

    ``threshold``: the gap up to which two boxes are related, as in ``relations_from_boxes``.
    ``min_side``: the shortest side of a room; ``max_aspect``: the longest side / the shortest.
    The defaults are those of RPLAN, 256 pixels for 18 m: a side is at least 0.56 m.

    Raises ``ValueError`` for what no box satisfies.
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
    """The rectangles of ``SECTORS`` that together hold a code other than "surrounding": where the
    centre of room i lies against the box of room j."""
    if code == SURROUNDING:
        raise ValueError("'surrounding' is a matter of all four sides, not of a centre")
    cells = {tuple(cell) for cell in np.argwhere(np.equal(SECTORS, code)).tolist()}
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
    (left, right), (top, bottom) = sector
    return {(row, column) for row in range(top, bottom + 1) for column in range(left, right + 1)}
