"""``PlanShapes``: walls, railings, doors, windows and dimension lines of a plotted floor plan.

Lengths are in metres. Windows are a proposal; the solver places none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from floor_plans.plans.doors import door_space, hang_doors, is_sliding, wall_space
from floor_plans.plans.floor_plan import Door, FloorPlan, Point
from floor_plans.plans.libraries import shapely
from floor_plans.plans.outline import THICKEST, Wall, fill_courts, fill_gaps, outer_walls
from floor_plans.plans.walls import INNER_WALL, OUTER_WALL, walls_of_plan
from floor_plans.rules.finding import rooms_of
from floor_plans.rules.rule_set import read_rules

SILL, HEIGHT = 0.9, 1.3
"""Heights of every window, metres: from the floor to its sill, and from there to its head."""

_SERVICE = ("Kitchen", "Bathroom")  # kinds of rooms with windows that no rule requires

_NARROWEST, _WIDEST, _STEP = 0.6, 2.4, 0.1
_FROM_CORNER = 0.3  # metres between a window and the end of its wall, half an outer wall included
_FROM_DOOR = 0.2
_ON_WALL = 0.01  # largest distance of a window from the border of its room's floor, metres


_PANE = 0.05  # thickness of a pane, and half of the overlap of two
_ARROW = (0.1, 0.5, 0.24)
"""Distances from the wall to the tip and to the base of a front door's arrow, and half its
width."""

_LEAST_STEP = 0.3  # least metres between two walls for a dimension of their own


@dataclass(frozen=True)
class Window:
    """Window of ``room`` from ``start`` to ``end``, along the middle of its outer wall."""

    room: int
    start: Point
    end: Point

    @property
    def width(self) -> float:
        return math.dist(self.start, self.end)


def find_windows(plan: FloorPlan) -> tuple[Window, ...]:
    """Place windows in the habitable rooms, kitchens and bathrooms of a plan, by room. They have
    the share of its floor that the rule ``window`` of ``default`` requires (8 %), or less if walls
    are too short, at a height of ``HEIGHT``: in its longest outer wall first, towards a balcony
    too, clear of corners and doors. The same plan always gets the same windows."""
    rooms = rooms_of(plan, (*_window_rule()[0], *_SERVICE))
    return tuple(window for room in rooms for window in _windows_of(plan, room))


def window_share(plan: FloorPlan) -> float | None:
    """Window area per floor area of the habitable rooms; None without such rooms."""
    rooms = rooms_of(plan, _window_rule()[0])
    floor = sum(plan.areas[room] for room in rooms)
    width = sum(window.width for room in rooms for window in _windows_of(plan, room))
    return width * HEIGHT / floor if floor else None


@cache
def _window_rule() -> tuple[tuple[str, ...], float]:
    """Kinds of habitable rooms, and the least window area as a share of their floors."""
    rule = read_rules("default").rules["window"]
    return rule["rooms"], rule["share"]


def _windows_of(plan: FloorPlan, room: int) -> Iterator[Window]:
    """Windows of a room, wall by wall, until the share is reached."""
    width = _window_rule()[1] * plan.areas[room] / HEIGHT  # of all of them together
    # outer walls clear of doors, the longest first
    boxes = [shapely.box(*door.box(THICKEST)) for door in plan.doors]
    doors = shapely.union_all([box.buffer(_FROM_DOOR) for box in boxes])
    border = plan.rooms[room].boundary.buffer(_ON_WALL)
    walls = [
        piece
        for wall in outer_walls(plan, room, to_balconies=True)
        for piece in wall.clear_pieces(
            wall.strip_in_front(-_FROM_DOOR, _FROM_DOOR).intersection(doors)
        )
    ]
    for wall in sorted(walls, key=lambda wall: (-round(wall.length, 6), wall.axis, wall.at)):
        for start, end in _window_spans(wall, width):
            line = shapely.LineString([start, end])
            if border.covers(line):  # not along a slanted wall
                width -= line.length
                yield Window(room, start, end)


def _window_spans(wall: Wall, width: float) -> Iterator[tuple[Point, Point]]:
    """Ends of evenly spaced windows along a wall, of total ``width`` if the wall is long enough."""
    free = wall.length - 2 * _FROM_CORNER
    if width < _STEP / 2 or free < _NARROWEST:
        return
    wanted = min(max(width, _NARROWEST), free)
    number = math.ceil(wanted / _WIDEST - 1e-9)
    each = math.ceil(wanted / number / _STEP - 1e-6) * _STEP
    space = free / number
    each = min(each, space if number == 1 else space - _FROM_CORNER)
    for k in range(number):
        middle = wall.low + _FROM_CORNER + (k + 0.5) * space
        ends = [wall.point(middle + side * each / 2) for side in (-1, 1)]
        first, last = ((round(x, 6), round(y, 6)) for x, y in ends)
        yield first, last


class PlanShapes:
    """Parts of a plan as shapes, each cut to its visible part.

    ``house``, ``shell``, ``solid`` and ``railings``: as in ``Walls``; ``floors``: floor of each
    room, up to the middle of its walls; ``walls``: walls with openings.

    ``sliding``: doors to a balcony; ``panes``: panes of these doors; ``swings``: swings of all
    other doors, in the order of the doors; ``arrows``: triangles that point into the front doors.
    ``windows``: proposed windows, see ``find_windows``; ``glazed``: the wall of each window.

    ``boundary``: boundary of the plan as a line, if there is one; ``dead``: area without a room,
    inside the boundary or enclosed by rooms. Doors without width are not plotted.
    """

    def __init__(self, plan: FloorPlan) -> None:
        self.plan, self.floors = plan, plan.rooms
        # walls, without and with their openings
        walls = walls_of_plan(plan)
        self.house, self.shell, self.solid = walls.house, walls.shell, walls.solid
        self.railings = walls.railings
        doors = [door for door in plan.doors if door.start != door.end]
        openings = shapely.union_all([door_space(door) for door in doors])
        self.windows = find_windows(plan)
        self.glazed = [self.solid.intersection(window_space(each)) for each in self.windows]
        self.walls = self.solid.difference(shapely.union_all([openings, *self.glazed]))
        self.boundary = shapely.LineString() if plan.boundary is None else plan.outline.exterior
        self.boundary = self.boundary.difference(openings)
        everything = fill_gaps(shapely.union_all(plan.rooms))
        outline = fill_courts(everything) if plan.boundary is None else plan.outline
        self.dead = outline.difference(everything).difference(self.solid)
        self.sliding = [door for door in doors if is_sliding(plan, door)]
        self.panes = [pane for door in self.sliding for pane in _panes_of_door(door)]
        self.swings = hang_doors(plan)
        self.arrows = [self._front_door_arrow(door) for door in doors if door.is_front]

    def free_floor(self, room: int) -> shapely.Geometry:
        """Free floor of a room, without walls, railings and the swings of doors."""
        taken = [self.solid, self.railings, *(swing.sector for swing in self.swings)]
        return self.floors[room].difference(shapely.union_all(taken).buffer(INNER_WALL / 2))

    def _front_door_arrow(self, door: Door) -> list[Point]:
        """Triangle that points into a front door."""
        # the side of the door that its room is on
        (inside,) = _points_at_door(door, door.middle, [(0, 0.3)])
        side = -1 if self.plan.boxes[door.rooms[0]].covers(shapely.Point(inside)) else 1
        tip, base = (side * (OUTER_WALL / 2 + distance) for distance in _ARROW[:2])
        return _points_at_door(door, door.middle, [(0, tip), (_ARROW[2], base), (-_ARROW[2], base)])


def _points_at_door(door: Door, origin: Point, places: list[Point]) -> list[Point]:
    """Points at metres along a door and across it, from ``origin``."""
    (x0, y0), (x1, y1), length = door.start, door.end, math.dist(door.start, door.end)
    (x, y), ux, uy = origin, (x1 - x0) / length, (y1 - y0) / length
    return [(x + a * ux - b * uy, y + a * uy + b * ux) for a, b in places]


def _panes_of_door(door: Door) -> list[list[Point]]:
    """Two panes of a sliding door, which overlap."""
    length = math.dist(door.start, door.end)
    panes = (0.0, length / 2 + _PANE, _PANE), (length / 2 - _PANE, length, -_PANE)
    return [
        _points_at_door(door, door.start, [(low, 0), (high, 0), (high, across), (low, across)])
        for low, high, across in panes
    ]


def extent_of_plan(plan: FloorPlan) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the rooms and the outline."""
    left, top, right, bottom = shapely.union_all([plan.outline, *plan.boxes]).bounds
    return left, top, right, bottom


def window_space(window: Window) -> shapely.Polygon:
    """Wall of a window."""
    return wall_space(window.start, window.end)


def hatching(area: shapely.Geometry, distance: float) -> shapely.Geometry:
    """Lines through an area that rise to the right, ``distance`` apart."""
    left, top, right, bottom = area.bounds if not area.is_empty else (0.0,) * 4
    # diagonals of x + y = k * step
    step = math.sqrt(2) * distance
    first, last = math.floor((left + top) / step), math.ceil((right + bottom) / step)
    lines = [
        shapely.LineString([(k * step - bottom, bottom), (k * step - top, top)])
        for k in range(first, last + 1)
    ]
    return shapely.union_all([line.intersection(area) for line in lines])


@dataclass(frozen=True)
class DimensionLine:
    """Line of dimensions outside a plan, the ``number``-th from 0 on, along ``axis`` (0: x).
    ``stops``: coordinates in metres, between which distances are written. ``far``: the line is
    below or to the right, not above or to the left."""

    axis: int
    far: bool
    number: int
    stops: tuple[float, ...]


def dimension_lines(shapes: PlanShapes, *, chained: bool) -> Iterator[DimensionLine]:
    """Lines of dimensions of a plan: width and height between the middles of walls, above and to
    the left, or opposite if the front door is there. ``chained``: dimensions of the rooms come
    first."""
    left, top, right, bottom = extent_of_plan(shapes.plan)
    tips = [corner for arrow in shapes.arrows for corner in arrow]
    for axis, first in ((0, top), (1, left)):
        far = any(corner[1 - axis] < first for corner in tips)
        chain = wall_chain(shapes.plan, axis, far=far) if chained else []
        ends = [(left, right), (top, bottom)][axis]
        lines = [chain] if len(chain) > 2 else []
        for number, stops in enumerate([*lines, ends]):
            yield DimensionLine(axis, far, number, tuple(stops))


def wall_chain(plan: FloorPlan, axis: int, *, far: bool) -> list[float]:
    """Coordinates on ``axis`` (0: x) at which the rooms along a side of a plan begin and end, from
    the first to the last wall. The side is the top or left; with ``far`` the bottom or right."""
    boxes = [box.bounds for box in plan.boxes]
    other, sign = 1 - axis, -1 if far else 1
    edges = sorted({round(box[axis + 2 * k], 6) for box in boxes for k in (0, 1)})
    # the outermost room between each two edges
    seen: list[tuple[float, int | None]] = []
    for low, high in pairwise(edges):
        over = [
            (sign * box[other + 2 * far], box[axis + 2] - box[axis], room)
            for room, box in enumerate(boxes)
            if box[axis] < (low + high) / 2 < box[axis + 2]
        ]
        seen.append((low, min(over)[-1] if over else None))
    # ends where the room changes, if they are far enough apart
    found = [edges[0]]
    for (_, before), (at, room) in pairwise(seen):
        if room != before and at - found[-1] >= _LEAST_STEP and edges[-1] - at >= _LEAST_STEP:
            found.append(at)
    return [*found, edges[-1]]
