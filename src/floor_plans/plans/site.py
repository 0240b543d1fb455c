"""``Site``: a piece of land with setbacks and a street, in which the plot of a plan is found."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.plans.floor_plan import FloorPlan, Point, computed_once, validate_boundary
from floor_plans.plans.libraries import affinity, shapely
from floor_plans.plans.walls import OUTER_WALL

SIDES = ("front", "left", "back", "right")  # of a site, clockwise as seen from the street
_FILLED = 0.975  # share of a plot that rooms fill, between the rule ``fill`` of ``default`` and 1
_NICE = 1.3  # preferred width of a plot along the street over its depth
_STURDY = 2.0  # ratio of sides up to which a rectangle is better than an L
_RATIOS = sorted((2 ** (k / 6) for k in range(-10, 11)), key=lambda r: abs(math.log(r / _NICE)))
_WINGS, _LEAST_WING = (4.0, 5.5, 7.0), 3.0
"""Widths of the two wings of an L, and the length by which they stand out at least, metres."""
_HALVINGS = 9  # steps of the search for the largest plot
_MITRE = 4.0  # depths by which a strip is lengthened at most, at a corner that points inwards
_GRID = 1e-6  # grid of overlays, metres: without one GEOS may lose a part
_SPECK = 1e-7  # square metres that are an error of rounding
_ROUNDING = 2e-3  # metres that a plot may be larger than its place, which is so much smaller


class Plot(NamedTuple):
    """Place of a plan: its ``outline``, up to the middle of the outer walls, and the middle of its
    side at the street, for the ``front_door``."""

    outline: tuple[Point, ...]
    front_door: Point


@dataclass(frozen=True)
class Site:
    """Piece of land. ``polygon``: corners in metres, y downwards; ``setbacks``: metres from each
    side (from a corner to the next) that stay free, at an inward corner up to where two such strips
    meet; ``street``: number of the side at the street, from 0 on, parallel to an axis;
    ``coverage``: largest share of the site that the building covers; ``most_area``: most square
    metres of rooms in a plan without a stated area; ``turned``: clockwise degrees by which
    ``polygon`` is turned, see ``straightened``."""

    polygon: tuple[Point, ...]
    setbacks: tuple[float, ...]
    street: int
    coverage: float = 1.0
    most_area: float = 200.0
    turned: float = 0.0

    @computed_once
    def area(self) -> float:
        return float(shapely.Polygon(self.polygon).area)

    @computed_once
    def buildable(self) -> shapely.Geometry:
        """The site without the strip along each side that is as wide as its setback."""
        strips = shapely.union_all([*_strips(self.polygon, self.setbacks)], grid_size=_GRID)
        return shapely.difference(shapely.Polygon(self.polygon), strips, grid_size=_GRID)

    def north(self, degrees: float) -> float:
        """Turn north with the site."""
        return round((degrees + self.turned) % 360, 6) if self.turned else degrees

    def to_json(self) -> dict[str, Any]:
        """Return the corners of the site, and of the parts that can be built on."""
        rings = [part.exterior.coords[:-1] for part in shapely.get_parts(self.buildable)]
        rounded = [np.round(ring, 3).tolist() for ring in (self.polygon, *rings)]
        return {"polygon": rounded[0], "buildable": rounded[1:]}

    @lru_cache(maxsize=64)  # noqa: B019  (sites are small)
    def plot(self, area: float | None = None) -> Plot:
        """Find a plot within the setbacks, a rectangle or an L, as near to the street as possible.

        ``area``: square metres of all rooms; None: the largest plot. Raises ``ValueError`` if the
        site is too small or, without an area, so large that ``most_area`` do not fill it.
        """
        found = self._plot_of((area or self.most_area) / _FILLED)
        if area is None and found is not None:
            raise ValueError(
                f"the site of {self.area:g} m2 holds more than the {self.most_area:g} m2 that "
                "these rooms have at most; say how large the plan is: area: (or the option "
                "total_area=) for all rooms, or num_rooms: and areas: for some"
            )
        if area is None:
            size = step = self.most_area / _FILLED / 2
            for _ in range(_HALVINGS):
                larger, step = self._plot_of(size), step / 2
                found, size = (found, size - step) if larger is None else (larger, size + step)
        if found is None:
            asked = "" if area is None else f" of {area / _FILLED:.1f} m2 for {area:g} m2 of rooms"
            raise ValueError(
                f"no plot{asked} is found: of the {self.area:.1f} m2 of the site "
                f"{self.buildable.area:.1f} m2 are within the setbacks, and coverage "
                f"{self.coverage:g} allows {self.coverage * self.area:.1f} m2 with outer walls; "
                "give less area, smaller setbacks or a larger coverage"
            )
        turned = affinity.rotate(found, -self._turn, (0, 0))
        corners = [(round(x, 3), round(y, 3)) for x, y in turned.exterior.coords[:-1]]
        side = side_towards(corners, _outwards(self.polygon)[self.street])
        x, y = np.mean((*corners, corners[0])[side : side + 2], axis=0).tolist()
        return Plot(tuple(corners), (x, y))

    @computed_once
    def _turn(self) -> float:
        """Degrees by which the street is turned to the bottom: 0, 90, 180 or -90."""
        return float(round(math.degrees(cmath.phase(1j / _outwards(self.polygon)[self.street]))))

    @computed_once
    def _place(self) -> shapely.Geometry:
        """Region of the building, walls included, with the street at the bottom."""
        inside = self.buildable.buffer(-_ROUNDING, join_style="mitre")
        return affinity.rotate(inside, self._turn, (0, 0))

    def _plot_of(self, area: float) -> shapely.Polygon | None:
        """Polygon of a plot with the street at the bottom; None if none is found."""
        place, most = self._place, self.coverage * self.area
        square = (math.sqrt(area) + OUTER_WALL) ** 2  # what the building covers at least
        if square > min(place.area, most):
            return None
        places = cache(lambda width, height: _corner_places(place, width, height))
        around, wall = place.buffer(_ROUNDING), OUTER_WALL / 2
        for boxes in _shapes(area, place.bounds):
            # places of the first corner at which all boxes with their walls are within
            moved = [affinity.translate(places(w, h), wall - x, wall - y) for x, y, w, h in boxes]
            if (at := _lowest(shapely.intersection_all(moved))) is not None:
                shape = shapely.union_all([shapely.box(x, y, x + w, y + h) for x, y, w, h in boxes])
                shape = affinity.translate(shape.simplify(_GRID), *at)
                building = shape.buffer(wall, join_style="mitre")
                if building.area <= most and around.covers(building):
                    return shape
        return None


def _outwards(polygon: Sequence[Point]) -> list[complex]:
    """Unit vectors x + iy that lead out of a polygon, for the side from each corner to the next."""
    corners = [complex(*corner) for corner in polygon]
    sides = list(pairwise([*corners, corners[0]]))
    sign = math.copysign(1, sum((a.conjugate() * b).imag for a, b in sides))
    return [-1j * sign * (b - a) / abs(b - a) for a, b in sides]


def side_towards(polygon: Sequence[Point], direction: complex) -> int:
    """Number of the outermost side of a polygon that faces a direction, or the nearest to it."""

    def rank(side: int) -> tuple[float, float, float]:
        a, b = complex(*polygon[side]), complex(*polygon[(side + 1) % len(polygon)])
        facing = (outwards[side].conjugate() * direction).real
        away = ((a + b).conjugate() * direction).real
        return min(facing, math.sqrt(0.5)), round(away, 6), abs(b - a)

    outwards = _outwards(polygon)
    return max(range(len(polygon)), key=rank)


def sides_from_street(polygon: Sequence[Point], street: int) -> list[str]:
    """Name in ``SIDES`` of each side of a polygon."""
    outwards = _outwards(polygon)
    turns = [math.degrees(cmath.phase(each / outwards[street])) for each in outwards]
    return [SIDES[round(turn / 90) % 4] for turn in turns]


def straightened(polygon: Sequence[Point], street: int) -> tuple[tuple[Point, ...], float]:
    """Turn a polygon about an end of its street, until this is at the bottom, unless it is parallel
    to an axis; also return the clockwise degrees."""
    outward = _outwards(polygon)[street]
    if min(abs(outward.real), abs(outward.imag)) < _GRID:
        return tuple(polygon), 0.0
    degrees = math.degrees(cmath.phase(1j / outward))
    turned = affinity.rotate(shapely.Polygon(polygon), degrees, polygon[street])
    return tuple((round(x, 6), round(y, 6)) for x, y in turned.exterior.coords[:-1]), degrees


def _strips(polygon: Sequence[Point], setbacks: Sequence[float]) -> Iterator[shapely.Geometry]:
    """Strips along the sides of a polygon. Past an obtuse corner they end at the next side, past an
    inward corner, of more than 180 degrees, where two strips meet."""
    corners, num = [complex(*corner) for corner in polygon], len(polygon)
    for side, (outward, depth) in enumerate(zip(_outwards(polygon), setbacks, strict=True)):
        ends = side, (side + 1) % num
        points = [corners[end] for end in ends]
        for step, (end, other) in ((-1, ends), (1, ends[::-1])):
            # the next side, measured along this one and inwards
            along = (corners[end] - corners[other]) / abs(corners[end] - corners[other])
            leg = corners[(end + step) % num] - corners[end]
            onwards, inwards = (leg.conjugate() * along).real, -(leg.conjugate() * outward).real
            past = 0.0
            if inwards > _ROUNDING and onwards > 0:
                share = min(1.0, depth / inwards)
                past = share * onwards
                points.append(corners[end] + share * leg)
            elif inwards < -_ROUNDING:
                theirs = setbacks[(side + step) % num]
                past = (theirs * abs(leg) - depth * onwards) / -inwards
                past = min(max(past, 0.0), _MITRE * max(depth, theirs))
            points.append(corners[end] + past * along - depth * outward)
        if depth > 0:
            yield shapely.MultiPoint([(each.real, each.imag) for each in points]).convex_hull


Boxes = list[tuple[float, float, float, float]]  # x, y, width, height


def _shapes(area: float, bounds: tuple[float, float, float, float]) -> Iterator[Boxes]:
    """Yield shapes of an area as boxes: sturdy rectangles, L-shapes, other rectangles."""
    ranked: list[tuple[int, float, Boxes]] = []
    for number, ratio in enumerate(_RATIOS):
        width = max(0.1, round(math.sqrt(area * ratio), 1))
        rank = 0 if 1 / _STURDY <= ratio <= _STURDY else 2
        ranked.append((rank, number, [(0.0, 0.0, width, round(area / width, 1))]))
    # an L has a wing along its width, and one along its height; the most compact come first
    for deep, wide, step in product(_WINGS, _WINGS, range(12)):
        width = wide + _LEAST_WING + step
        height = round((area - width * deep) / wide + deep, 1)
        if height >= deep + _LEAST_WING:
            for x, y in product((0.0, width - wide), (0.0, height - deep)):
                boxes = [(0.0, y, width, deep), (x, 0.0, wide, height)]
                ranked.append((1, width + height, boxes))
    for _, _, boxes in sorted(ranked):
        ends = np.max([(x + width, y + height) for x, y, width, height in boxes], axis=0)
        if np.all(ends + OUTER_WALL <= np.subtract(bounds[2:], bounds[:2]) + _ROUNDING):
            yield boxes


def _corner_places(place: shapely.Geometry, width: float, height: float) -> shapely.Geometry:
    """Places of the first corner of a rectangle that lies in ``place`` with outer walls around it:
    no border of the place is within them."""
    size = np.array([width, height]) + OUTER_WALL - _ROUNDING
    rings = [shapely.get_coordinates(r) for r in shapely.get_rings(shapely.get_parts(place))]
    ends = np.concatenate([np.stack([ring[:-1], ring[1:]], 1) for ring in rings])
    around = ends[:, :, None] - size * [[0, 0], [1, 0], [0, 1], [1, 1]]
    hulls = shapely.convex_hull(shapely.multipoints(around.reshape(len(ends), 8, 2)))
    return shapely.difference(place, shapely.union_all(hulls, grid_size=_GRID), grid_size=_GRID)


def _lowest(places: shapely.Geometry) -> Point | None:
    """Middle of the lowest places, if there are any."""
    parts = [part for part in shapely.get_parts(places) if part.area > _SPECK]
    if not parts:
        return None
    part = max(parts, key=lambda each: each.bounds[3])
    left, top, right, bottom = part.bounds
    level = max(bottom - _ROUNDING / 4, (top + bottom) / 2)
    across = part.intersection(shapely.LineString([(left, level), (right, level)]))
    widest = max(shapely.get_parts(across), key=lambda piece: piece.length)
    x, y = shapely.get_coordinates(widest.interpolate(0.5, normalized=True))[0]
    return round(float(x), 3), round(float(y), 3)


def site_of_plan(plan: FloorPlan) -> tuple[shapely.Polygon, shapely.Geometry] | None:
    """Site in the metadata of a plan, see ``Site.to_json``, and what can be built on; None without
    a site."""
    site: Any = plan.diagram.metadata.get("site")
    try:
        parts = [validate_boundary(part) for part in (site["polygon"], *site["buildable"])]
    except (DiagramError, KeyError, TypeError):
        return None  # a word of somebody's own
    polygon, *buildable = map(shapely.Polygon, parts)
    return polygon, shapely.union_all(buildable)
