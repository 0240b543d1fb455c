"""Doors: where a floor plan can have them, so that every room is reached."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from floor_plans.diagrams.rooms import NO_EDGE, ROOM_TYPES
from floor_plans.plans.floor_plan import FRONT_DOOR, Door, FloorPlan, Point
from floor_plans.plans.walls import Wall, longest, outer_walls, shared_walls

DOOR, FRONT = 0.8, 1.0
"""Width of a door between rooms, and of a front door, metres."""
LEAST_WALL = 0.9
"""Shortest straight wall that has a door; a front door takes ``FRONT - DOOR`` more."""
FROM_CORNER = 0.15
"""From a door to the end of its wall, half an inner wall included; where there is less than twice
that, the door is in the middle."""
APART = 0.2
"""Least distance of two doors."""

_STEP = 0.1

_PUBLIC = ("Entrance", "LivingRoom", "DiningRoom", "Kitchen")
"""Rooms with a front door: the first of them that has a place for one."""
_PASSAGE = {"Entrance": 0, "LivingRoom": 0, "DiningRoom": 1, "Kitchen": 10} | dict.fromkeys(
    ("Bathroom", "Balcony", "Storage", "Wall-in"), 1000
)
"""Cost of walking through a room; through a bedroom or a study: ``_PRIVATE``."""
_PRIVATE, _NOT_ITS_MASTER = 100, 100_000

Pair = tuple[int, int]
Spot = tuple[Point, Point]
Walls = dict[Pair, list[Wall]]


def find_doors(plan: FloorPlan, *, front: Point | None = None) -> FloorPlan:
    """The plan with doors in the place of those it has: a front door, and one door to every room.

    A door joins two related rooms whose floors share a straight piece of wall of 0.9 m. Rooms are
    reached from the Entrance, or else from the LivingRoom, over living and dining rooms; over a
    kitchen rather than a bedroom or study, and over those rather than a bathroom, balcony, storage
    or wall-in. A bathroom inside or beside a master room opens to it alone, if another one can open
    to an entrance, living or dining room.

    The front door leads from the first Entrance, LivingRoom, DiningRoom or Kitchen that has a wall
    to the outside: through the first of ``outer_walls`` that takes it; with ``front``, of all their
    walls the place nearest to that point, of a kitchen's only where no other takes it.

    A door stands near a corner, the one closer to the door that one comes from; elsewhere where
    the door of another pair would have no place beside it. What has no place has no door: see
    ``unreached``. The same plan always gets the same doors.
    """
    walls = {
        (i, j): fitting
        for i, j, code in plan.diagram.relations
        if code != NO_EDGE
        and (fitting := [w for w in shared_walls(plan, i, j) if w.length >= LEAST_WALL - 1e-6])
    }
    kept, reserved = None, dict[Pair, Spot]()
    while True:
        found = _placed(plan, walls, reserved, front)
        kept = found if kept is None else min(kept, found, key=lambda each: each.cost)
        wanted = [pair for pair in found.full if pair not in reserved]
        spot = wanted and _reserve(plan, walls, wanted[0], reserved)
        if not spot:
            return replace(plan, doors=kept.doors)
        reserved[wanted[0]] = spot


@dataclass(frozen=True)
class _Placed:
    """``full``: pairs whose walls have room for a door, but for the others; ``cost``: of entering
    all rooms, those that are not reached first."""

    doors: tuple[Door, ...]
    full: tuple[Pair, ...]
    cost: tuple[int, int]


def _placed(
    plan: FloorPlan, walls: Walls, reserved: dict[Pair, Spot], near: Point | None
) -> _Placed:
    """Doors of a plan, each where it costs least; those of ``reserved`` pairs have their places."""
    left, root = dict(reserved), _root(plan)
    front = _front_door(plan, left.values(), near)
    doors, suites = ([front] if front else []), _suites(plan, walls)
    entered = {root: _middle(front) if front else plan.boxes[root].centroid.coords[0]}
    costs, full = {root: 0}, list[Pair]()
    while True:
        ways = [
            (costs[a] + _cost(plan, a, b, suites), -longest(walls[pair]), b, a, pair)
            for pair in walls
            for a, b in (pair, pair[::-1])
            if a in costs and b not in costs and pair not in full
        ]
        if not ways:
            missing = plan.diagram.num_rooms - len(costs) + (front is None)
            return _Placed(tuple(doors), tuple(full), (missing, sum(costs.values())))
        cost, _, room, before, pair = min(ways)
        taken = [*((door.start, door.end) for door in doors), *left.values()]
        spot = left.pop(pair, None) or _place(walls[pair], DOOR, entered[before], taken)
        if spot is None:
            full.append(pair)
            continue
        doors.append(Door(pair, *spot))
        costs[room], entered[room] = cost, _middle(doors[-1])


def _reserve(plan: FloorPlan, walls: Walls, pair: Pair, reserved: dict[Pair, Spot]) -> Spot | None:
    """A place for the door of a pair, before others take it."""
    near = plan.boxes[pair[0]].centroid.coords[0]
    return _place(walls[pair], DOOR, near, reserved.values())


def unreached(plan: FloorPlan) -> tuple[int, ...]:
    """The rooms that no doors lead to from the front door; if there is none, from the Entrance, or
    else the LivingRoom."""
    reached = {door.rooms[0] for door in plan.doors if door.is_front} or {_root(plan)}
    inner = [door.rooms for door in plan.doors if not door.is_front]
    while more := {room for pair in inner if reached & {*pair} for room in pair} - reached:
        reached |= more
    return tuple(room for room in range(plan.diagram.num_rooms) if room not in reached)


def _of_type(plan: FloorPlan, *names: str) -> list[int]:
    """Rooms of these types, in the order of the types, then of their numbers."""
    types = plan.diagram.room_names
    return [room for name in names for room, other in enumerate(types) if other == name]


def _root(plan: FloorPlan) -> int:
    """Room in which a walk begins."""
    others = sorted(ROOM_TYPES, key=lambda name: _PASSAGE.get(name, _PRIVATE))
    return _of_type(plan, *_PUBLIC, *others)[0]


def _cost(plan: FloorPlan, before: int, room: int, suites: dict[int, int]) -> int:
    """Cost of entering a room from another: that of walking through the other, and 1 for the
    door."""
    if room in suites:
        return 1 if suites[room] == before else _NOT_ITS_MASTER
    return 1 + _PASSAGE.get(plan.diagram.room_names[before], _PRIVATE)


def _suites(plan: FloorPlan, walls: Walls) -> dict[int, int]:
    """The bathrooms that open to a master room alone, one for each, and that room."""
    baths = _of_type(plan, "Bathroom")
    common = set(_of_type(plan, "Entrance", "LivingRoom", "DiningRoom"))
    for_all = {bath for bath in baths if any(bath in pair and common & {*pair} for pair in walls)}
    found: dict[int, int] = {}
    for master in _of_type(plan, "MasterRoom"):
        ways = []
        for bath in baths:
            pair = (min(bath, master), max(bath, master))
            if pair not in walls or bath in found:
                continue
            is_inside = plan.boxes[master].covers(plan.boxes[bath])
            if for_all - {bath, *found}:
                ways.append((not is_inside, -longest(walls[pair]), bath))
        if ways:
            found[min(ways)[-1]] = master
    return found


def _front_door(plan: FloorPlan, others: Iterable[Spot], near: Point | None) -> Door | None:
    """None if none of the rooms that may have it has a place for one."""
    least, found = LEAST_WALL + FRONT - DOOR, []
    middle = plan.outline.centroid.coords[0]
    for room in _of_type(plan, *_PUBLIC):
        fitting = [wall for wall in outer_walls(plan, room) if wall.length >= least - 1e-6]
        for wall in fitting:
            if spot := _place([wall], FRONT, near or middle, others, at_corner=near is None):
                door = Door((room, FRONT_DOOR), *spot)
                if near is None:
                    return door
                found.append(door)
    kitchens = _of_type(plan, "Kitchen")
    return min(
        found,
        key=lambda door: (
            door.rooms[0] in kitchens,
            round(math.dist(_middle(door), near or middle), 6),
        ),
        default=None,
    )


def _place(
    walls: Iterable[Wall],
    width: float,
    near: Point,
    taken: Iterable[Spot],
    *,
    at_corner: bool = True,
) -> Spot | None:
    """The ends of a door in one of the walls, clear of places that are taken; ``at_corner`` if
    possible, and then as close to a point as possible. None if there is no such place."""
    from shapely import LineString

    others = [LineString(spot) for spot in taken]
    spots: list[tuple[bool, float, Point, Point]] = []
    for wall in walls:
        for start, is_corner in _starts(wall, width):
            begin, end = (_rounded(wall.point(along)) for along in (start, start + width))
            spot = LineString([begin, end])
            if all(spot.distance(other) >= APART - 1e-6 for other in others):
                away = math.dist(spot.centroid.coords[0], near)
                spots.append((at_corner and not is_corner, round(away, 6), begin, end))
    return min(spots)[2:] if spots else None


def _starts(wall: Wall, width: float) -> Iterator[tuple[float, bool]]:
    """Places along a wall where a door may begin, and if each is at a corner."""
    beside = min(FROM_CORNER, (wall.length - width) / 2)
    first, last = wall.low + beside, wall.high - beside - width
    yield first, True
    yield last, True
    for k in range(1, math.ceil((last - first) / _STEP)):
        yield first + k * _STEP, False


def _middle(door: Door) -> Point:
    (x0, y0), (x1, y1) = door.start, door.end
    return (x0 + x1) / 2, (y0 + y1) / 2


def _rounded(point: Point) -> Point:
    """Round to micrometres."""
    return round(point[0], 6), round(point[1], 6)
