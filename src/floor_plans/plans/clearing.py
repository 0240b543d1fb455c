"""``Clearing``: rectangles of a room that doors should leave free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floor_plans.plans.floor_plan import Box, Point
from floor_plans.plans.libraries import shapely
from floor_plans.plans.outline import Wall

_NEAR = 0.01  # metres by which a rectangle may be smaller
_MOST = 12  # rectangles that are tried


@dataclass(frozen=True)
class Kept:
    """Rectangle that doors keep clear of, and of ``deep`` metres in front of them."""

    rectangle: Box
    deep: float

    def is_blocked(self, start: Point, end: Point) -> bool:
        """True if the space in front of a door from ``start`` to ``end`` overlaps it."""
        (x0, x1), (y0, y1) = (sorted(pair) for pair in zip(start, end, strict=True))
        left, top, right, bottom = self.rectangle
        # the space lies across the door
        x, y = (0.0, self.deep) if x1 - x0 >= y1 - y0 else (self.deep, 0.0)
        overlap = min(x1 + x, right) - max(x0 - x, left), min(y1 + y, bottom) - max(y0 - y, top)
        return min(overlap) > _NEAR


@dataclass(frozen=True)
class Clearing:
    """Rectangle of ``size`` to keep clear of doors in rooms of type ``room``.

    ``deep``: metres in front of each door that are no part of it; nor is half a ``wall``."""

    room: str
    size: tuple[float, float]
    deep: float
    wall: float

    def rectangles(
        self, floor: Any, groups: Sequence[Sequence[Wall]], door: float, corner: float
    ) -> list[Kept]:
        """A few rectangles in a floor, those first that leave wall for most doors, then most wall.

        ``groups``: walls of which one has each door; ``door``, ``corner``: metres of wall that a
        door needs, and between it and a corner.
        """
        # at the sides of the clear floor, or as far away as a door there is deep or wide
        floor = floor.buffer(-self.wall / 2, join_style="mitre")
        sides = [np.unique(each.round(3)) for each in shapely.get_coordinates(floor).T]
        boxes, off = [], np.array([[0.0], [self.deep - self.wall / 2], [door + corner - self.wall]])
        for size in {self.size, self.size[::-1]}:
            starts = [
                np.unique([each + off, each - off - long])
                for each, long in zip(sides, size, strict=True)
            ]
            x, y = (each.ravel() for each in np.meshgrid(*starts))
            boxes.append(np.stack([x, y, x + size[0], y + size[1]], axis=1))
        each = np.concatenate(boxes)
        shapely.prepare(inside := floor.buffer(_NEAR, join_style="mitre"))
        each = each[shapely.contains(inside, shapely.box(*each.T))]
        # longest wall that each leaves for every door
        left = np.array([_walls_left(walls, each, self.deep) for walls in groups])
        num_doors = (left >= door - _NEAR).sum(0)
        order = np.lexsort((-left.clip(max=2 * door).sum(0), -num_doors))
        return [Kept(tuple(each[k].tolist()), self.deep) for k in order[:_MOST]]


def _walls_left(walls: Sequence[Wall], boxes: NDArray[np.float64], deep: float) -> Any:
    """Longest piece of walls with no box closer than ``deep`` in front of it, Float[K], for boxes
    Float[K, 4]."""
    longest = np.zeros(len(boxes))
    for wall in walls:
        low, high = boxes[:, wall.axis], boxes[:, wall.axis + 2]
        off = np.maximum(boxes[:, 1 - wall.axis] - wall.at, wall.at - boxes[:, 3 - wall.axis])
        before = np.minimum(low, wall.high) - wall.low
        behind = wall.high - np.maximum(high, wall.low)
        beside = np.maximum(before, behind)
        longest = np.maximum(longest, np.where(off >= deep - _NEAR, wall.length, beside))
    return longest
