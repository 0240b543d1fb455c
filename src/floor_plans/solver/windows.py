"""Windows proposed for a floor plan; the solver places none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from floor_plans.plans.floor_plan import FloorPlan, Point
from floor_plans.plans.walls import THICKEST, Wall, outer_walls
from floor_plans.rules.finding import rooms_of
from floor_plans.rules.rule_set import read_rules

SILL, HEIGHT = 0.9, 1.3
"""Heights of every window, metres: from the floor to its sill, and from there to its head."""

_SERVICE = ("Kitchen", "Bathroom")
"""Kinds of rooms with windows that no rule requires."""

_NARROWEST, _WIDEST, _STEP = 0.6, 2.4, 0.1
_FROM_CORNER = 0.3
"""Metres between a window and the end of its wall, half an outer wall included."""
_FROM_DOOR = 0.2
_ON_WALL = 0.01
"""Largest distance of a window from the border of its room's floor, metres."""


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
    """Place windows in the habitable rooms, kitchens and bathrooms of a plan. Returns them by room.

    The windows of a room have the share of its floor that the rule ``window`` of ``default``
    requires (8 %), at a height of ``HEIGHT``. They are in its longest outer wall, towards a balcony
    too, then in the next ones, clear of corners and doors. If the walls are too short there is
    less. The same plan always gets the same windows.
    """
    rooms = rooms_of(plan, (*_window_rule()[0], *_SERVICE))
    return tuple(window for room in rooms for window in _windows_of(plan, room))


def window_share(plan: FloorPlan) -> float | None:
    """Square metres of window per square metre of floor of the habitable rooms; None without such
    rooms."""
    rooms = rooms_of(plan, _window_rule()[0])
    floor = sum(plan.areas[room] for room in rooms)
    width = sum(window.width for room in rooms for window in _windows_of(plan, room))
    return width * HEIGHT / floor if floor else None


@cache
def _window_rule() -> tuple[tuple[str, ...], float]:
    """Kinds of habitable rooms, and the share of their floors."""
    rule = read_rules("default").rules["window"]
    return rule["rooms"], rule["share"]


def _windows_of(plan: FloorPlan, room: int) -> Iterator[Window]:
    """Windows of a room, wall by wall, until the share is reached."""
    from shapely import LineString, box, union_all

    width = _window_rule()[1] * plan.areas[room] / HEIGHT  # of all of them together
    # outer walls clear of doors, the longest first
    doors = union_all([box(*door.box(THICKEST)).buffer(_FROM_DOOR) for door in plan.doors])
    border = plan.rooms[room].boundary.buffer(_ON_WALL)
    walls = [
        piece
        for wall in outer_walls(plan, room, to_balconies=True)
        for piece in wall.clear_pieces(
            wall.strip_in_front(-_FROM_DOOR, _FROM_DOOR).intersection(doors)
        )
    ]
    for wall in sorted(walls, key=lambda wall: (-round(wall.length, 6), wall.axis, wall.at)):
        for start, end in _spans(wall, width):
            line = LineString([start, end])
            if border.covers(line):  # not along a slanted wall
                width -= line.length
                yield Window(room, start, end)


def _spans(wall: Wall, width: float) -> Iterator[tuple[Point, Point]]:
    """Ends of evenly spaced windows along a wall, of that total ``width`` if it is long enough."""
    free = wall.length - 2 * _FROM_CORNER
    if width < _STEP / 2 or free < _NARROWEST:
        return
    # number and width of the windows
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
