"""Labels of rooms on a floor plan: names and areas, as large as fits and is easily read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from shapely import Geometry, contains_xy, get_parts, prepare

from floor_plans.diagrams.pictures.diagram_pictures import text_width
from floor_plans.drawings.drawing_style import RoomName, labels_of_rooms
from floor_plans.plans.floor_plan import FloorPlan

LEAST_POINTS, LARGEST = 5.5, 11.0
"""Smallest and largest size of the letters of a name, points."""
_LETTER, _SMALLEST_LARGE = 0.34, 7.5
"""Preferred size of letters in metres, and the least number of points for it."""
_NUMBER_SIZES = (4.5, 3.5, 2.5)
"""Sizes of the numbers of rooms that have no space for a larger one."""
LINE_HEIGHT = 1.25
"""Height of a line of text, in units of its size."""
AREA_SIZE = 0.85
"""Size of the letters of the area, in units of those of the name."""

_SQUARE_METRES = "m²"
_CELL = 0.05
"""Width of the grid on which places of labels are searched, metres."""
_MARGINS = (1.6, 0.8, 0.3)
"""Free floor around a label, in units of its letters; the first one that fits is used."""


@dataclass(frozen=True)
class Label:
    """Label of a room: ``lines``, of which the last is smaller if there are several.

    ``points``: size of the letters; ``x``, ``y``: centre in metres; ``angle``: 0, or 90 to read
    upwards.
    """

    lines: tuple[str, ...]
    points: float
    x: float
    y: float
    angle: int = 0

    @property
    def states_area(self) -> bool:
        """True if the label includes the area."""
        return self.lines[-1].endswith(_SQUARE_METRES)

    @property
    def sizes(self) -> tuple[float, ...]:
        """Sizes of the letters of each line."""
        first = (self.points,) * max(1, len(self.lines) - 1)
        return (*first, self.points * AREA_SIZE)[: len(self.lines)]


def block_size(lines: Sequence[str], points: float) -> tuple[float, float]:
    """Width and height of lines of text, in points."""
    sizes = Label(tuple(lines), points, 0, 0).sizes
    width = max(size * text_width(line) for line, size in zip(lines, sizes, strict=True))
    return width, LINE_HEIGHT * sum(sizes)


def label_of(
    plan: FloorPlan, room: int, free: Geometry, *, per_metre: float, language: str, number: int
) -> Label:
    """Label of a room with that ``free`` floor: name and area, or else the name, or its ``number``.

    ``per_metre``: points of the page per metre.
    """
    name = labels_of_rooms(plan, language)[room]
    largest = min(max(_LETTER * per_metre, _SMALLEST_LARGE), LARGEST)
    # the largest part of the free floor
    parts = get_parts(free)
    floor = max(parts, key=lambda part: part.area) if len(parts) else None
    if floor is not None and floor.area > 0:
        grid = _Grid(floor)
        # the first form that fits
        for lines, points, angle in _forms(name, plan.areas[room], largest, str(number)):
            width, height = (length / per_metre for length in block_size(lines, points))
            sides = (height, width) if angle else (width, height)
            spot = grid.place(*sides, [margin * points / per_metre for margin in _MARGINS])
            if spot is not None:
                return Label(lines, points, *spot, angle)
    # nothing fits: a small number on the floor
    point = (plan.rooms[room] if plan.areas[room] > 0 else plan.boxes[room]).representative_point()
    return Label((str(number),), _NUMBER_SIZES[-1], point.x, point.y)


def _forms(
    name: RoomName, area: float, largest: float, number: str
) -> Iterator[tuple[tuple[str, ...], float, int]]:
    """Forms of a label, the best first: with the area, level, large, with the full name."""
    measured = f"{area:.1f} {_SQUARE_METRES}"
    # ways to write the name, with the area
    names = dict.fromkeys([(name.whole,), tuple(name.whole.split()), (name.short,)])
    whole = [(*words, measured) for words in names] + [(f"{name.short} {measured}",)]
    sizes = np.arange(largest, LEAST_POINTS - 0.01, -0.5).tolist()
    # with area, then without it, then the number alone
    for ways, angle in (
        (whole, 0),
        (whole[-2:], 90),
        ([(name.short,)], 0),
        ([(name.short,)], 90),
        ([(number,)], 0),
    ):
        for points in sizes if ways != [(number,)] else [*sizes, *_NUMBER_SIZES]:
            for lines in ways:
                yield lines, points, angle


class _Grid:
    """Cells of a grid that lie in a floor."""

    def __init__(self, floor: Geometry) -> None:
        left, top, right, bottom = floor.bounds
        self.x = np.arange(left + _CELL / 2, right, _CELL)
        self.y = np.arange(top + _CELL / 2, bottom, _CELL)
        prepare(floor)
        # summed areas, to count the cells of a rectangle at once
        columns, rows = np.meshgrid(self.x, self.y)
        inside = contains_xy(floor, columns, rows)
        self.sums = np.pad(inside.astype(np.int64).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
        self.target = np.array([(left + right) / 2, (top + bottom) / 2])

    def place(
        self, width: float, height: float, margins: Sequence[float]
    ) -> tuple[float, float] | None:
        """Centre of a rectangle in the floor, with the first of the ``margins`` that fits, as close
        to the middle as possible; None if it fits nowhere."""
        for margin in margins:
            wide, high = (math.ceil((side + 2 * margin) / _CELL) + 1 for side in (width, height))
            if wide > len(self.x) or high > len(self.y):
                continue
            # rectangles whose cells all lie in the floor
            sums = self.sums
            filled = sums[high:, wide:] - sums[:-high, wide:] - sums[high:, :-wide]
            rows, columns = np.nonzero(filled + sums[:-high, :-wide] == wide * high)
            if len(rows):
                x = self.x[columns] + (wide - 1) / 2 * _CELL
                y = self.y[rows] + (high - 1) / 2 * _CELL
                best = np.hypot(x - self.target[0], y - self.target[1]).argmin()
                return float(x[best]), float(y[best])
        return None
