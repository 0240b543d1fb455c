"""Dissection: sizes and boxes of rooms, from their sites around the living room.

Each of the four sides of the living room's core carries a strip of rooms. Lengths run *along* the
side, depths point *outwards*. A strip is scaled to its side. Through a gap in it the living room
may reach the facade; then its box overlaps neighbours, or contains them. All lengths are pixels of
a 256 x 256 plan, y downwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floor_plans.diagrams.procedural.programme import LIVING, PAD
from floor_plans.diagrams.procedural.siting import (
    BALCONIES,
    BEDROOMS,
    GROUP_OF_TYPE,
    MASTERS,
    NO_ROOM,
    RING,
    Ring,
    Sites,
)

Array = NDArray[np.float64]

TOP, BOTTOM, LEFT, RIGHT = range(4)

# mean length along the side and mean depth of each group, and their spread (s.d. of logarithms)
# BEDROOMS, KITCHENS, BATHROOMS, BALCONIES, DININGS, LESSER, MASTERS
_LENGTH = np.array([65.0, 53.0, 39.0, 63.0, 55.0, 30.0, 78.0])
_DEPTH = np.array([48.0, 37.0, 22.0, 26.0, 50.0, 28.0, 60.0])
_SPREAD = 0.2
_MIN_CORE, _CORE_SPREAD = 49.0, 0.36
_MAX_STRETCH = 1.14
_ALIGNED = 0.6
"""Probability that the rooms of a strip share one depth (a straight facade)."""
_REACH = 0.95
"""Probability that the living room reaches through the gap of a strip."""
_REACH_FULL = 0.98
"""Probability that it then reaches the facade."""
_CORNER_OWNER = (0.25, 0.71, 0.04)
"""Probabilities that a corner between two strips belongs to the horizontal, the vertical, none."""
_OVERHANG = 0.15
"""Probability that a strip grows over a corner without other rooms."""
_GUEST_MODES = (0.6, 0.19, 0.21)
"""Probabilities that a guest other than a balcony is carved out of its host, outside or inside."""
_CARVED, _OUTSIDE, _INSIDE = range(3)
_MAX_CARVED = 0.6
"""Largest share of its host's length and depth that a carved guest takes."""

_RUNS_ON = 0.31
"""Probability that a balcony in front of a host is longer than the host."""

# half a wall, removed from each side of a box; less for the living room, so that a room within its
# box is strictly within
_WALL = np.where(np.isin(GROUP_OF_TYPE, (BEDROOMS, MASTERS)), 2.0, 3.0)
_WALL[LIVING] = 1.0


@dataclass(frozen=True)
class _Strips:
    """Rooms of the four sides, as arrays Float[P, 4, S] over plan, side, place along the side."""

    present: NDArray[np.bool_]
    outdoors: NDArray[np.bool_]
    length: Array
    depth: Array


@dataclass(frozen=True)
class _Rects:
    """Rectangles Float[P, 4, S]: ``start`` to ``end`` along a side, ``low`` to ``high`` out."""

    start: Array
    end: Array
    low: Array
    high: Array


def _groups(
    rooms: NDArray[np.int64], slots: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Siting group of the room in every slot, Int[P, 4, S], and Bool[P, 4, S], True for rooms."""
    there = slots != NO_ROOM
    group = GROUP_OF_TYPE[np.take_along_axis(rooms, slots, axis=1)]
    shape = (len(slots), 4, slots.shape[1] // 4)
    return group.reshape(shape), there.reshape(shape)


def _measure(rooms: NDArray[np.int64], sites: Sites, rng: np.random.Generator) -> _Strips:
    """Sample the size of every host; an absent room has length and depth 0."""
    group, present = _groups(rooms, sites.hosts)
    noise = np.exp(_SPREAD * rng.standard_normal((2, *group.shape)))
    length = _LENGTH[group] * noise[0] * present
    depth = _DEPTH[group] * noise[1] * present
    outdoors = present & (group == BALCONIES)
    # a straight facade gives all rooms of a strip the same depth
    facade = depth.max(axis=2, keepdims=True)
    aligned = (rng.random((len(rooms), 4, 1)) < _ALIGNED) & present & ~outdoors
    return _Strips(present, outdoors, length, np.where(aligned, facade, depth))


def _corners(strips: _Strips, rng: np.random.Generator) -> Array:
    """Float[P, 4, 2]: extension of each strip over the corners at its start and end."""
    extension = np.zeros((len(strips.depth), 4, 2))
    for h_side in (TOP, BOTTOM):
        for v_side in (LEFT, RIGHT):
            # rooms at the corner, and who takes it
            h_end, v_end = int(v_side == RIGHT), int(h_side == BOTTOM)
            h_depth = strips.depth[:, h_side, -h_end]  # the first or the last of the side
            v_depth = strips.depth[:, v_side, -v_end]
            owner = np.searchsorted(np.cumsum(_CORNER_OWNER), rng.random(len(h_depth)))
            overhang = rng.random(len(h_depth)) < _OVERHANG
            for rank, side, end, depth, other_side, other_depth in (
                (0, h_side, h_end, h_depth, v_side, v_depth),
                (1, v_side, v_end, v_depth, h_side, h_depth),
            ):
                owns = (depth > 0) & (other_depth > 0) & (owner == rank)
                alone = (depth > 0) & (other_depth == 0) & overhang
                # alone in the corner, a strip extends by the depth of the other side elsewhere
                elsewhere = strips.depth[:, other_side].max(1)
                extension[:, side, end] = np.select([owns, alone], [other_depth, elsewhere], 0.0)
    return extension


def _core(strips: _Strips, extension: Array, rng: np.random.Generator) -> Array:
    """Float[P, 2]: width and height of the core, large enough for the strips around it."""
    # length that opposite strips need
    need = strips.length.sum(2) - extension.sum(2)  # (P, 4)
    need = np.stack([need[:, :2].max(1), need[:, 2:].max(1)], axis=1)
    least = _MIN_CORE * np.exp(_CORE_SPREAD * rng.standard_normal(need.shape))
    return np.maximum(need * rng.uniform(0.9, 1.05, need.shape), least)


def _lay_strips(
    strips: _Strips, extension: Array, core: Array, ring: Ring, rng: np.random.Generator
) -> tuple[_Rects, Array]:
    """Rectangles of the rooms of the strips, and the gap Float[P, 4] of each strip."""
    # scale rooms to the span of the side; full strips have no gap
    span = np.repeat(core, 2, axis=1) + extension.sum(2)
    used = strips.length.sum(2)
    full = (strips.present | ~ring.used.reshape(4, -1)).all(2)
    most = np.where(full, np.inf, rng.uniform(1.0, _MAX_STRETCH, span.shape))
    stretch = np.minimum(span / np.maximum(used, 1.0), most)
    length = strips.length * stretch[..., None]
    gap = np.where(used > 0, span - length.sum(2), 0.0)
    # the gap is spread over empty slots
    absent = (~strips.present).astype(float)
    filler = gap[..., None] * absent / np.maximum(absent.sum(2, keepdims=True), 1.0)
    end = np.cumsum(length + filler, axis=2) - extension[:, :, :1]
    return _Rects(end - length - filler, end, np.zeros_like(end), strips.depth), gap


def _reach(strips: _Strips, gap: Array, rng: np.random.Generator) -> Array:
    """Float[P, 4]: depth by which the living room extends through the gap of each side."""
    facade = np.where(strips.outdoors, 0.0, strips.depth).max(2)  # balconies lie in front of it
    share = np.where(rng.random(gap.shape) < _REACH_FULL, 1.0, rng.random(gap.shape))
    reaches = (gap > 12.0) & (rng.random(gap.shape) < _REACH)
    return np.where(reaches, facade * share, 0.0)


def _turn(rects: _Rects, core: Array) -> Array:
    """Boxes Float[P, 4 S, 4] in the plane: the core spans (0, 0) to (width, height)."""
    start, end, low, high = rects.start, rects.end, rects.low, rects.high
    width, height = core[:, None, 0], core[:, None, 1]
    # along and outwards become x and y, side by side
    sides = [
        (start[:, TOP], -high[:, TOP], end[:, TOP], -low[:, TOP]),
        (start[:, BOTTOM], height + low[:, BOTTOM], end[:, BOTTOM], height + high[:, BOTTOM]),
        (-high[:, LEFT], start[:, LEFT], -low[:, LEFT], end[:, LEFT]),
        (width + low[:, RIGHT], start[:, RIGHT], width + high[:, RIGHT], end[:, RIGHT]),
    ]
    boxes = np.stack([np.stack(side, axis=-1) for side in sides], axis=1)
    return boxes.reshape(len(core), -1, 4)


def _seat_guests(
    group: NDArray[np.int64], there: NDArray[np.bool_], host: _Rects, rng: np.random.Generator
) -> tuple[_Rects, _Rects]:
    """Rectangles of hosts, pushed outwards by inner guests, and of guests.

    ``group``: siting group of the guest of each slot, Int[P, 4, S]. ``there``: True for guests,
    Bool[P, 4, S].
    """
    shape = group.shape
    # mode and size of each guest
    mode = np.searchsorted(np.cumsum(_GUEST_MODES), rng.random(shape))
    mode = np.where(group == BALCONIES, _OUTSIDE, mode)
    size = _DEPTH[group] * np.exp(_SPREAD * rng.standard_normal(shape))
    low = np.where(there & (mode == _INSIDE), size, 0.0)
    high = low + host.high
    length = host.end - host.start
    wide = np.minimum(_LENGTH[group], _MAX_CARVED * length)
    deep = np.minimum(size, _MAX_CARVED * host.high)
    at_end, at_facade = rng.random((2, *shape)) < 0.5
    # carved guests take a corner of the host; balconies may run on past its end
    carved = mode == _CARVED
    runs_on = (group == BALCONIES) & (rng.random(shape) < _RUNS_ON)
    further = rng.uniform(0.2, 0.8, shape) * length * runs_on
    guest = _Rects(
        start=np.where(carved & at_end, host.end - wide, host.start - further * at_end),
        end=np.where(carved & ~at_end, host.start + wide, host.end + further * ~at_end),
        low=np.select([carved & at_facade, mode == _OUTSIDE], [high - deep, high], 0.0),
        high=np.select(
            [carved & at_facade, carved, mode == _OUTSIDE], [high, deep, high + size], size
        ),
    )
    return _Rects(host.start, host.end, low, high), guest


def dissect(
    rooms: NDArray[np.int64], sites: Sites, rng: np.random.Generator, ring: Ring = RING
) -> Array:
    """Sample the boxes of rooms at ``sites`` of the ``ring``.

    ``rooms``: Int[P, n_max] as ``sample_programmes`` returns them.
    Returns boxes Float[P, n_max, 4] (x0, y0, x1, y1) in pixels, y downwards, up to the middle of
    the walls; values of unused slots are arbitrary.
    """
    # strips around the core, then the living room's extensions, then guests
    strips = _measure(rooms, sites, rng)
    extension = _corners(strips, rng)
    core = _core(strips, extension, rng)
    rects, gap = _lay_strips(strips, extension, core, ring, rng)
    reach = _reach(strips, gap, rng)
    host, guest = _seat_guests(*_groups(rooms, sites.guests), rects, rng)

    # boxes in the order of rooms
    plans = np.arange(len(rooms))[:, None]
    n_max = rooms.shape[1]
    boxes = np.zeros((len(rooms), n_max + 1, 4))
    boxes[plans, sites.hosts] = _turn(host, core)  # index -1 is a spare slot for the rest
    boxes[plans, sites.guests] = _turn(guest, core)
    living = [-reach[:, LEFT], -reach[:, TOP], core[:, 0] + reach[:, RIGHT]]
    boxes[:, 0] = np.stack([*living, core[:, 1] + reach[:, BOTTOM]], axis=1)
    return boxes[:, :n_max]


def draw_walls(rooms: NDArray[np.int64], boxes: Array) -> NDArray[np.int64]:
    """Round boxes of ``dissect`` to pixels Int64[P, n_max, 4], and take off the walls.

    The upper left corner of a plan is at (0, 0); unused slots are 0.
    """
    drawn = np.rint(boxes) + _WALL[rooms][..., None] * np.array([1.0, 1.0, -1.0, -1.0])
    drawn[..., 2:] = np.maximum(drawn[..., 2:], drawn[..., :2])  # no negative sides in slivers
    there = (rooms != PAD)[..., None]
    corner = np.where(there, drawn, np.inf)[..., :2].min(axis=1, keepdims=True)
    return np.where(there, drawn - np.tile(corner, 2), 0.0).astype(np.int64)
