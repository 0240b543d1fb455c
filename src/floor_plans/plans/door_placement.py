"""Placement of doors, so that every room is reached from the front door."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from floor_plans.diagrams.rooms import NO_EDGE, ROOM_TYPES
from floor_plans.plans.floor_plan import FRONT_DOOR, Door, FloorPlan, Point
from floor_plans.plans.walls import Wall, longest, outer_walls, shared_walls

DOOR, FRONT = 0.8, 1.0
"""Widths of an interior door and of a front door, metres."""
LEAST_WALL = 0.9
"""Metres of straight wall that a door needs; a front door needs ``FRONT - DOOR`` more."""
FROM_CORNER = 0.15
"""Metres between a door and the end of its wall, half an inner wall included. In a shorter wall the
door is in the middle."""
APART = 0.2
"""Least distance of two doors, metres."""

_STEP = 0.1

_PUBLIC = ("Entrance", "LivingRoom", "DiningRoom", "Kitchen")
"""Rooms that may have the front door, the preferred first."""
_PASSAGE = {"Entrance": 0, "LivingRoom": 0, "DiningRoom": 1, "Kitchen": 10} | dict.fromkeys(
    ("Bathroom", "Balcony", "Storage", "Wall-in"), 1000
)
"""Cost of walking through a room; other rooms cost ``_PRIVATE``."""
_PRIVATE, _NOT_ITS_MASTER = 100, 100_000

Pair = tuple[int, int]
Spot = tuple[Point, Point]
Walls = dict[Pair, list[Wall]]


def find_doors(plan: FloorPlan, *, front: Point | None = None) -> FloorPlan:
    """Return the plan with new doors: a front door, and one door for every room.

    A door joins two related rooms whose floors share 0.9 m of straight wall. The walk begins in the
    Entrance, or else in the LivingRoom. It prefers living and dining rooms, then a kitchen, then a
    bedroom or study, and last a bathroom, balcony, storage or wall-in. A bathroom inside or next to
    a master room opens to it alone, if another bathroom can open to an entrance, living or dining
    room.

    The front door leads from the first Entrance, LivingRoom, DiningRoom or Kitchen that has an
    outer wall, through the first of ``outer_walls`` that takes it. With ``front`` it is at the
    place nearest to that point, in a kitchen only if no other room takes it.

    A door is near a corner, the one closer to the door by which the room is entered. It moves
    elsewhere if the door of another pair would have no place otherwise. A door that fits nowhere is
    left out: see ``unreached``. The same plan always gets the same doors.
    """
    walls = {
        (i, j): fitting
        for i, j, code in plan.diagram.relations
        if code != NO_EDGE
        and (fitting := [w for w in shared_walls(plan, i, j) if w.length >= LEAST_WALL - 1e-6])
    }
    best, reserved = None, dict[Pair, Spot]()
    while True:
        placement = _place_doors(plan, walls, reserved, front)
        best = placement if best is None else min(best, placement, key=lambda each: each.cost)
        # reserve a place for the first pair whose wall others have filled, and place all again
        wanted = [pair for pair in placement.full if pair not in reserved]
        spot = wanted and _place(
            walls[wanted[0]],
            DOOR,
            plan.boxes[wanted[0][0]].centroid.coords[0],
            reserved.values(),
        )
        if not spot:
            return replace(plan, doors=best.doors)
        reserved[wanted[0]] = spot


@dataclass(frozen=True)
class _Placement:
    """Doors, and the pairs ``full`` whose walls would take a door if no other were there. ``cost``:
    rooms that are not reached, then the cost of entering all rooms."""

    doors: tuple[Door, ...]
    full: tuple[Pair, ...]
    cost: tuple[int, int]


def _place_doors(
    plan: FloorPlan, walls: Walls, reserved: dict[Pair, Spot], near: Point | None
) -> _Placement:
    """Place the doors of a plan one by one where they cost least; ``reserved`` pairs have their
    places."""
    # the walk begins at the front door
    left, root = dict(reserved), _root(plan)
    front = _front_door(plan, left.values(), near)
    doors, suites = ([front] if front else []), _suites(plan, walls)
    entered = {root: _middle(front) if front else plan.boxes[root].centroid.coords[0]}
    costs, full = {root: 0}, list[Pair]()
    # enter the next room by the cheapest door, as in Dijkstra's algorithm
    while True:
        ways = [
            (costs[a] + _cost(plan, a, b, suites), -longest(walls[pair]), b, a, pair)
            for pair in walls
            for a, b in (pair, pair[::-1])
            if a in costs and b not in costs and pair not in full
        ]
        if not ways:
            missing = plan.diagram.num_rooms - len(costs) + (front is None)
            return _Placement(tuple(doors), tuple(full), (missing, sum(costs.values())))
        cost, _, room, before, pair = min(ways)
        # a place clear of the doors so far and of reserved places
        taken = [*((door.start, door.end) for door in doors), *left.values()]
        spot = left.pop(pair, None) or _place(walls[pair], DOOR, entered[before], taken)
        if spot is None:
            full.append(pair)
            continue
        doors.append(Door(pair, *spot))
        costs[room], entered[room] = cost, _middle(doors[-1])


def unreached(plan: FloorPlan) -> tuple[int, ...]:
    """Rooms that no doors lead to. The walk begins at the front door, or else in the Entrance or
    LivingRoom."""
    reached = {door.rooms[0] for door in plan.doors if door.is_front} or {_root(plan)}
    inner = [door.rooms for door in plan.doors if not door.is_front]
    while more := {room for pair in inner if reached & {*pair} for room in pair} - reached:
        reached |= more
    return tuple(room for room in range(plan.diagram.num_rooms) if room not in reached)


def _rooms_of_types(plan: FloorPlan, *names: str) -> list[int]:
    """Rooms of these types, ordered by type, then by number."""
    types = plan.diagram.room_names
    return [room for name in names for room, other in enumerate(types) if other == name]


def _root(plan: FloorPlan) -> int:
    """Room in which a walk begins."""
    others = sorted(ROOM_TYPES, key=lambda name: _PASSAGE.get(name, _PRIVATE))
    return _rooms_of_types(plan, *_PUBLIC, *others)[0]


def _cost(plan: FloorPlan, before: int, room: int, suites: dict[int, int]) -> int:
    """Cost of entering a room from another: of walking through the other, and 1 for the door."""
    if room in suites:
        return 1 if suites[room] == before else _NOT_ITS_MASTER
    return 1 + _PASSAGE.get(plan.diagram.room_names[before], _PRIVATE)


def _suites(plan: FloorPlan, walls: Walls) -> dict[int, int]:
    """Bathrooms that open to one master room alone, with its number. A master room has at most
    one."""
    # a bathroom that common rooms can reach stays for all
    baths = _rooms_of_types(plan, "Bathroom")
    common = set(_rooms_of_types(plan, "Entrance", "LivingRoom", "DiningRoom"))
    for_all = {bath for bath in baths if any(bath in pair and common & {*pair} for pair in walls)}
    found: dict[int, int] = {}
    # each master room takes the bathroom inside it, or the one with the longest wall to it
    for master in _rooms_of_types(plan, "MasterRoom"):
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
    """Place the front door. None if no room that may have one has a place for it."""
    least, found = LEAST_WALL + FRONT - DOOR, []
    middle = plan.outline.centroid.coords[0]
    # the first wall that fits, or with ``near`` all walls
    for room in _rooms_of_types(plan, *_PUBLIC):
        fitting = [wall for wall in outer_walls(plan, room) if wall.length >= least - 1e-6]
        for wall in fitting:
            if spot := _place([wall], FRONT, near or middle, others, at_corner=near is None):
                door = Door((room, FRONT_DOOR), *spot)
                if near is None:
                    return door
                found.append(door)
    # with ``near``: the nearest place, kitchens last
    kitchens = _rooms_of_types(plan, "Kitchen")
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
    """Find the ends of a door in one of the walls, clear of ``taken`` places. It is at a corner if
    possible (``at_corner``), then as close to ``near`` as possible. None if it fits nowhere."""
    from shapely import LineString

    others = [LineString(spot) for spot in taken]
    spots: list[tuple[bool, float, Point, Point]] = []
    for wall in walls:
        # every place of the wall that is clear of other doors
        for start, is_corner in _starts(wall, width):
            begin, end = (_rounded(wall.point(along)) for along in (start, start + width))
            spot = LineString([begin, end])
            if all(spot.distance(other) >= APART - 1e-6 for other in others):
                away = math.dist(spot.centroid.coords[0], near)
                spots.append((at_corner and not is_corner, round(away, 6), begin, end))
    # at a corner first, then the nearest
    return min(spots)[2:] if spots else None


def _starts(wall: Wall, width: float) -> Iterator[tuple[float, bool]]:
    """Places along a wall where a door may begin, and True for those at a corner."""
    margin = min(FROM_CORNER, (wall.length - width) / 2)
    first, last = wall.low + margin, wall.high - margin - width
    yield first, True
    yield last, True
    for k in range(1, math.ceil((last - first) / _STEP)):
        yield first + k * _STEP, False


def _middle(door: Door) -> Point:
    """Middle of a door."""
    (x0, y0), (x1, y1) = door.start, door.end
    return (x0 + x1) / 2, (y0 + y1) / 2


def _rounded(point: Point) -> Point:
    """Round to micrometres."""
    return round(point[0], 6), round(point[1], 6)
