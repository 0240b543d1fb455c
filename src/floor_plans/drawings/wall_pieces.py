"""Walls of a drawn plan as straight pieces, each a rectangle where its sides allow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from shapely import Geometry, Polygon

_ROUNDING, _SPECK = 1e-6, 1e-4
"""Metres, and square metres, that are nothing."""


def wall_pieces(walls: Geometry) -> list[Polygon]:
    """Polygons that do not overlap and together are the ``walls``: rectangles parallel to the axes,
    the largest that fits first, then what is left of slanted walls."""
    import shapely

    xs, ys = _lines(walls)
    left, top = np.meshgrid(xs[:-1], ys[:-1])
    right, bottom = np.meshgrid(xs[1:], ys[1:])
    cells = shapely.box(left, top, right, bottom)
    shapely.prepare(walls)
    inside = shapely.area(shapely.intersection(cells, walls)) > shapely.area(cells) * (1 - 1e-4)
    found = []
    while inside.any():
        first, last, low, high = _largest(inside, xs, ys)
        inside[low:high, first:last] = False
        found.append(shapely.box(xs[first], ys[low], xs[last], ys[high]))
    rest = shapely.get_parts(walls.difference(shapely.union_all(found)))
    return found + [part for part in rest if part.area > _SPECK]


def _lines(walls: Geometry) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of all corners, on either axis; of those that hardly differ, one."""
    import shapely

    found = []
    for values in shapely.get_coordinates(walls).T:
        ordered = np.unique(values)
        found.append(ordered[np.diff(ordered, prepend=-np.inf) > 2 * _ROUNDING])
    return found[0], found[1]


def _largest(inside: np.ndarray, xs: np.ndarray, ys: np.ndarray) -> tuple[int, int, int, int]:
    """The cells of the rectangle with the largest area: first and last column, then row."""
    best, area = (0, 0, 0, 0), 0.0
    for low in range(len(ys) - 1):
        free = np.ones(len(xs) - 1, dtype=bool)
        for high in range(low + 1, len(ys)):
            free &= inside[high - 1]
            if not free.any():
                break
            edges = np.flatnonzero(np.diff(np.concatenate([[0], free.astype(int), [0]])))
            widths = xs[edges[1::2]] - xs[edges[::2]]
            k = int(widths.argmax())
            if (found := widths[k] * (ys[high] - ys[low])) > area + _SPECK * _ROUNDING:
                best, area = (int(edges[2 * k]), int(edges[2 * k + 1]), low, high), found
    return best
