"""Shapes of a plotted floor plan, in metres: walls, railings, doors and their swing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

from discrete_diffusion.domains.bubble_diagrams.plans.floor_plan import (
    FRONT_DOOR,
    Door,
    FloorPlan,
)
from discrete_diffusion.domains.bubble_diagrams.plans.floor_plan import Point as Corner
from discrete_diffusion.domains.bubble_diagrams.plans.walls import THICKEST, closed
from discrete_diffusion.domains.bubble_diagrams.plans.windows import Window, find_windows

if TYPE_CHECKING:
    from shapely import Geometry, MultiPolygon, Point, Polygon

OUTER_WALL, INNER_WALL, RAILING = 0.3, 0.1, 0.07
"""Thickness in metres."""

_ACROSS = THICKEST / 2 + OUTER_WALL
"""How far an opening reaches to both sides of a door."""
_ARC_POINTS = 17
_PANE = 0.05
"""Thickness of a pane, and half of what two overlap."""
_CLOSETS = ("Storage", "Wall-in")
_SWUNG_INTO_LAST = ("MasterRoom", "Kitchen", "DiningRoom", "Entrance", "LivingRoom", *_CLOSETS)
"""A door swings into another room rather than into one of these, and into an earlier one of them
rather than into a later one."""
_ARROW = (0.1, 0.5, 0.24)
"""From the wall to the tip and to the base of a front door's arrow, and half its width."""


@dataclass(frozen=True)
class Swing:
    """A ``door`` that turns on a hinge: the ``leaf`` from the hinge to where it stands open, and
    the ``arc`` from there to where it is shut."""

    door: Door
    leaf: tuple[Corner, Corner]
    arc: tuple[Corner, ...]

    @cached_property
    def sector(self) -> Polygon:
        """The floor it sweeps."""
        from shapely import Polygon

        return Polygon([self.leaf[0], *self.arc])


class PlanShapes:
    """The parts of a plan, each cut to what is seen of it.

    ``house``: everything inside the outer walls; ``floors``: of each room, up to the middle of its
    walls; ``walls``: with their openings, ``solid``: without; ``shell``: up to the middle of the
    outer ones, whatever is inside; ``railings``: of balconies, where they are open.
    ``sliding``: doors to a balcony; ``panes``: of these; ``swings``: of all other doors, in their
    order; ``arrows``: triangles that point into the front doors. ``windows``: a proposal, see
    ``find_windows``; ``glazed``: the wall that each stands in.
    ``boundary``: as a line, if there is one; ``dead``: what is inside it, or enclosed by rooms, and
    belongs to none. Doors without width are not plotted.
    """

    def __init__(self, plan: FloorPlan) -> None:
        from shapely import LineString, Polygon, get_parts, union_all

        types = plan.diagram.room_names
        indoors = [
            floor for floor, name in zip(plan.rooms, types, strict=True) if name != "Balcony"
        ]
        balconies = [floor for floor in plan.rooms if all(floor is not room for room in indoors)]
        self.plan, self.floors = plan, plan.rooms
        self.house = closed(union_all(indoors))
        shell = union_all([Polygon(part.exterior) for part in get_parts(self.house)])
        self.shell = shell
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
        self.boundary = LineString() if plan.boundary is None else plan.outline.exterior
        self.boundary = self.boundary.difference(openings)
        self.railings = union_all([_ring(floor, RAILING) for floor in balconies]).difference(
            shell.buffer(OUTER_WALL / 2, join_style="mitre")
        )
        everything = closed(union_all(plan.rooms))
        outline = plan.outline
        if plan.boundary is None:
            outline = union_all([Polygon(part.exterior) for part in get_parts(everything)])
        self.dead = outline.difference(everything).difference(self.solid)
        self.sliding = [door for door in doors if self._slides(door)]
        self.panes = [pane for door in self.sliding for pane in _panes(door)]
        self.swings = self._swings([door for door in doors if not self._slides(door)])
        self.arrows = [self._arrow(door) for door in doors if door.is_front]

    def free_floor(self, room: int) -> Geometry:
        """Free floor of a room, without walls, railings and the swing of doors."""
        from shapely import union_all

        taken = [self.solid, self.railings, *(swing.sector for swing in self.swings)]
        return self.floors[room].difference(union_all(taken).buffer(INNER_WALL / 2))

    def _slides(self, door: Door) -> bool:
        return any(
            room != FRONT_DOOR and self.plan.diagram.room_names[room] == "Balcony"
            for room in door.rooms
        )

    def _swings(self, doors: Iterable[Door]) -> list[Swing]:
        """Ways to swing, one of each door: the one that sweeps the least of walls and other swings,
        then into the room that is more private, then against the nearest corner."""
        from shapely import Point

        found: list[Swing] = []
        for door in doors:
            ways: list[tuple[float, int, float, int, Swing]] = []
            for room, swap, side in product(door.rooms, (False, True), (1, -1)):
                if room == FRONT_DOOR:
                    continue
                swing = _swing(door, swap, side)
                hinge, sector = Point(swing.leaf[0]), swing.sector
                allowed = self.floors[room].union(door_space(door))
                swept = sector.difference(allowed).area
                swept += sum(sector.intersection(other.sector).area for other in found)
                corner = min(hinge.distance(each) for each in _corners(self.floors[room]))
                rank = _rank(self.plan.diagram.room_names[room])
                ways.append((round(swept, 1), rank, round(corner, 3), len(ways), swing))
            found.append(min(ways)[-1])
        return found

    def _arrow(self, door: Door) -> list[Corner]:
        from shapely import Point

        (x0, y0), (x1, y1) = door.start, door.end
        length = math.hypot(x1 - x0, y1 - y0)
        ux, uy = (x1 - x0) / length, (y1 - y0) / length
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
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
    """Two, that slide past each other."""
    (x0, y0), (x1, y1) = door.start, door.end
    length = math.hypot(x1 - x0, y1 - y0)
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    found = []
    for first, last, across in (
        (0, length / 2 + _PANE, _PANE),
        (length / 2 - _PANE, length, -_PANE),
    ):
        corners = [(first, 0.0), (last, 0.0), (last, across), (first, across)]
        found.append([(x0 + a * ux - b * uy, y0 + a * uy + b * ux) for a, b in corners])
    return found


def _rank(name: str) -> int:
    return _SWUNG_INTO_LAST.index(name) + 1 if name in _SWUNG_INTO_LAST else 0


def extent(plan: FloorPlan) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the rooms and the outline."""
    from shapely import union_all

    left, top, right, bottom = union_all([plan.outline, *plan.boxes]).bounds
    return left, top, right, bottom


def door_space(door: Door) -> Polygon:
    """The wall that a door stands in."""
    from shapely import LineString

    across = max(_ACROSS, door.thickness)
    return LineString([door.start, door.end]).buffer(across, cap_style="flat")


def window_space(window: Window) -> Polygon:
    """The wall that a window stands in."""
    from shapely import LineString

    return LineString([window.start, window.end]).buffer(_ACROSS, cap_style="flat")


def _swing(door: Door, swap: bool, side: int) -> Swing:
    (x0, y0), (x1, y1) = (door.end, door.start) if swap else (door.start, door.end)
    dx, dy = x1 - x0, y1 - y0
    ux, uy = -dy * side, dx * side  # where the leaf points when it stands open
    arc = []
    for k in range(_ARC_POINTS):
        angle = math.pi / 2 * k / (_ARC_POINTS - 1)
        cos, sin = math.cos(angle), math.sin(angle)
        arc.append((x0 + cos * ux + sin * dx, y0 + cos * uy + sin * dy))
    return Swing(door, ((x0, y0), arc[0]), tuple(arc))


def hatching(area: Geometry, distance: float) -> Geometry:
    """Lines through an area that run upwards to the right, that far apart."""
    from shapely import LineString, union_all

    left, top, right, bottom = area.bounds if not area.is_empty else (0.0,) * 4
    step = math.sqrt(2) * distance
    first, last = math.floor((left + top) / step), math.ceil((right + bottom) / step)
    lines = [
        LineString([(k * step - bottom, bottom), (k * step - top, top)])
        for k in range(first, last + 1)
    ]
    return union_all([line.intersection(area) for line in lines])


def _ring(area: Polygon | MultiPolygon, thickness: float) -> Geometry:
    """A wall of that thickness along the border of an area."""
    grown, shrunken = (area.buffer(sign * thickness / 2, join_style="mitre") for sign in (1, -1))
    return grown.difference(shrunken)


def _corners(area: Geometry) -> Sequence[Point]:
    from shapely import Point, get_parts

    return [Point(corner) for part in get_parts(area) for corner in part.exterior.coords]
