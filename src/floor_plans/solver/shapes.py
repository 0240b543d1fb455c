"""``PlanShapes``: walls, railings, doors and dimension lines of a plotted floor plan, in metres."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from floor_plans.plans.floor_plan import Door, FloorPlan
from floor_plans.plans.floor_plan import Point as Corner
from floor_plans.plans.swings import door_space, hang_doors, is_sliding, wall_space
from floor_plans.plans.walls import fill_gaps
from floor_plans.solver.windows import Window, find_windows

if TYPE_CHECKING:
    from shapely import Geometry, MultiPolygon, Polygon

OUTER_WALL, INNER_WALL, RAILING = 0.3, 0.1, 0.07
"""Thickness in metres."""

_PANE = 0.05
"""Thickness of a pane, and half of the overlap of two."""
_ARROW = (0.1, 0.5, 0.24)
"""Distances from the wall to the tip and to the base of a front door's arrow, and half its
width."""


class PlanShapes:
    """Parts of a plan as shapes, each cut to its visible part.

    ``house``: everything inside the outer walls; ``floors``: of each room, up to the middle of its
    walls; ``walls``: with their openings, ``solid``: without; ``shell``: outline up to the middle
    of the outer walls; ``railings``: of balconies, where they are open.

    ``sliding``: doors to a balcony; ``panes``: of these; ``swings``: of all other doors, in their
    order; ``arrows``: triangles that point into the front doors. ``windows``: a proposal, see
    ``find_windows``; ``glazed``: the wall of each window.

    ``boundary``: as a line, if there is one; ``dead``: area inside it, or enclosed by rooms, that
    belongs to none. Doors without width are not plotted.
    """

    def __init__(self, plan: FloorPlan) -> None:
        from shapely import LineString, Polygon, get_parts, union_all

        # floors, indoors and on balconies
        types = plan.diagram.room_names
        indoors = [
            floor for floor, name in zip(plan.rooms, types, strict=True) if name != "Balcony"
        ]
        balconies = [floor for floor in plan.rooms if all(floor is not room for room in indoors)]
        self.plan, self.floors = plan, plan.rooms
        self.house = fill_gaps(union_all(indoors))
        shell = union_all([Polygon(part.exterior) for part in get_parts(self.house)])
        self.shell = shell
        # walls, without and with their openings
        self.solid = union_all(
            [
                _ring(shell, OUTER_WALL),
                *(_ring(floor, INNER_WALL) for floor in indoors),
                self.house.difference(union_all(indoors)),
            ]
        )
        doors = [door for door in plan.doors if door.start != door.end]
        openings = union_all([door_space(door) for door in doors])
        self.windows = find_windows(plan)
        self.glazed = [self.solid.intersection(window_space(each)) for each in self.windows]
        self.walls = self.solid.difference(union_all([openings, *self.glazed]))
        # the boundary line, and railings outside the walls
        self.boundary = LineString() if plan.boundary is None else plan.outline.exterior
        self.boundary = self.boundary.difference(openings)
        self.railings = union_all([_ring(floor, RAILING) for floor in balconies]).difference(
            shell.buffer(OUTER_WALL / 2, join_style="mitre")
        )
        # dead area
        everything = fill_gaps(union_all(plan.rooms))
        outline = plan.outline
        if plan.boundary is None:
            outline = union_all([Polygon(part.exterior) for part in get_parts(everything)])
        self.dead = outline.difference(everything).difference(self.solid)
        # doors
        self.sliding = [door for door in doors if is_sliding(plan, door)]
        self.panes = [pane for door in self.sliding for pane in _panes(door)]
        self.swings = hang_doors(plan)
        self.arrows = [self._arrow(door) for door in doors if door.is_front]

    def free_floor(self, room: int) -> Geometry:
        """Free floor of a room, without walls, railings and the swings of doors."""
        from shapely import union_all

        taken = [self.solid, self.railings, *(swing.sector for swing in self.swings)]
        return self.floors[room].difference(union_all(taken).buffer(INNER_WALL / 2))

    def _arrow(self, door: Door) -> list[Corner]:
        """Triangle that points into a front door."""
        from shapely import Point

        (x0, y0), (x1, y1) = door.start, door.end
        length = math.hypot(x1 - x0, y1 - y0)
        ux, uy = (x1 - x0) / length, (y1 - y0) / length
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        # the side of the door that its room is on
        inside = Point(x - 0.3 * uy, y + 0.3 * ux)
        side = -1 if self.plan.boxes[door.rooms[0]].covers(inside) else 1
        tip, base, half = (
            (OUTER_WALL / 2 + _ARROW[0]) * side,
            (OUTER_WALL / 2 + _ARROW[1]) * side,
            _ARROW[2],
        )
        return [
            (x - tip * uy, y + tip * ux),
            (x - base * uy + half * ux, y + base * ux + half * uy),
            (x - base * uy - half * ux, y + base * ux - half * uy),
        ]


def _panes(door: Door) -> list[list[Corner]]:
    """Two panes of a sliding door, which overlap."""
    (x0, y0), (x1, y1) = door.start, door.end
    length = math.hypot(x1 - x0, y1 - y0)
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    found = []
    # corners along the door and across it
    for first, last, across in (
        (0, length / 2 + _PANE, _PANE),
        (length / 2 - _PANE, length, -_PANE),
    ):
        corners = [(first, 0.0), (last, 0.0), (last, across), (first, across)]
        found.append([(x0 + a * ux - b * uy, y0 + a * uy + b * ux) for a, b in corners])
    return found


def extent(plan: FloorPlan) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the rooms and the outline."""
    from shapely import union_all

    left, top, right, bottom = union_all([plan.outline, *plan.boxes]).bounds
    return left, top, right, bottom


def window_space(window: Window) -> Polygon:
    """Wall of a window."""
    return wall_space(window.start, window.end)


def hatching(area: Geometry, distance: float) -> Geometry:
    """Lines through an area that rise to the right, ``distance`` apart."""
    from shapely import LineString, union_all

    left, top, right, bottom = area.bounds if not area.is_empty else (0.0,) * 4
    # diagonals of x + y = k * step
    step = math.sqrt(2) * distance
    first, last = math.floor((left + top) / step), math.ceil((right + bottom) / step)
    lines = [
        LineString([(k * step - bottom, bottom), (k * step - top, top)])
        for k in range(first, last + 1)
    ]
    return union_all([line.intersection(area) for line in lines])


def _ring(area: Polygon | MultiPolygon, thickness: float) -> Geometry:
    """Wall of that thickness along the border of an area."""
    grown, shrunken = (area.buffer(sign * thickness / 2, join_style="mitre") for sign in (1, -1))
    return grown.difference(shrunken)


_LEAST_STEP = 0.3
"""Least metres between two walls for a dimension of their own."""


@dataclass(frozen=True)
class DimensionLine:
    """Line of dimensions outside a plan, the ``number``-th from 0 on, along ``axis`` (0: x).
    ``stops``: places in metres; their distances are stated. ``far``: below or to the right, not
    above or to the left."""

    axis: int
    far: bool
    number: int
    stops: tuple[float, ...]


def dimension_lines(shapes: PlanShapes, *, chained: bool) -> Iterator[DimensionLine]:
    """Lines of dimensions of a plan: width and height between the middles of walls.

    They are above and to the left, or on the other side if the front door is there. ``chained``:
    preceded by lines of the rooms on that side.
    """
    left, top, right, bottom = extent(shapes.plan)
    tips = [corner for arrow in shapes.arrows for corner in arrow]
    for axis, first in ((0, top), (1, left)):
        far = any(corner[1 - axis] < first for corner in tips)
        chain = wall_chain(shapes.plan, axis, far=far) if chained else []
        ends = [(left, right), (top, bottom)][axis]
        lines = [chain] if len(chain) > 2 else []
        for number, stops in enumerate([*lines, ends]):
            yield DimensionLine(axis, far, number, tuple(stops))


def wall_chain(plan: FloorPlan, axis: int, *, far: bool) -> list[float]:
    """Places where the rooms along a side of a plan begin and end on ``axis`` (0: x), from its
    first to its last wall. The side is the top or left one; ``far``: the bottom or right one."""
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
