"""``Outline``: the shape that a plan has to fill, on the grid of the solver."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.plans.door_placement import FRONT
from floor_plans.plans.floor_plan import Point, computed_once, validate_boundary

Rectangle = tuple[int, int, int, int]
"""x0, y0, x1, y1 in decimetres."""

PER_METRE = 10
"""Units of the grid per metre."""

MOST_RATIO = 10
"""Largest ratio of the sides of a rectangular outline."""

LONGEST = 200
"""Longest side of a plan, metres. A longer one is in another unit."""

MOST_AREA = LONGEST**2
"""Largest area of a plan, square metres."""

_STEP = 5
"""Decimetres of the steps that replace slanted sides, inside the outline."""


@dataclass(frozen=True)
class Outline:
    """Outline of a plan: a polygon ``boundary`` in metres, or a rectangle with ``ratio`` width /
    height, or a rectangle at most twice as long as wide.

    Raises ``ValueError`` for both, a ratio that is not between 0.1 and 10, or an invalid boundary.
    """

    boundary: tuple[Point, ...] | None = None
    ratio: float | None = None

    def __post_init__(self) -> None:
        if self.boundary is not None and self.ratio is not None:
            raise ValueError(
                "boundary and ratio are both given; leave ratio out, as a boundary has its own"
            )
        if self.ratio is not None and not 1 / MOST_RATIO <= self.ratio <= MOST_RATIO:
            raise ValueError(
                f"ratio={self.ratio}: expected width / height, between {1 / MOST_RATIO:g} and "
                f"{MOST_RATIO}"
            )
        if self.boundary is not None:
            object.__setattr__(self, "boundary", validate_boundary(self.boundary))
            width, height = (max(axis) - min(axis) for axis in zip(*self.boundary, strict=True))
            check_length("boundary", width, height)

    @property
    def elongation(self) -> float:
        """Largest ratio of length to width of a rectangular outline."""
        return 2.0 if self.ratio is None else max(self.ratio, 1 / self.ratio)

    @property
    def origin(self) -> Point:
        """Smallest x and y of the boundary."""
        corners = self.boundary or ((0.0, 0.0),)
        return min(x for x, _ in corners), min(y for _, y in corners)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the boundary in decimetres, rounded down."""
        if self.boundary is None:
            raise ValueError("only a boundary has a size")
        (x0, y0), corners = self.origin, self.boundary
        width, height = max(x for x, _ in corners) - x0, max(y for _, y in corners) - y0
        return _down(width), _down(height)

    @computed_once
    def area(self) -> float:
        """Area of the boundary, in square metres."""
        from shapely import Polygon

        return float(Polygon(self.boundary or ()).area)

    @computed_once
    def blocked(self) -> tuple[Rectangle, ...]:
        """Rectangles, measured from ``origin``, that cover the box around the boundary less the
        boundary."""
        if self.boundary is None:
            return ()
        from shapely import Polygon, box

        (x0, y0), (width, height) = self.origin, self.size
        corners = [(x - x0, y - y0) for x, y in self.boundary]
        slanted = any(
            a[0] != b[0] and a[1] != b[1]
            for a, b in zip(corners, corners[1:] + corners[:1], strict=True)
        )
        # cells between all corners, and stairs where a side is slanted
        xs, ys = (
            _cuts([corner[axis] for corner in corners], end, slanted)
            for axis, end in enumerate((width, height))
        )
        inside = Polygon(corners).buffer(1e-6)
        # runs of blocked cells in each row
        rows: list[list[tuple[int, int]]] = []
        for top, bottom in pairwise(ys):
            runs: list[tuple[int, int]] = []
            for left, right in pairwise(xs):
                cell = box(*(side / PER_METRE for side in (left, top, right, bottom)))
                if inside.covers(cell):
                    continue
                if runs and runs[-1][1] == left:
                    left = runs.pop()[0]
                runs.append((left, right))
            rows.append(runs)
        return _stacked(rows, ys)


FREE = Outline()


def check_length(field: str, width: float, height: float) -> None:
    """Raise ``DiagramError`` for a size that is longer than a plan may be, infinite or NaN."""
    if not (width <= LONGEST and height <= LONGEST):
        raise DiagramError(
            field, f"expected metres, at most {LONGEST} each way; got {width:g} x {height:g}"
        )


def front_door_problem(place: Point, boundary: Sequence[Point]) -> str:
    """Say why a front door cannot be at a place. Empty for a place on the boundary, or within the
    width of a front door of it."""
    from shapely import LinearRing, Point

    away = LinearRing(boundary).distance(Point(place))
    if away <= FRONT:
        return ""
    return f"{away:,.1f} m from the boundary; expected a place [x, y] on it, in metres"


def _cuts(values: list[float], end: int, slanted: bool) -> list[int]:
    """Ends of rows or columns of cells. A corner between two grid lines cuts at both."""
    cuts = {0, end, *(range(0, end, _STEP) if slanted else ())}
    for value in values:
        cuts |= {_down(value), min(end, -_down(-value))}
    return sorted(cut for cut in cuts if 0 <= cut <= end)


def _down(metres: float) -> int:
    """Decimetres, rounded down."""
    return math.floor(metres * PER_METRE + 1e-6)


def _stacked(rows: list[list[tuple[int, int]]], ys: list[int]) -> tuple[Rectangle, ...]:
    """Join runs that are equal in successive rows to rectangles."""
    found: list[Rectangle] = []
    growing: dict[tuple[int, int], int] = {}
    for k, runs in enumerate([*rows, []]):
        for run in [run for run in growing if run not in runs]:
            found.append((run[0], growing.pop(run), run[1], ys[k]))
        for run in runs:
            growing.setdefault(run, ys[k])
    return tuple(sorted(found))
