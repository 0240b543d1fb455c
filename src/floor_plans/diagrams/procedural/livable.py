"""Livability of dissections: rooms are reached, lit and wide enough, plans are compact.

A plan is cut into cells along the edges of all boxes, on the middle of walls. Every cell belongs to
one room, so that the lengths of walls between rooms and to the outside are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from floor_plans.diagrams.geometry import metres_per
from floor_plans.diagrams.metrics.soundness import Flags, Ints, closure
from floor_plans.diagrams.procedural.dissection import Array
from floor_plans.diagrams.procedural.programme import (
    BALCONY,
    BATHROOM,
    CHILD,
    DINING,
    ENTRANCE,
    GUEST,
    KITCHEN,
    LIVING,
    MASTER,
    PAD,
    SECOND,
    STORAGE,
    STUDY,
    WALL_IN,
)

METRE = 1 / metres_per("pixels")
"""Pixels in a metre."""

DOOR, FRONT_DOOR, PASSAGE, WINDOW = 0.9, 1.1, 1.0, 1.2
"""Metres of wall for a door with its frame, for the front door, for a passage between common rooms,
and of outer wall for windows."""
WINDOW_SHARE = 0.08 / 2.134
"""Metres of outer wall per square metre of floor: windows of 8 % of the floor, 2.134 m high."""
MOST_CORNERS, MOST_PERIMETER = 12, 1.5
"""Most corners of the outline, and largest ratio of its length to that of a square of its area."""

LEAST_SIDE = np.zeros(PAD + 1)
"""Least clear width by room type, in metres: the 5 % quantile of living rooms, kitchens, bathrooms,
balconies and bedrooms in 999 real plans. Studies and dining rooms count as bedrooms."""
LEAST_SIDE[[LIVING, KITCHEN, BATHROOM, BALCONY]] = (2.9, 1.23, 1.10, 0.65)
LEAST_SIDE[[MASTER, SECOND, CHILD, GUEST, STUDY, DINING]] = 2.4


def _type_mask(*types: int) -> Flags:
    """Bool[PAD + 1]: True for these room types."""
    return np.isin(np.arange(PAD + 1), types)


_COMMON = _type_mask(LIVING, DINING, ENTRANCE)
_FIRST = _type_mask(LIVING, ENTRANCE)
_PRIVATE = _type_mask(MASTER, SECOND, CHILD, GUEST, STUDY)
_LIT = _PRIVATE | _type_mask(LIVING, DINING)
_REACHED = _PRIVATE | _type_mask(KITCHEN, DINING)
_STORES = _type_mask(STORAGE, WALL_IN)


@dataclass(frozen=True)
class Cells:
    """P plans cut into cells along the edges of their boxes, with a margin around.

    ``owner``: room of each cell, Int[P, Y, X]; N outside, N + 1 in a pocket between rooms.
    ``height``, ``width``: sizes of rows and columns in pixels, Float[P, Y], Float[P, X]; an empty
        row or column has the owners of the previous one.
    """

    owner: Ints
    height: Array
    width: Array

    @classmethod
    def of(cls, rooms: Ints, boxes: Array) -> Cells:
        """Cut rooms Int[P, N] with boxes Float[P, N, 4] into cells.

        A cell belongs to the smallest box around it, to the living room (0) only if to no other.
        """
        num, n = rooms.shape
        # absent rooms get the living room's box, which adds no new edges
        there = (rooms != PAD)[..., None]
        boxes = np.where(there, np.rint(boxes), np.rint(boxes[:, :1]))
        x, y = (_edges(boxes[..., [axis, axis + 2]].reshape(num, 2 * n)) for axis in range(2))
        in_x = _lies_in(x, boxes[..., 0], boxes[..., 2]) & there
        in_y = _lies_in(y, boxes[..., 1], boxes[..., 3]) & there
        # owner of each cell: the smallest box around its middle
        area = (boxes[..., 2:] - boxes[..., :2]).prod(-1)
        area[:, 0] = np.finfo(float).max
        covered = in_y[..., :, None] & in_x[..., None, :]  # (P, N, Y, X)
        owner = np.where(covered, area[..., None, None], np.inf).argmin(1)
        owner = np.where(covered.any(1), owner, n)
        width, height = np.diff(x), np.diff(y)
        owner = np.take_along_axis(owner, _filled(width)[:, None, :], axis=2)
        owner = np.take_along_axis(owner, _filled(height)[:, :, None], axis=1)
        # free cells that the margin does not reach are pockets
        pocket = (owner == n) & ~_outside(owner == n)
        return cls(np.where(pocket, n + 1, owner), height, width)

    def walls(self, n: int) -> Array:
        """Float[P, n + 2, n + 2]: pixels of wall between two of ``n`` rooms, the outside (n) and
        pockets (n + 1)."""
        # count lengths by pair of owners, over vertical and horizontal edges
        num, size = len(self.owner), n + 2
        lengths = np.zeros(num * size * size)
        first = np.arange(num)[:, None, None] * size
        for one, other, length in (
            (self.owner[:, :, :-1], self.owner[:, :, 1:], self.height[:, :, None]),
            (self.owner[:, :-1], self.owner[:, 1:], self.width[:, None, :]),
        ):
            pair = (first + one) * size + other
            length = length * (one != other)
            lengths += np.bincount(pair.ravel(), length.ravel(), minlength=lengths.size)
        found = lengths.reshape(num, size, size)
        return found + found.transpose(0, 2, 1)

    def outline(self, n: int) -> tuple[Ints, Array]:
        """Corners Int[P] and area Float[P], in pixels², of the outline of ``n`` rooms and
        pockets."""
        built = self.owner != n
        # the four cells around each vertex
        four = [built[:, y : y - 1 or None, x : x - 1 or None] for y in (0, 1) for x in (0, 1)]
        # an odd number of built cells is a corner, a crossing counts twice
        corner = np.logical_xor.reduce(four)
        crossing = (four[0] == four[3]) & (four[1] == four[2]) & (four[0] != four[1])
        area = (built * self.height[:, :, None] * self.width[:, None, :]).sum((1, 2))
        return (corner + 2 * crossing).sum((1, 2)), area


def _edges(edges: Array) -> Array:
    """Sorted edges Float[P, K], with a margin before the first and after the last."""
    ordered = np.sort(edges, axis=1)
    return np.concatenate([ordered[:, :1] - METRE, ordered, ordered[:, -1:] + METRE], axis=1)


def _lies_in(edges: Array, low: Array, high: Array) -> Flags:
    """Bool[P, N, K - 1]: spans between edges Float[P, K] that lie within low and high Float[P,
    N]."""
    middle = (edges[:, None, 1:] + edges[:, None, :-1]) / 2
    return (low[..., None] < middle) & (middle < high[..., None])


def _filled(size: Array) -> Ints:
    """Int[P, K]: index of each span, or of the last non-empty one before it."""
    spans = np.where(size > 0, np.arange(size.shape[1]), 0)
    return np.maximum.accumulate(spans, axis=1)


def _outside(free: Flags) -> Flags:
    """Bool[P, Y, X]: free cells that are connected with the margin by free cells."""
    found = np.zeros_like(free)
    found[:, 0] = True
    # flood fill from the margin
    while True:
        grown = found.copy()
        grown[:, 1:] |= found[:, :-1]
        grown[:, :-1] |= found[:, 1:]
        grown[:, :, 1:] |= found[:, :, :-1]
        grown[:, :, :-1] |= found[:, :, 1:]
        grown &= free
        if np.array_equal(grown, found):
            return found
        found = grown


def are_livable(rooms: Ints, boxes: Array, drawn: Ints) -> Flags:
    """Bool[P]: plans that meet all of these conditions.

    * Front door: a living room or entrance has outer wall for it.
    * Circulation: every bedroom, study, kitchen and dining room has wall for a door to a common
      room (living, dining, entrance) that is reached by way of common rooms. So has one bathroom;
      the others have a door to a private room at least. Storage has a door to a room other than
      bathroom, balcony and storage, a balcony to a common room, private room or kitchen.
    * Light: every common or private room except the entrance has outer wall for windows of 8 % of
      its floor; balconies are outside.
    * Clear width: no room is narrower than ``LEAST_SIDE``.
    * Outline: at most 12 corners, and at most 1.5 times as long as that of a square.

    They are checked on the plan as drawn. A plan built from its diagram alone may break them.

    ``rooms``: Int[P, N] codes, the living room first. ``boxes``: Float[P, N, 4], pixels, on the
    middle of walls. ``drawn``: Int[P, N, 4], the same without walls.
    """
    # the cheap check first; only plans that pass it are cut into cells
    n, fits = rooms.shape[1], are_wide(rooms, drawn)
    rooms, boxes = rooms[fits], boxes[fits]
    cells = Cells.of(rooms, boxes)
    pixels = cells.walls(n)
    walls = pixels / METRE
    fits[fits] = (
        are_compact(cells, pixels)
        & are_reached(rooms, walls)
        & are_lit(rooms, boxes, walls[:, :n, n])
    )
    return fits


def are_wide(rooms: Ints, drawn: Ints) -> Flags:
    """Bool[P]: plans in which no room is narrower than ``LEAST_SIDE``."""
    side = (drawn[..., 2:] - drawn[..., :2]).min(-1) / METRE
    fits: Flags = ((side >= LEAST_SIDE[rooms]) | (rooms == PAD)).all(1)
    return fits


def are_compact(cells: Cells, walls: Array) -> Flags:
    """Bool[P]: plans with a simple and short outline; ``walls``: result of ``cells.walls``."""
    n = walls.shape[1] - 2
    corners, area = cells.outline(n)
    length = walls[:, n].sum(1)
    fits: Flags = (corners <= MOST_CORNERS) & (length <= 4 * MOST_PERIMETER * np.sqrt(area))
    return fits


def are_reached(rooms: Ints, walls: Array) -> Flags:
    """Bool[P]: plans with a front door and a way from it to every room that needs one."""
    n = rooms.shape[1]
    between, outer = walls[:, :n, :n], walls[:, :n, n]
    # common rooms that are reached by passages from the living room
    common = _COMMON[rooms]
    way = closure((between >= PASSAGE) & common[:, :, None] & common[:, None, :])[:, 0]
    way[:, 0] = True
    is_bath, is_balcony = rooms == BATHROOM, rooms == BALCONY

    def has_door(targets: Flags) -> Flags:
        """Bool[P, N]: rooms with wall for a door to one of the ``targets`` Bool[P, N]."""
        fits: Flags = between >= DOOR
        return np.logical_or.reduce(fits & targets[:, None, :], axis=2)

    # every room has the doors that its type needs
    private, stores = _PRIVATE[rooms], _STORES[rooms]
    served = (
        (way | ~common)
        & (has_door(way) | ~_REACHED[rooms])
        & (has_door(way | private) | ~is_bath)
        & (has_door(common | _REACHED[rooms]) | ~is_balcony)
        & (has_door(~(stores | is_bath | is_balcony | (rooms == PAD))) | ~stores)
    )
    # one bathroom on the way, and a front door
    bath = ~is_bath.any(1) | (is_bath & has_door(way)).any(1)
    front = (_FIRST[rooms] & (outer >= FRONT_DOOR)).any(1)
    reached: Flags = served.all(1) & bath & front
    return reached


def are_lit(rooms: Ints, boxes: Array, outer: Array) -> Flags:
    """Bool[P]: plans in which habitable rooms have wall for windows, and balconies outer wall."""
    # wall for windows by floor area; a balcony needs a door's width outside
    floor = (boxes[..., 2:] - boxes[..., :2]).prod(-1) / METRE**2
    needed = np.where(rooms == BALCONY, DOOR, np.maximum(WINDOW, WINDOW_SHARE * floor))
    lit: Flags = ((outer >= needed) | ~(_LIT[rooms] | (rooms == BALCONY))).all(1)
    return lit
