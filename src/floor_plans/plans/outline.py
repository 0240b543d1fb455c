"""``Outline`` and ``Wall``: the shape that a floor plan has to fill, and its straight walls."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Annotated

from discrete_diffusion.config import Bounds, Checked
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.plans.floor_plan import FloorPlan, Point, computed_once, validate_boundary
from floor_plans.plans.libraries import shapely

Rectangle = tuple[int, int, int, int]  # x0, y0, x1, y1 in decimetres
PER_METRE = 10  # units of the grid per metre
MOST_RATIO = 10  # largest ratio of the sides of a rectangular outline
LONGEST = 200  # longest side of a plan, metres. A longer one is in another unit
MOST_AREA = LONGEST**2  # largest area of a plan, square metres
_STEP = 5  # decimetres of the steps that replace slanted sides, inside the outline
THICKEST = 0.45  # thickest wall, metres. Floors that are further apart have space between them
DEEP = 0.5  # metres of floor behind a wall, so that people can reach it
LANDING = 1.0  # metres in front of an outer wall that are free of rooms

_NEAR = 0.01
_ROUNDING, _SPECK = 1e-6, 1e-4  # metres and square metres that count as zero


@dataclass(frozen=True)
class Outline(Checked):
    """Outline of a plan: a polygon ``boundary`` in metres, or a rectangle with ``ratio`` width /
    height, or a rectangle at most twice as long as wide. Raises ``ValueError`` for both, a ratio
    that is not between 0.1 and 10, or an invalid boundary."""

    boundary: tuple[Point, ...] | None = None
    ratio: Annotated[float, Bounds(least=1 / MOST_RATIO, most=MOST_RATIO)] | None = None

    def __post_init__(self) -> None:
        if self.boundary is not None and self.ratio is not None:
            raise ValueError(
                "boundary and ratio are both given; leave ratio out, as a boundary has its own"
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
        width, height = (max(axis) - min(axis) for axis in zip(*self.boundary, strict=True))
        return _decimetres(width), _decimetres(height)

    @computed_once
    def area(self) -> float:
        """Area of the boundary, in square metres."""
        return float(shapely.Polygon(self.boundary or ()).area)

    @computed_once
    def blocked(self) -> tuple[Rectangle, ...]:
        """Rectangles, measured from ``origin``, that cover the box around the boundary less the
        boundary."""
        if self.boundary is None:
            return ()
        x0, y0 = self.origin
        corners = [(x - x0, y - y0) for x, y in self.boundary]
        sides = zip(corners, corners[1:] + corners[:1], strict=True)
        slanted = any(a[0] != b[0] and a[1] != b[1] for a, b in sides)
        # cells between all corners, and stairs where a side is slanted
        axes: list[list[int]] = []
        for values, end in zip(zip(*corners, strict=True), self.size, strict=True):
            cuts = {0, end, *(range(0, end, _STEP) if slanted else ())}
            # a corner between two grid lines makes a cut at both
            for value in values:
                cuts |= {_decimetres(value), min(end, -_decimetres(-value))}
            axes.append(sorted(cut for cut in cuts if 0 <= cut <= end))
        xs, ys = axes
        inside = shapely.Polygon(corners).buffer(1e-6)
        # runs of blocked cells in each row
        rows: list[list[tuple[int, int]]] = []
        for top, bottom in pairwise(ys):
            runs: list[tuple[int, int]] = []
            for left, right in pairwise(xs):
                cell = shapely.box(*(side / PER_METRE for side in (left, top, right, bottom)))
                if inside.covers(cell):
                    continue
                if runs and runs[-1][1] == left:
                    left = runs.pop()[0]
                runs.append((left, right))
            rows.append(runs)
        # equal runs of successive rows are one rectangle
        found: list[Rectangle] = []
        growing: dict[tuple[int, int], int] = {}
        for k, runs in enumerate([*rows, []]):
            for run in [run for run in growing if run not in runs]:
                found.append((run[0], growing.pop(run), run[1], ys[k]))
            for run in runs:
                growing.setdefault(run, ys[k])
        return tuple(sorted(found))

    @computed_once
    def blocked_corners(self) -> list[Rectangle]:
        """Rectangles of ``blocked`` that touch no other and lie in corners of the box around the
        boundary, as in an L."""
        found = []
        for one in self.blocked:
            at_side = [one[a] == 0 or one[a + 2] == self.size[a] for a in (0, 1)]
            spans = [one[a] == 0 and one[a + 2] == self.size[a] for a in (0, 1)]
            near = [o for o in self.blocked if o != one and _touch(o, one)]
            if all(at_side) and not any(spans) and not near:
                found.append(one)
        return found


FREE = Outline()


def _touch(one: Rectangle, other: Rectangle) -> bool:
    """True if two rectangles overlap or touch."""
    return all(one[a] <= other[a + 2] and other[a] <= one[a + 2] for a in (0, 1))


def check_length(field: str, width: float, height: float) -> None:
    """Raise ``DiagramError`` for a size that is longer than a plan may be, infinite or NaN."""
    if not (width <= LONGEST and height <= LONGEST):
        expected = f"expected metres, at most {LONGEST} each way"
        raise DiagramError(field, f"{expected}; got {width:g} x {height:g}")


def _decimetres(metres: float) -> int:
    """Decimetres, rounded down."""
    return math.floor(metres * PER_METRE + 1e-6)


@dataclass(frozen=True)
class Wall:
    """Straight piece of wall from ``low`` to ``high`` along ``axis`` (0: x, 1: y). ``at``: its
    coordinate on the other axis; ``side``: the direction on that axis, 1 or -1, that leads out of
    the room."""

    axis: int
    at: float
    low: float
    high: float
    side: int

    @property
    def length(self) -> float:
        return self.high - self.low

    def point(self, along: float) -> Point:
        """Point of the wall at a coordinate on its axis."""
        return (along, self.at) if self.axis == 0 else (self.at, along)

    def strip_in_front(self, first: float, last: float) -> shapely.Polygon:
        """Rectangle along the wall, from ``first`` to ``last`` metres outside the room."""
        near, far = sorted((self.at + self.side * first, self.at + self.side * last))
        if self.axis == 0:
            return shapely.box(self.low, near, self.high, far)
        return shapely.box(near, self.low, far, self.high)

    def clear_pieces(self, blocked: shapely.Geometry) -> list[Wall]:
        """Pieces of the wall with no part of ``blocked`` in front of or behind them."""
        pieces, low = [], self.low
        parts = [part for part in shapely.get_parts(blocked) if part.area > _SPECK]
        # what is left between the blocked spans
        spans = sorted(part.bounds[self.axis :: 2] for part in parts)
        for first, last in [*spans, (self.high, self.high)]:
            if first - low > _ROUNDING:
                pieces.append(replace(self, low=low, high=min(first, self.high)))
            low = max(low, last)
        return pieces


def walls_of(room: shapely.Polygon | shapely.MultiPolygon) -> list[Wall]:
    """Walls around a floor with sides parallel to the axes, where the floor is at least ``DEEP``
    metres deep."""
    found = []
    for part in map(shapely.geometry.polygon.orient, shapely.get_parts(room.normalize())):
        for ring in (part.exterior, *part.interiors):
            corners = list(ring.simplify(0).coords)
            for (x0, y0), (x1, y1) in pairwise(corners):
                # the floor lies to the left of the ring's direction
                if abs(x1 - x0) > abs(y1 - y0):
                    side = -1 if x1 > x0 else 1
                    found.append(Wall(0, (y0 + y1) / 2, min(x0, x1), max(x0, x1), side))
                else:
                    side = 1 if y1 > y0 else -1
                    found.append(Wall(1, (x0 + x1) / 2, min(y0, y1), max(y0, y1), side))
    return [
        piece
        for wall in found
        for piece in wall.clear_pieces(wall.strip_in_front(-DEEP, -_NEAR).difference(room))
    ]


def shared_walls(plan: FloorPlan, first: int, second: int) -> list[Wall]:
    """Pieces of wall between two rooms, along the middle between them and seen from the first. The
    floors face each other at most ``THICKEST`` apart, without a third room in between."""
    rooms = [room for k, room in enumerate(plan.rooms) if k not in (first, second)]
    others = shapely.union_all(rooms)
    found = []
    for ours, other in product(*(walls_of(plan.rooms[room]) for room in (first, second))):
        # walls that face each other across a wall's thickness
        gap = ours.side * (other.at - ours.at)
        facing = ours.axis == other.axis and ours.side == -other.side
        if not (facing and -_ROUNDING <= gap <= THICKEST):
            continue
        # where they overlap, less other rooms in between
        piece = replace(ours, low=max(ours.low, other.low), high=min(ours.high, other.high))
        if piece.length > _ROUNDING:
            middle = replace(piece, at=(ours.at + other.at) / 2)
            found += middle.clear_pieces(piece.strip_in_front(0, gap).intersection(others))
    return found


def outer_walls(plan: FloorPlan, room: int, *, to_balconies: bool = False) -> list[Wall]:
    """Pieces of a room's wall that face the outside, or a balcony if ``to_balconies``, with
    ``LANDING`` metres free of rooms. The outside lies beyond the boundary, or else beyond the
    outermost walls; a recess is outside, a pocket between rooms is not. Pieces on the outline come
    first, then shorter pieces."""
    floors = shapely.union_all(plan.rooms)
    indoors: shapely.Geometry = plan.outline
    if plan.boundary is None:
        indoors = fill_courts(fill_gaps(floors))
    if to_balconies:
        named = zip(plan.rooms, plan.diagram.room_names, strict=True)
        balconies = shapely.union_all([floor for floor, name in named if name == "Balcony"])
        floors, indoors = floors.difference(balconies), indoors.difference(balconies)
    found = []
    for wall in walls_of(plan.rooms[room]):
        # free in front, and outside behind the wall's thickness
        built = wall.strip_in_front(_NEAR, LANDING).intersection(floors)
        kept = wall.strip_in_front(THICKEST, THICKEST + LANDING).intersection(indoors)
        for piece in wall.clear_pieces(built.union(kept)):
            recess = piece.strip_in_front(0, LANDING).intersection(plan.outline).area
            found.append((recess > THICKEST * piece.length, piece.length, piece))
    return [piece for *_, piece in sorted(found, key=lambda each: each[:2])]


def fill_courts(floors: shapely.Geometry) -> shapely.Geometry:
    """Union of floors and everything that they enclose."""
    return shapely.union_all([shapely.Polygon(f.exterior) for f in shapely.get_parts(floors)])


def fill_gaps(floors: shapely.Geometry, by: float = THICKEST / 2 + _ROUNDING) -> shapely.Geometry:
    """Union of floors and the gaps between them, up to twice ``by`` metres wide: by default as wide
    as the thickest wall."""
    return floors.buffer(by, join_style="mitre").buffer(-by, join_style="mitre")
