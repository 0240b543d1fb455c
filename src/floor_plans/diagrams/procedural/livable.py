"""Livability of dissections: rooms are reached, lit and can be furnished, plans are compact.

A plan is cut into cells along the edges of all boxes, on the middle of walls. Every cell belongs to
one room, so that the lengths of walls between rooms and to the outside are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from discrete_diffusion.layout import ROOM_TYPES
from floor_plans.diagrams.geometry import Flags, Floats, Ints, metres_per, transitive_closure
from floor_plans.diagrams.procedural import programme
from floor_plans.diagrams.procedural.programme import BALCONY, BATHROOM, KITCHEN, LIVING, PAD, RING

TOP, BOTTOM, LEFT, RIGHT = range(4)

# mean length along the side and mean depth of each group, and their spread (s.d. of logarithms)
# BEDROOMS, KITCHENS, BATHROOMS, BALCONIES, DININGS, LESSER, MASTERS
_LENGTH = np.array([65.0, 53.0, 39.0, 63.0, 55.0, 30.0, 78.0])
_DEPTH = np.array([48.0, 37.0, 22.0, 26.0, 50.0, 28.0, 60.0])
_SPREAD = 0.2
_MIN_CORE, _CORE_SPREAD = 49.0, 0.36
_MAX_STRETCH = 1.14
_ALIGNED = 0.6  # probability that the rooms of a strip share one depth (a straight facade)
_REACH = 0.95  # probability that the living room reaches through the gap of a strip
_REACH_FULL = 0.98  # probability that it then reaches the facade
_CORNER_OWNER = (0.25, 0.71, 0.04)
"""Probabilities that a corner between two strips belongs to the horizontal, the vertical, none."""
_OVERHANG = 0.15  # probability that a strip grows over a corner without other rooms
_GUEST_MODES = (0.6, 0.19, 0.21)
"""Probabilities that a guest other than a balcony is carved out of its host, outside or inside."""
_CARVED, _OUTSIDE, _INSIDE = range(3)
_MAX_CARVED = 0.6  # largest share of its host's length and depth that a carved guest takes
_RUNS_ON = 0.31  # probability that a balcony in front of a host is longer than the host

# half a wall, removed from each side of a box; less for the living room, so that a room within its
# box is strictly within
_HAS_THIN_WALLS = np.isin(programme.GROUP_OF_TYPE, (programme.BEDROOMS, programme.MASTERS))
_WALL = np.where(_HAS_THIN_WALLS, 2.0, 3.0)
_WALL[LIVING] = 1.0


@dataclass(frozen=True)
class _Strips:
    """Rooms of the four sides, as arrays Float[P, 4, S] over plan, side, place along the side."""

    present: Flags
    outdoors: Flags
    length: Floats
    depth: Floats


@dataclass(frozen=True)
class _Rects:
    """Rectangles Float[P, 4, S]: ``start`` to ``end`` along a side, ``low`` to ``high`` out."""

    start: Floats
    end: Floats
    low: Floats
    high: Floats


def _groups(rooms: Ints, slots: Ints) -> tuple[Ints, Flags]:
    """Siting group of the room in every slot, Int[P, 4, S], and Bool[P, 4, S], True for rooms."""
    there = slots != programme.NO_ROOM
    group = programme.GROUP_OF_TYPE[np.take_along_axis(rooms, slots, axis=1)]
    shape = (len(slots), 4, slots.shape[1] // 4)
    return group.reshape(shape), there.reshape(shape)


def _size_hosts(rooms: Ints, sites: programme.Sites, rng: np.random.Generator) -> _Strips:
    """Sample the size of every host; an absent room has length and depth 0."""
    group, present = _groups(rooms, sites.hosts)
    noise = np.exp(_SPREAD * rng.standard_normal((2, *group.shape)))
    length = _LENGTH[group] * noise[0] * present
    depth = _DEPTH[group] * noise[1] * present
    outdoors = present & (group == programme.BALCONIES)
    # a straight facade gives all rooms of a strip the same depth
    facade = depth.max(axis=2, keepdims=True)
    aligned = (rng.random((len(rooms), 4, 1)) < _ALIGNED) & present & ~outdoors
    return _Strips(present, outdoors, length, np.where(aligned, facade, depth))


def _corners(strips: _Strips, rng: np.random.Generator) -> Floats:
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


def _lay_strips(
    strips: _Strips, extension: Floats, core: Floats, ring: programme.Ring, rng: np.random.Generator
) -> tuple[_Rects, Floats]:
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


def _turn(rects: _Rects, core: Floats) -> Floats:
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
    group: Ints, there: Flags, host: _Rects, rng: np.random.Generator
) -> tuple[_Rects, _Rects]:
    """Rectangles of hosts, pushed outwards by inner guests, and of guests. ``group``: siting group
    of the guest of each slot, Int[P, 4, S]. ``there``: True for guests, Bool[P, 4, S]."""
    shape = group.shape
    # mode and size of each guest
    mode = np.searchsorted(np.cumsum(_GUEST_MODES), rng.random(shape))
    mode = np.where(group == programme.BALCONIES, _OUTSIDE, mode)
    size = _DEPTH[group] * np.exp(_SPREAD * rng.standard_normal(shape))
    low = np.where(there & (mode == _INSIDE), size, 0.0)
    high = low + host.high
    length = host.end - host.start
    wide = np.minimum(_LENGTH[group], _MAX_CARVED * length)
    deep = np.minimum(size, _MAX_CARVED * host.high)
    at_end, at_facade = rng.random((2, *shape)) < 0.5
    # carved guests take a corner of the host; balconies may run on past its end
    carved = mode == _CARVED
    runs_on = (group == programme.BALCONIES) & (rng.random(shape) < _RUNS_ON)
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


def dissect_plans(
    rooms: Ints, sites: programme.Sites, rng: np.random.Generator, ring: programme.Ring = RING
) -> Floats:
    """Sample the boxes of rooms at ``sites`` of the ``ring``.

    ``rooms``: Int[P, n_max] as ``sample_programmes`` returns them.
    Returns boxes Float[P, n_max, 4] (x0, y0, x1, y1) in pixels, y downwards, up to the middle of
    the walls; values of unused slots are arbitrary.
    """
    # strips around the core, then the living room's extensions, then guests
    strips = _size_hosts(rooms, sites, rng)
    extension = _corners(strips, rng)
    # the core has the length that opposite strips need
    need = strips.length.sum(2) - extension.sum(2)  # (P, 4)
    need = np.stack([need[:, :2].max(1), need[:, 2:].max(1)], axis=1)
    least = _MIN_CORE * np.exp(_CORE_SPREAD * rng.standard_normal(need.shape))
    core = np.maximum(need * rng.uniform(0.9, 1.05, need.shape), least)
    rects, gap = _lay_strips(strips, extension, core, ring, rng)
    # the living room extends through gaps, mostly to the facade; balconies lie in front of it
    facade = np.where(strips.outdoors, 0.0, strips.depth).max(2)
    share = np.where(rng.random(gap.shape) < _REACH_FULL, 1.0, rng.random(gap.shape))
    reach = np.where((gap > 12.0) & (rng.random(gap.shape) < _REACH), facade * share, 0.0)
    host, guest = _seat_guests(*_groups(rooms, sites.guests), rects, rng)

    # boxes in the order of rooms
    plans, n_max = np.arange(len(rooms))[:, None], rooms.shape[1]
    boxes = np.zeros((len(rooms), n_max + 1, 4))
    boxes[plans, sites.hosts] = _turn(host, core)  # index -1 is a spare slot for the rest
    boxes[plans, sites.guests] = _turn(guest, core)
    living = [-reach[:, LEFT], -reach[:, TOP], core[:, 0] + reach[:, RIGHT]]
    boxes[:, 0] = np.stack([*living, core[:, 1] + reach[:, BOTTOM]], axis=1)
    return boxes[:, :n_max]


def draw_walls(rooms: Ints, boxes: Floats) -> Ints:
    """Round boxes of ``dissect_plans`` to pixels Int64[P, n_max, 4], and take off the walls. The
    upper left corner of a plan is at (0, 0); unused slots are 0."""
    drawn = np.rint(boxes) + _WALL[rooms][..., None] * np.array([1.0, 1.0, -1.0, -1.0])
    drawn[..., 2:] = np.maximum(drawn[..., 2:], drawn[..., :2])  # no negative sides in slivers
    there = (rooms != PAD)[..., None]
    corner = np.where(there, drawn, np.inf)[..., :2].min(axis=1, keepdims=True)
    return np.where(there, drawn - np.tile(corner, 2), 0.0).astype(np.int64)


METRE = 1 / metres_per("pixels")  # pixels in a metre

DOOR, FRONT_DOOR, PASSAGE, WINDOW, KITCHEN_WINDOW = 0.9, 1.1, 1.0, 1.2, 0.9
"""Metres of wall for a door with its frame, for the front door, for a passage between common rooms,
and of outer wall for windows and for those of kitchens."""
WINDOW_SHARE = 0.08 / 2.134
"""Metres of outer wall per square metre of floor: windows of 8 % of the floor, 2.134 m high."""
MOST_CORNERS, MOST_PERIMETER, MOST_DOORS = 12, 1.5, 5
"""Most corners of the outline, largest ratio of its length to that of a square of its area, and
most doors of a living room, without the front door and those to balconies."""


def _type_mask(*names: str) -> Flags:
    """Bool[PAD + 1]: True for these room types."""
    return np.isin(np.arange(PAD + 1), [ROOM_TYPES.index(name) for name in names])


_COMMON = _type_mask("LivingRoom", "DiningRoom", "Entrance")
_FIRST = _type_mask("LivingRoom", "Entrance")
_PRIVATE = _type_mask("MasterRoom", "SecondRoom", "ChildRoom", "GuestRoom", "StudyRoom")
_LIT = _PRIVATE | _type_mask("LivingRoom", "DiningRoom")
_REACHED = _PRIVATE | _type_mask("Kitchen", "DiningRoom")
_STORES = _type_mask("Storage", "Wall-in")
_DOUBLE = _type_mask("MasterRoom", "SecondRoom", "GuestRoom")

CLEAR = 0.05
"""Metres between the middle of a wall and the clear floor."""
LEAST = np.zeros((PAD + 1, 2))
"""Sides of a rectangle that a clear floor holds, by room type, the shorter first, in metres."""
LEAST[_PRIVATE | _type_mask("DiningRoom")] = (2.4, 2.7)
LEAST[_DOUBLE] = (2.5, 2.9)
LEAST[[LIVING, KITCHEN, BATHROOM, BALCONY]] = ((3.2, 3.6), (1.5, 2.3), (1.5, 1.7), (0.8, 0.8))
MOST_RATIO, MOST_AREA = np.full((2, PAD + 1), np.inf)
"""Largest ratio of sides, and largest clear floor in square metres, by room type."""
MOST_RATIO[_DOUBLE | _type_mask("ChildRoom")] = 2.4
MOST_RATIO[[LIVING, BALCONY]] = (3.0, 5.0)
MOST_AREA[[KITCHEN, BATHROOM]] = (20.0, 10.0)


@dataclass(frozen=True)
class Cells:
    """P plans cut into cells along the edges of their boxes, with a margin around.

    ``owner``: room of each cell, Int[P, Y, X]; N outside, N + 1 in a pocket between rooms.
    ``height``, ``width``: sizes of rows and columns in pixels, Float[P, Y], Float[P, X]; an empty
        row or column has the owners of the previous one.
    """

    owner: Ints
    height: Floats
    width: Floats

    @classmethod
    def of(cls, rooms: Ints, boxes: Floats) -> Cells:
        """Cut rooms Int[P, N] with boxes Float[P, N, 4] into cells. A cell belongs to the smallest
        box around it; the living room (0) comes last."""
        num, n = rooms.shape
        # absent rooms get the living room's box, which adds no new edges
        there = (rooms != PAD)[..., None]
        boxes = np.where(there, np.rint(boxes), np.rint(boxes[:, :1]))
        # sorted edges along both axes, with a margin before the first and after the last
        edges = np.sort(boxes.reshape(num, n, 2, 2).transpose(3, 0, 1, 2).reshape(2, num, 2 * n))
        low, high = edges[..., :1] - METRE, edges[..., -1:] + METRE
        x, y = np.concatenate([low, edges, high], axis=-1)
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
        free, in_plan = owner == n, np.zeros((3, 3, 3), dtype=bool)
        in_plan[1] = ndimage.generate_binary_structure(2, 1)
        pocket = free & ndimage.binary_fill_holes(~free, in_plan)
        return cls(np.where(pocket, n + 1, owner), height, width)

    def walls(self, n: int) -> Floats:
        """Float[P, n + 2, n + 2]: pixels of wall between rooms, outside (n) and pockets (n + 1)."""
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

    def outline(self, n: int) -> tuple[Ints, Floats]:
        """Corners Int[P] and area Float[P], in pixels², of the outline of rooms and pockets."""
        built = self.owner != n
        # the four cells around each vertex
        four = [built[:, y : y - 1 or None, x : x - 1 or None] for y in (0, 1) for x in (0, 1)]
        # an odd number of built cells is a corner, a crossing counts twice
        corner = np.logical_xor.reduce(four)
        crossing = (four[0] == four[3]) & (four[1] == four[2]) & (four[0] != four[1])
        area = (built * self.height[:, :, None] * self.width[:, None, :]).sum((1, 2))
        return (corner + 2 * crossing).sum((1, 2)), area


def _lies_in(edges: Floats, low: Floats, high: Floats) -> Flags:
    """Bool[P, N, K - 1]: spans of edges Float[P, K] that lie within low and high Float[P, N]."""
    middle = (edges[:, None, 1:] + edges[:, None, :-1]) / 2
    return (low[..., None] < middle) & (middle < high[..., None])


def _filled(size: Floats) -> Ints:
    """Int[P, K]: index of each span, or of the last non-empty one before it."""
    spans = np.where(size > 0, np.arange(size.shape[1]), 0)
    return np.maximum.accumulate(spans, axis=1)


def are_livable(rooms: Ints, boxes: Floats) -> Flags:
    """Bool[P]: plans that meet all of these conditions.

    * Front door: a living room or entrance has outer wall for it.
    * Circulation: every bedroom, study, kitchen and dining room has wall for a door to a common
      room (living, dining, entrance) that is reached by way of common rooms. One bathroom has such
      wall too; other bathrooms have wall for a door to a private room at least. Storage has a door
      to a room other than bathroom, balcony and storage, a balcony to a common room, private room
      or kitchen. At most ``MOST_DOORS`` rooms have to be entered from the living room, if the list
      of rooms allows for it.
    * Light: every common or private room except the entrance has outer wall for windows of 8 % of
      its floor, a kitchen 0.9 m of it or of wall to balconies; balconies are outside.
    * Furniture: rooms hold the rectangle ``LEAST``, clear of rooms within them, and are no longer
      or larger than ``MOST_RATIO`` and ``MOST_AREA``.
    * Outline: at most 12 corners, and at most 1.5 times as long as that of a square.

    They are checked on the plan as drawn. A plan built from its diagram alone may break them.

    ``rooms``: Int[P, N] codes, the living room first. ``boxes``: Float[P, N, 4], pixels, on the
    middle of walls.
    """
    # the cheap check first; only plans that pass it are cut into cells
    n, fits = rooms.shape[1], are_furnished(rooms, boxes)
    rooms, boxes = rooms[fits], boxes[fits]
    cells = Cells.of(rooms, boxes)
    pixels = cells.walls(n)
    walls = pixels / METRE
    reached, lit = are_reached(rooms, walls), are_lit(rooms, boxes, walls)
    fits[fits] = are_compact(cells, pixels) & reached & lit
    return fits


def are_furnished(rooms: Ints, boxes: Floats) -> Flags:
    """Bool[P]: plans with space for furniture in every room."""
    clear = np.rint(boxes) / METRE + CLEAR * np.array([1, 1, -1, -1])
    sides = np.sort(clear[..., 2:] - clear[..., :2])
    fits = (sides >= LEAST[rooms]).all(-1) & (sides.prod(-1) <= MOST_AREA[rooms])
    fits &= sides[..., 1] <= MOST_RATIO[rooms] * sides[..., 0]
    found: Flags = (fits | (rooms == PAD)).all(1)
    found[found] = _hold_rectangles(rooms[found], clear[found])
    return found


def _hold_rectangles(rooms: Ints, clear: Floats) -> Flags:
    """Bool[P]: plans in which every room, at least as large as ``LEAST``, holds that rectangle
    beside the rooms within it. ``clear``: clear boxes Float[P, N, 4], in metres."""
    n, there = rooms.shape[1], rooms != PAD
    # smaller rooms, with their walls, are in the way; the living room (0) is in nobody's way
    area = (clear[..., 2:] - clear[..., :2]).prod(-1)
    area[:, 0] = np.inf
    walls = clear + 2 * CLEAR * np.array([-1, -1, 1, 1])
    meets = (clear[:, :, None, :2] < walls[:, None, :, 2:]).all(-1)
    meets &= (clear[:, :, None, 2:] > walls[:, None, :, :2]).all(-1)
    meets &= (area[:, :, None] > area[:, None, :]) & there[:, None] & there[:, :, None]
    # K rooms with others in the way
    plan, room = meets.any(2).nonzero()
    meets, walls = meets[plan, room], walls[plan]
    low, high = np.split(clear[plan, room, None], 2, axis=-1)  # (K, 1, 2)
    # a free rectangle can be moved up and left, to a side of its box or a room in the way
    start = np.where((np.arange(n) == room[:, None])[..., None], low, walls[..., 2:])
    holds = np.zeros(len(plan), dtype=bool)
    for size in (LEAST[rooms[plan, room]], LEAST[rooms[plan, room]][:, ::-1]):
        end = start + size[:, None]
        fits = (start >= low) & (end <= high)  # (K, place, axis)
        clash = start[:, :, None] < walls[:, None, :, 2:]  # (K, place, room in the way, axis)
        clash &= end[:, :, None] > walls[:, None, :, :2]
        clash &= meets[:, None, :, None]
        clash_x, clash_y = clash.astype(np.float32).transpose(3, 0, 1, 2)
        is_free = clash_x @ clash_y.swapaxes(1, 2) == 0
        holds |= (is_free & fits[:, :, None, 0] & fits[:, None, :, 1]).any((1, 2))
    found = np.ones(len(rooms), dtype=bool)
    found[plan[~holds]] = False
    return found


def are_compact(cells: Cells, walls: Floats) -> Flags:
    """Bool[P]: plans with a simple and short outline; ``walls``: result of ``cells.walls``."""
    n = walls.shape[1] - 2
    corners, area = cells.outline(n)
    length = walls[:, n].sum(1)
    fits: Flags = (corners <= MOST_CORNERS) & (length <= 4 * MOST_PERIMETER * np.sqrt(area))
    return fits


def are_reached(rooms: Ints, walls: Floats) -> Flags:
    """Bool[P]: plans with a front door, ways to rooms that need one, and few doors of the living
    room."""
    n = rooms.shape[1]
    between, outer = walls[:, :n, :n], walls[:, :n, n]
    # common rooms that are reached by passages from the living room
    common = _COMMON[rooms]
    way = transitive_closure((between >= PASSAGE) & common[:, :, None] & common[:, None, :])[:, 0]
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
    # rooms entered from the living room; if there are many, closets and all bathrooms but the last
    # are entered from elsewhere
    passed, beside = private | (rooms == KITCHEN) | common, between[:, 0] >= DOOR
    last = is_bath & (np.cumsum(is_bath, axis=1) == is_bath.sum(1, keepdims=True))
    elsewhere = has_door((passed & (np.arange(n) > 0)) & (way | ~common)) & (stores | is_bath)
    entered = (beside & (~elsewhere | last) & ~is_balcony).sum(1)
    few = (beside & ~is_balcony).sum(1) <= MOST_DOORS
    few |= (entered <= MOST_DOORS) & (has_door(way) | ~last).all(1)
    # some lists of rooms leave no choice
    few |= passed[:, 1:].sum(1) + is_bath.any(1) - common[:, 1:].sum(1) > MOST_DOORS
    reached: Flags = served.all(1) & bath & front & few
    return reached


def are_lit(rooms: Ints, boxes: Floats, walls: Floats) -> Flags:
    """Bool[P]: plans in which habitable rooms have wall for windows, and balconies outer wall."""
    # wall for windows by floor area; a balcony needs a door's width outside
    n, is_balcony = rooms.shape[1], rooms == BALCONY
    outer = walls[:, :n, n]
    floor = (boxes[..., 2:] - boxes[..., :2]).prod(-1) / METRE**2
    needed = np.where(is_balcony, DOOR, np.maximum(WINDOW, WINDOW_SHARE * floor))
    lit = (outer >= needed) | ~(_LIT[rooms] | is_balcony)
    airy = outer + (walls[:, :n, :n] * is_balcony[:, None]).sum(2)
    return np.logical_and(lit, (airy >= KITCHEN_WINDOW) | (rooms != KITCHEN)).all(1)
