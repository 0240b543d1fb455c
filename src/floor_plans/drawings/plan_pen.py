"""``PlanPen``: plots a floor plan to scale on a card, with dimensions and labels of rooms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from shapely import Geometry, Polygon, contains_xy, get_parts, get_rings, prepare
from shapely.geometry.polygon import orient

from discrete_diffusion.viz import MUTED_TEXT, TEXT
from floor_plans.diagrams.pictures import diagram_pictures
from floor_plans.diagrams.pictures.bubbles import BROKEN_LINE, HINT_LINE, room_style, tint
from floor_plans.diagrams.pictures.diagram_pictures import LABEL, POINTS_PER_INCH, text_width
from floor_plans.drawings.drawn_parts import RoomName, names_of_rooms, translated_word
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.floor_plan import Point as Corner
from floor_plans.plans.site import site_of_plan
from floor_plans.plans.walls import clear_areas
from floor_plans.solver.shapes import PlanShapes, dimension_lines, extent_of_plan, hatching

LEAST_POINTS, LARGEST = 5.5, 11.0  # smallest and largest size of the letters of a name, points
_LETTER, _SMALLEST_LARGE = 0.34, 7.5
"""Preferred size of letters in metres, and the least number of points for it."""
_NUMBER_SIZES = (4.5, 3.5, 2.5)  # sizes of the numbers of rooms that have no space for a larger one
LINE_HEIGHT = 1.25  # height of a line of text, in units of its size
AREA_SIZE = 0.85  # size of the letters of the area, in units of the letters of the name

_SQUARE_METRES = "m²"
_CELL = 0.05  # width of the grid on which places of labels are searched, metres
_MARGINS = (1.6, 0.8, 0.3)
"""Free floor around a label, in units of its letters; the first one that fits is used."""


@dataclass(frozen=True)
class Label:
    """Label of a room. ``points``: size of the letters, of several lines the last is smaller.
    ``x``, ``y``: centre in metres. ``angle``: 0, or 90 to read upwards."""

    lines: tuple[str, ...]
    points: float
    x: float
    y: float
    angle: int = 0

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


def _label_forms(
    name: RoomName, area: float, largest: float, number: str
) -> Iterator[tuple[tuple[str, ...], float, int]]:
    """Yield forms of a label, best first; the best has the full name and the area, level, large."""
    measured = f"{area:.1f} {_SQUARE_METRES}"
    # ways to write the name, with the area
    names = dict.fromkeys([(name.whole,), tuple(name.whole.split()), (name.short,)])
    whole = [(*words, measured) for words in names] + [(f"{name.short} {measured}",)]
    sizes = np.arange(largest, LEAST_POINTS - 0.01, -0.5).tolist()
    # with area, then without it, then the number alone
    bare = [(name.short,)]
    for ways, angle in ((whole, 0), (whole[-2:], 90), (bare, 0), (bare, 90), ([(number,)], 0)):
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
        """Centre of a rectangle in the floor, with the first margin that fits, near the middle."""
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


WALL = TEXT
FRONT_DOOR = BROKEN_LINE
SMALL = 6.5  # size of figures and captions, points
_FRAMED: dict[str, Any] = {"facecolor": "white", "edgecolor": WALL, "linewidth": 0.5}
_LIGHT = 0.6  # share of a bubble's colour in the colour of a floor
_CORNER, _ARROW = 0.3, 0.12
"""Inches from the corner of a card to the middle of the north arrow, and half its length."""
_LAND = 0.11  # size of the site in the corner of a card, as a share of the card
_HATCH = 0.07  # inches between two lines of the hatching of dead area
_TICK = 0.035  # half the length of a tick, inches
_FROM_PLAN, _FROM_LINE = 0.22, 0.26
"""Inches from a plan to its first line of dimensions, and between lines."""


@dataclass(frozen=True)
class PlanPen:
    """Plots a plan in the middle of a card ``side`` inches wide, at ``per_metre`` inches a metre.
    ``name``: prefix of shapes in an SVG. ``height``: height of a card that is not square."""

    axes: Axes
    left: float
    top: float
    side: float
    plan: FloorPlan
    per_metre: float
    name: str = "plan"
    language: str = "en"
    height: float | None = None

    @property
    def bottom(self) -> float:
        return self.top + (self.height or self.side)

    @cached_property
    def shapes(self) -> PlanShapes:
        return PlanShapes(self.plan)

    def draw(self) -> None:
        """Plot the plan."""
        shapes, rooms = self.shapes, self.plan.diagram.rooms
        # ground, dead area and boundary
        self._fill(shapes.house, "paper", facecolor="white", zorder=2)
        self._fill(shapes.dead, "dead", facecolor="white", zorder=2)
        lines = get_parts(hatching(shapes.dead, _HATCH / self.per_metre))
        self._lines([line.coords for line in lines], 0.5, colors=HINT_LINE, zorder=2)
        look = {"colors": MUTED_TEXT, "linestyles": [(0, (8, 2, 1.5, 2))], "zorder": 3.5}
        border = [line.coords for line in get_parts(shapes.boundary)]
        self._lines(border, 0.7, gid=f"{self.name}-boundary", **look)
        # floors, then walls, openings and labels
        for room, (floor, code) in enumerate(zip(shapes.floors, rooms, strict=True)):
            colour = tint(room_style(code).colour, _LIGHT)
            self._fill(floor, f"room-{room}", facecolor=colour, zorder=2.5)
        self._fill(shapes.railings, "railing", **_FRAMED, zorder=3)
        self._fill(shapes.walls, "wall", facecolor=WALL, zorder=4)
        # a window: a break in the wall, a line along either face, and the glass in the middle
        for k, (opening, window) in enumerate(zip(shapes.glazed, shapes.windows, strict=True)):
            self._fill(opening, f"window-{k}", **_FRAMED, zorder=4.5)
            self._lines([(window.start, window.end)], 0.5)
        # leaves, arcs and panes of doors, and the arrows of front doors
        for swing in shapes.swings:
            self._lines([swing.leaf], 1.1, capstyle="projecting")
            self._lines([swing.arc], 0.4, colors=MUTED_TEXT)
        for k, pane in enumerate(shapes.panes):
            self._fill(Polygon(pane), f"pane-{k}", **_FRAMED, zorder=5)
        for arrow in shapes.arrows:
            self._fill(Polygon(arrow), "front-door", facecolor=FRONT_DOOR, zorder=6)
        self._plot_labels()
        if self.plan.north is not None:
            self._plot_north(math.radians(self.plan.north))
        if (site := site_of_plan(self.plan)) is not None:
            self._plot_site(*site)

    def page(self, points: Sequence[Corner]) -> np.ndarray:
        """Points of the plan in inches on the page."""
        left, top, right, bottom = extent_of_plan(self.plan)
        middle = np.array([(left + right) / 2, (top + bottom) / 2])
        centre = np.array([self.left + self.side / 2, (self.top + self.bottom) / 2])
        return centre + (np.asarray(points, dtype=float) - middle) * self.per_metre

    def _fill(self, area: Geometry, name: str, **style: Any) -> None:
        """Fill an area. ``name``: name of the shape in an SVG, without the prefix of the plan."""
        parts = [part for part in get_parts(area) if part.geom_type == "Polygon" and part.area > 0]
        rings = get_rings([orient(part) for part in parts])
        if len(rings):
            paths = [Path(self.page(ring.coords), closed=True) for ring in rings]
            path = Path.make_compound_path(*paths)
            style = {"linewidth": 0, "edgecolor": "none"} | style
            self.axes.add_artist(PathPatch(path, gid=f"{self.name}-{name}", **style))

    def _lines(self, lines: Sequence[Sequence[Corner]], width: float, **style: Any) -> None:
        """Plot lines of the plan."""
        look: dict[str, Any] = {"colors": WALL, "zorder": 5, "capstyle": "butt"}
        pages = [self.page(line) for line in lines if len(line)]
        if pages:
            drawn = LineCollection(pages, linewidths=width, **(look | style))
            self.axes.add_collection(drawn, autolim=False)

    def _plot_labels(self) -> None:
        """Plot the labels of rooms. The caption states areas that have no space on the floor."""
        names, areas = names_of_rooms(self.plan, self.language), clear_areas(self.plan)
        captions, number = [], 1
        for room, own in enumerate(names):
            label = self._label_of(room, own, areas[room], number)
            if not label.lines[-1].endswith(_SQUARE_METRES):
                is_number = label.lines[0] == str(number)
                number += is_number
                name = f"{label.lines[0]} {own.whole}" if is_number else label.lines[0]
                captions.append(f"{name} {areas[room]:.1f} m²")
            self._plot_label(label)
        # the caption below the plan, as large as fits the card
        rooms, gross = (translated_word(w, self.language) for w in ("Rooms", "to mid-wall"))
        total = f"{rooms} {sum(areas):.1f} m², {gross} {sum(self.plan.areas):.1f} m²"
        text = "   ".join([total, *captions])
        points = min(SMALL, SMALL * 0.94 * self.side * POINTS_PER_INCH / (text_width(text) * SMALL))
        x, y = self.left + 0.03 * self.side, self.bottom - 0.07
        self.axes.text(x, y, text, fontsize=points, **diagram_pictures.CAPTION)

    def _label_of(self, room: int, name: RoomName, area: float, number: int) -> Label:
        """Label that fits the free floor of a room: name and area, else name, else ``number``."""
        plan, per_metre = self.plan, self.per_metre * POINTS_PER_INCH
        largest = min(max(_LETTER * per_metre, _SMALLEST_LARGE), LARGEST)
        parts = get_parts(self.shapes.free_floor(room))
        floor = max(parts, key=lambda part: part.area, default=None)
        if floor is not None and floor.area > 0:
            grid = _Grid(floor)
            for lines, points, angle in _label_forms(name, area, largest, str(number)):
                width, height = (length / per_metre for length in block_size(lines, points))
                sides = (height, width) if angle else (width, height)
                spot = grid.place(*sides, [margin * points / per_metre for margin in _MARGINS])
                if spot is not None:
                    return Label(lines, points, *spot, angle)
        # nothing fits: a small number on the floor
        whole = plan.rooms[room] if plan.areas[room] > 0 else plan.boxes[room]
        point = whole.representative_point()
        return Label((str(number),), _NUMBER_SIZES[-1], point.x, point.y)

    def _plot_label(self, label: Label) -> None:
        """Plot a label line by line, so that each line is where it was measured."""
        x, y = self.page([(label.x, label.y)])[0]
        sizes = label.sizes
        at = -LINE_HEIGHT * sum(sizes) / 2
        for number, (line, size) in enumerate(zip(label.lines, sizes, strict=True)):
            # each line below the one before, also if it reads upwards
            middle = (at + LINE_HEIGHT * size / 2) / POINTS_PER_INCH
            at += LINE_HEIGHT * size
            dx, dy = (middle, 0.0) if label.angle else (0.0, middle)
            style = LABEL | ({"color": MUTED_TEXT} if number and number == len(sizes) - 1 else {})
            style |= {"fontsize": size, "rotation": label.angle, "rotation_mode": "anchor"}
            self.axes.text(x + dx, y + dy, line, zorder=7, **style)

    def _plot_site(self, land: Polygon, buildable: Geometry) -> None:
        """Plot the site in the upper left corner of the card: its border, the setbacks as dashed
        lines, and the outline of the plan."""
        x0, y0, x1, y1 = land.bounds
        scale, dashes = _LAND * self.side / max(x1 - x0, y1 - y0), (0, (4, 3))
        corner = np.array([self.left, self.top]) + _CORNER / 3
        look = {"edgecolor": MUTED_TEXT, "facecolor": "none", "linewidth": 0.5, "zorder": 6}
        for name, area, own in (
            ("site", land, {}),
            ("setbacks", buildable, {"linestyle": dashes}),
            ("plot", self.plan.outline, {"facecolor": MUTED_TEXT}),
        ):
            for part in get_parts(area):
                path = Path(corner + (part.exterior.coords - np.array([x0, y0])) * scale)
                self.axes.add_artist(PathPatch(path, gid=f"{self.name}-{name}", **(look | own)))

    def _plot_north(self, turned: float) -> None:
        """Plot a north arrow in the upper right corner of the card."""
        centre = np.array([self.left + self.side - _CORNER, self.top + _CORNER])
        along = np.array([math.sin(turned), -math.cos(turned)])  # y is downwards on the page
        across = np.array([-along[1], along[0]]) / 3
        corners = [along, -along + across, -along / 2, -along - across, along]
        arrow = Path(centre + _ARROW * np.array(corners), closed=True)
        self.axes.add_artist(PathPatch(arrow, facecolor=WALL, zorder=7, gid=f"{self.name}-north"))
        x, y = centre + 1.6 * _ARROW * along
        self.axes.text(x, y, "N", fontsize=SMALL, zorder=7, **LABEL)

    def plot_dimensions(self, *, chained: bool) -> None:
        """Plot the lines of dimensions of a plan, see ``dimension_lines``."""
        left, top, right, bottom = extent_of_plan(self.plan)
        for line in dimension_lines(self.shapes, chained=chained):
            axis = line.axis
            # place of the line, and of its stops, on the page
            away = (_FROM_PLAN + line.number * _FROM_LINE) * (1 if line.far else -1)
            at = self.page([(right, bottom) if line.far else (left, top)])[0][1 - axis] + away
            origin = self.page([(left, top)])[0][axis] - (left, top)[axis] * self.per_metre
            marks = [origin + stop * self.per_metre for stop in line.stops]
            # the line with a tick at each stop: along x, then exchanged for the other axis
            lines = [[(marks[0], at), (marks[-1], at)]]
            for mark in marks:
                lines.append([(mark - _TICK, at + _TICK), (mark + _TICK, at - _TICK)])
                lines.append([(mark, at - 2 * _TICK), (mark, at + 2 * _TICK)])
            if axis == 1:
                lines = [[(y, x) for x, y in ends] for ends in lines]
            drawn = LineCollection(lines, colors=MUTED_TEXT, linewidths=0.6, zorder=3)
            self.axes.add_collection(drawn, autolim=False)
            # the metres between stops, as large as fits
            style = LABEL | {"color": MUTED_TEXT, "rotation": 90 * axis, "rotation_mode": "anchor"}
            for (first, low), (last, high) in pairwise(zip(marks, line.stops, strict=True)):
                text, middle = f"{high - low:.2f}", (first + last) / 2
                points = min(SMALL, 0.92 * (last - first) * POINTS_PER_INCH / text_width(text))
                x, y = (middle, at - 0.08) if axis == 0 else (at - 0.08, middle)
                self.axes.text(x, y, text, fontsize=points, zorder=3, **style)
