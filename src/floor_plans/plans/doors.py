"""Doors of a floor plan: positions, such that every room is reached, and swings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import TypeAlias

from discrete_diffusion.layout import ROOM_TYPES
from floor_plans.diagrams.vocabulary import NO_EDGE
from floor_plans.plans.clearing import Clearing, Kept
from floor_plans.plans.floor_plan import FRONT_DOOR, Door, FloorPlan, Point, computed_once, ordered
from floor_plans.plans.libraries import shapely
from floor_plans.plans.outline import THICKEST, Wall, outer_walls, shared_walls

DOOR, FRONT = 0.8, 1.0  # widths of an interior door and of a front door, metres
LEAST_WALL = 0.9  # metres of straight wall that a door needs; a front door needs FRONT - DOOR more
FROM_CORNER = 0.15
"""Metres between a door and the end of its wall, half an inner wall included. In a shorter wall the
door is in the middle."""
APART = 0.2  # least distance of two doors, metres

_STEP = 0.1

_PUBLIC = ("Entrance", "LivingRoom", "DiningRoom", "Kitchen")
"""Rooms that may have the front door, the preferred first."""
_PASSAGE = {"Entrance": 0, "LivingRoom": 0, "DiningRoom": 1, "Kitchen": 10} | dict.fromkeys(
    ("Bathroom", "Balcony", "Storage", "Wall-in"), 1000
)
"""Cost of walking through a room; other rooms cost ``_PRIVATE``."""
_PRIVATE, _NOT_ITS_MASTER = 100, 100_000
_MOST_DOORS, _CROWDED = 5, 150
"""Rooms next to a living room, balconies apart, above which it is crowded, and the cost of a closet
or a second bathroom that is entered from there."""

_ARC_POINTS = 17
CLOSETS = ("Storage", "Wall-in")
_SWUNG_INTO_LAST = ("MasterRoom", "Kitchen", "DiningRoom", "Entrance", "LivingRoom", *CLOSETS)
"""Rooms that doors avoid to open into, the first ones least."""
_SPECK = 0.02  # square metres of wall, or of another swing, that a swing may overlap at no cost
_ACROSS = THICKEST / 2 + 0.3  # metres that an opening reaches to both sides of a door

Pair = tuple[int, int]
Spot = tuple[Point, Point]
Walls = dict[Pair, list[Wall]]
Kinds = tuple[frozenset[str], frozenset[str]]  # room types on the two sides of a door


@dataclass(frozen=True)
class DoorRequest:
    """Doors that are asked for, between room types: a ``door`` between two rooms, none between any
    two (``no_door``), two rooms ``open`` to each other; and the least widths of doors, metres."""

    door: tuple[Kinds, ...] = ()
    no_door: tuple[Kinds, ...] = ()
    open: tuple[Kinds, ...] = ()
    width: float = DOOR
    front: float = FRONT

    def is_excluded(self, names: Sequence[str], i: int, j: int) -> bool:
        """True if no door may join the rooms i and j; ``names``: their types."""
        return any(are_between(kinds, names[i], names[j]) for kinds in self.no_door)

    def doors(self, plan: FloorPlan, walls: Walls) -> dict[Pair, Door]:
        """Doors and openings that are asked for. Of the rooms they may join they take those that
        common rooms do not reach, then those with the longest wall, all of it for an opening."""
        names, found = plan.diagram.room_names, dict[Pair, Door]()
        common = set(_rooms_of_types(plan, *_PUBLIC[:3]))
        public = {room for pair in walls for room in pair if common & {*pair}}
        for kinds in (*self.open, *self.door):
            pairs = [p for p in walls if are_between(kinds, names[p[0]], names[p[1]])]
            ranked = [
                (sum(room in public for room in pair), -wall.length, pair, wall)
                for pair in pairs
                for wall in walls[pair]
            ]
            if not ranked or any(pair in found for pair in pairs):
                continue
            *_, pair, wall = min(ranked, key=lambda each: each[:3])
            is_open, middle = kinds in self.open, plan.boxes[pair[0]].centroid.coords[0]
            width = wall.length - 2 * FROM_CORNER if is_open else 0.0
            taken = [(door.start, door.end) for door in found.values()]
            if spot := _place_in_walls([wall], max(width, self.width), middle, taken):
                found[pair] = Door(pair, *spot, is_open=is_open)
        return found


ANY_DOORS = DoorRequest()


def are_between(kinds: Kinds, one: str, other: str) -> bool:
    """True if two room types are of the kinds on the two sides, in either order."""
    first, second = kinds
    return (one in first and other in second) or (one in second and other in first)


def find_doors(
    plan: FloorPlan,
    *,
    front: Point | None = None,
    asked: DoorRequest = ANY_DOORS,
    clearing: Clearing | None = None,
    hall: int | None = None,
) -> FloorPlan:
    """Return the plan with new doors: a front door, one door for every room, and those ``asked``.

    A door joins two related rooms whose floors share 0.9 m of straight wall. Rooms are entered one
    after the other from the Entrance, or else the LivingRoom: preferably through living and dining
    rooms, then a kitchen, a bedroom or study, and last a bathroom, balcony, storage or wall-in. A
    bathroom inside or next to a master room opens to it alone, if another bathroom can open to an
    entrance, living or dining room.

    The front door leads from the first Entrance, LivingRoom, DiningRoom or Kitchen with an outer
    wall, through the first of ``outer_walls`` with space for it; with ``front``, as near to that
    point as possible, and in a kitchen only as a last resort.

    A door is near the corner that is closer to the door by which the room is entered, unless the
    door of another pair would then not fit. With a ``clearing`` it is clear of one of the
    rectangles in such a room, if possible; the one that the fewest doors need counts. A door that
    fits nowhere is left out: see ``unreached``. Rooms with a wall to the ``hall`` are entered from
    it. The same plan always gets the same doors.
    """
    least, names = LEAST_WALL + asked.width - DOOR, plan.diagram.room_names
    walls = {
        (i, j): fitting
        for i, j, code in plan.diagram.relations
        if code != NO_EDGE
        and not asked.is_excluded(names, i, j)
        and (fitting := [w for w in shared_walls(plan, i, j) if w.length >= least - 1e-6])
    }
    placements, fixed = list[_Placement](), asked.doors(plan, walls)
    for kept in [*_clearings(plan, clearing, walls), ()]:
        reserved = {pair: (door.start, door.end) for pair, door in fixed.items()}
        while True:
            placement = _place_doors(plan, walls, reserved, front, asked, fixed, kept, hall)
            placements.append(placement)
            # reserve a place for the first pair whose wall others have filled, and place all again
            wanted = next((pair for pair in placement.full if pair not in reserved), None)
            if wanted is not None:
                middle = plan.boxes[wanted[0]].centroid.coords[0]
                spot = _place_in_walls(walls[wanted], asked.width, middle, reserved.values(), kept)
            if wanted is None or spot is None:
                break
            reserved[wanted] = spot
        best = min(placements, key=lambda each: each.cost)
        if best.cost[:2] == (0, 0):
            break
    return replace(plan, doors=best.doors)


def _clearings(plan: FloorPlan, clearing: Clearing | None, walls: Walls) -> list[tuple[Kept]]:
    """Rectangles of the first room of the type of ``clearing``, the most promising first."""
    if clearing is None or not (rooms := _rooms_of_types(plan, clearing.room)):
        return []
    groups = [each for pair, each in walls.items() if rooms[0] in pair]
    groups += [outer_walls(plan, rooms[0])] if rooms[0] == _first_room(plan) else []
    return [*zip(clearing.rectangles(plan.rooms[rooms[0]], groups, LEAST_WALL, FROM_CORNER))]


@dataclass(frozen=True)
class _Placement:
    """Placed doors. ``full``: pairs of rooms whose walls have no space left for a door. ``cost``:
    number of unreached rooms, of doors in front of the kept rectangle, and total cost of entering
    the others, compared in that order."""

    doors: tuple[Door, ...]
    full: tuple[Pair, ...]
    cost: tuple[int, int, int]


def _place_doors(
    plan: FloorPlan,
    walls: Walls,
    reserved: dict[Pair, Spot],
    near: Point | None,
    asked: DoorRequest,
    fixed: dict[Pair, Door],
    kept: Sequence[Kept],
    hall: int | None,
) -> _Placement:
    """Place doors one by one, the cheapest first; ``reserved``: fixed positions of some doors;
    ``fixed``: the doors that are asked for; ``kept``: space that doors leave free if possible."""
    # the walk begins at the front door
    left, root = dict(reserved), _first_room(plan)
    front = _place_front_door(plan, left.values(), near, asked.front, kept)
    doors, suites = ([front] if front else []), _private_baths(plan, walls, fixed)
    # the front door needs space for its leaf
    leaves = [wall_space(each.start, each.end, asked.front).bounds for each in doors]
    clear = [*kept, *(Kept(leaf, _ACROSS) for leaf in leaves)]
    entered = {root: front.middle if front else plan.boxes[root].centroid.coords[0]}
    costs, full = {root: 0}, list[Pair]()
    longest = {pair: max(wall.length for wall in each) for pair, each in walls.items()}

    names = plan.diagram.room_names
    inner = [pair for pair in walls if root in pair and "Balcony" not in {names[k] for k in pair}]
    is_crowded = names[root] == "LivingRoom" and len(inner) > _MOST_DOORS
    baths = [room for room in _rooms_of_types(plan, "Bathroom") if room not in suites]
    spared = [*_rooms_of_types(plan, *CLOSETS), *baths[:-1]]

    def cost_of(before: int, room: int) -> int:
        # of walking through the room before, and 1 for the door
        if is_crowded and before == root and room in spared:
            return _CROWDED
        if room in suites:
            return 1 if suites[room] == before else _NOT_ITS_MASTER
        beside = hall is not None and hall not in (before, room) and ordered(hall, room) in walls
        return 1 + 2 * beside + _PASSAGE.get(names[before], _PRIVATE)

    # enter the next room by the cheapest door, as in Dijkstra's algorithm
    while True:
        ways = [
            (costs[a] + cost_of(a, b), -longest[pair], b, a, pair)
            for pair in walls
            for a, b in (pair, pair[::-1])
            if a in costs and b not in costs and pair not in full
        ]
        if not ways:
            missing = plan.diagram.num_rooms - len(costs) + (front is None)
            doors += [door for pair, door in fixed.items() if pair in left]
            blocking = len(walls) + 1
            for each in kept:
                blocking = sum(each.is_blocked(d.start, d.end) for d in doors if not d.is_open)
            ranks = (missing, blocking, sum(costs.values()))
            return _Placement(tuple(doors), tuple(full), ranks)
        cost, _, room, before, pair = min(ways)
        # a place clear of the doors so far and of reserved places
        taken = [*((door.start, door.end) for door in doors), *left.values()]
        spot = left.pop(pair, None) or _place_in_walls(
            walls[pair], asked.width, entered[before], taken, clear
        )
        if spot is None:
            full.append(pair)
            continue
        doors.append(fixed.get(pair) or Door(pair, *spot))
        costs[room], entered[room] = cost, doors[-1].middle


def unreached(plan: FloorPlan) -> tuple[int, ...]:
    """Rooms that cannot be reached through doors from the front door, or else from the Entrance or
    LivingRoom."""
    reached = {door.rooms[0] for door in plan.doors if door.is_front} or {_first_room(plan)}
    inner = [door.rooms for door in plan.doors if not door.is_front]
    while more := {room for pair in inner if reached & {*pair} for room in pair} - reached:
        reached |= more
    return tuple(room for room in range(plan.diagram.num_rooms) if room not in reached)


def front_door_problem(place: Point, boundary: Sequence[Point]) -> str:
    """Message if ``place`` is further from the boundary than a front door is wide; empty if a
    front door can be there."""
    away = shapely.LinearRing(boundary).distance(shapely.Point(place))
    if away <= FRONT:
        return ""
    return f"{away:,.1f} m from the boundary; expected a place [x, y] on it, in metres"


def _rooms_of_types(plan: FloorPlan, *names: str) -> list[int]:
    """Rooms of the types ``names``, in the order of ``names``, then by number."""
    types = plan.diagram.room_names
    return [room for name in names for room, other in enumerate(types) if other == name]


def _first_room(plan: FloorPlan) -> int:
    """Room in which a walk through the plan begins, a public room if possible."""
    others = sorted(ROOM_TYPES, key=lambda name: _PASSAGE.get(name, _PRIVATE))
    return _rooms_of_types(plan, *_PUBLIC, *others)[0]


def _private_baths(plan: FloorPlan, walls: Walls, asked: Iterable[Pair] = ()) -> dict[int, int]:
    """Master room of each bathroom that opens to it alone, at most one for each master room; a
    bathroom with a door ``asked`` to another room opens to that room, if it is not the only one."""
    # a bathroom that common rooms can reach stays for all
    baths, common = _rooms_of_types(plan, "Bathroom"), set(_rooms_of_types(plan, *_PUBLIC[:3]))
    for_all = {bath for bath in baths if any(bath in pair and common & {*pair} for pair in walls)}
    private = [(i, j) if i in baths else (j, i) for i, j in asked if {i, j} & set(baths)]
    found = dict(private[: len(baths) - 1])
    # each master room takes the bathroom inside it, or the one with the longest wall to it
    for master in _rooms_of_types(plan, "MasterRoom"):
        ways: list[tuple[bool, float, int]] = []
        for bath in baths:
            pair = (min(bath, master), max(bath, master))
            if pair not in walls or bath in found or master in found.values():
                continue
            is_inside = plan.boxes[master].covers(plan.boxes[bath])
            if for_all - {bath, *found}:
                ways.append((not is_inside, -max(wall.length for wall in walls[pair]), bath))
        if ways:
            found[min(ways)[-1]] = master
    return found


def _place_front_door(
    plan: FloorPlan, others: Iterable[Spot], near: Point | None, width: float, kept: Sequence[Kept]
) -> Door | None:
    """Place the front door. None if none of the allowed rooms has space for it."""
    least, found = LEAST_WALL + width - DOOR, []
    middle, kitchens = plan.outline.centroid.coords[0], _rooms_of_types(plan, "Kitchen")
    # the first wall that fits, or with ``near`` all walls
    for room in _rooms_of_types(plan, *_PUBLIC):
        fitting = [wall for wall in outer_walls(plan, room) if wall.length >= least - 1e-6]
        for wall in fitting:
            if spot := _place_in_walls(
                [wall], width, near or middle, others, () if near else kept, at_corner=near is None
            ):
                door = Door((room, FRONT_DOOR), *spot)
                away = 0.0 if near is None else round(math.dist(door.middle, near), 6)
                blocks = any(each.is_blocked(*spot) for each in kept)
                if near is None and not blocks:
                    return door
                found.append((room in kitchens, away, blocks, door))
        if near is None and found:
            break
    # the nearest place, kitchens last
    return min(found, key=lambda each: each[:3])[-1] if found else None


def _place_in_walls(
    walls: Iterable[Wall],
    width: float,
    near: Point,
    taken: Iterable[Spot],
    clear: Sequence[Kept] = (),
    *,
    at_corner: bool = True,
) -> Spot | None:
    """Find the ends of a door in one of the walls, clear of ``taken`` places; None if none fits.

    Preferred are places off the first of ``clear``, then off the others, then at a corner
    (``at_corner``), then near ``near``."""
    others = [shapely.LineString(spot) for spot in taken]
    spots: list[tuple[list[bool], bool, float, Point, Point]] = []
    for wall in walls:
        # places of the wall, those at its two corners first, that are clear of other doors
        margin = min(FROM_CORNER, (wall.length - width) / 2)
        first, last = wall.low + margin, wall.high - margin - width
        steps = range(1, math.ceil((last - first) / _STEP))
        for k, start in enumerate([first, last, *(first + step * _STEP for step in steps)]):
            ends = [wall.point(along) for along in (start, start + width)]
            begin, end = ((round(x, 6), round(y, 6)) for x, y in ends)
            spot = shapely.LineString([begin, end])
            if all(spot.distance(other) >= APART - 1e-6 for other in others):
                away = math.dist(spot.centroid.coords[0], near)
                blocks = [each.is_blocked(begin, end) for each in clear]
                spots.append((blocks, at_corner and k > 1, round(away, 6), begin, end))
    # the best of them
    return min(spots)[3:] if spots else None


Cost: TypeAlias = tuple[float, ...]
"""Cost of a swing: square metres of walls and other swings it sweeps, and of the space in front of
other doors, rank of its room, metres from its hinge to a corner."""

Way: TypeAlias = tuple[Cost, "Swing"]


@dataclass(frozen=True)
class Swing:
    """Door that opens into ``room``. ``leaf``: line from the hinge to the end of the open leaf;
    ``arc``: curve from there to the end of the shut leaf."""

    door: Door
    room: int
    leaf: tuple[Point, Point]
    arc: tuple[Point, ...]

    @computed_once
    def sector(self) -> shapely.Polygon:
        """Sector of the floor that the door sweeps."""
        return shapely.Polygon([self.leaf[0], *self.arc])

    @property
    def is_left(self) -> bool:
        """True if the hinge is on the left for someone who walks through into the room."""
        return bool(self.sector.exterior.is_ccw)

    def swept_outside(self, plan: FloorPlan) -> float:
        """Area swept outside its room and its own wall, in square metres."""
        wall = wall_space(self.door.start, self.door.end, THICKEST / 2)
        allowed = plan.rooms[self.room].union(wall)
        return _area_or_zero(self.sector.difference(allowed))

    def swept_with(self, other: Swing) -> float:
        """Area that both doors sweep, in square metres."""
        return _area_or_zero(self.sector.intersection(other.sector))


def door_space(door: Door) -> shapely.Polygon:
    """Opening of a door through the full thickness of its wall."""
    return wall_space(door.start, door.end, max(_ACROSS, door.thickness))


def wall_space(start: Point, end: Point, across: float = _ACROSS) -> shapely.Polygon:
    """Opening from ``start`` to ``end``, ``across`` metres to both sides."""
    return shapely.LineString([start, end]).buffer(across, cap_style="flat")


def is_sliding(plan: FloorPlan, door: Door) -> bool:
    """Return True for a door to a balcony, which opens into no room."""
    names = plan.diagram.room_names
    return not door.is_open and any(
        room != FRONT_DOOR and names[room] == "Balcony" for room in door.rooms
    )


def hang_doors(plan: FloorPlan) -> list[Swing]:
    """Choose a swing for each door that does not slide, in their order, with minimum total cost:
    area swept of walls and by two doors, then in front of other doors, then doors into public rooms
    rather than private ones, then distances of hinges from corners. If two swings collide, no
    choice is free of collisions."""
    import networkx

    # doors of different groups cannot meet, so each group is solved alone
    turning = [door for door in plan.doors if door.start != door.end and not door.is_open]
    doors = [door for door in turning if not is_sliding(plan, door)]
    ways = [list(_possible_swings(plan, door)) for door in doors]
    found: dict[int, Swing] = {}
    reach = [shapely.union_all([swing.sector for _, swing in each]) for each in ways]
    meeting = networkx.Graph()
    meeting.add_nodes_from(range(len(doors)))
    pairs = combinations(range(len(doors)), 2)
    meeting.add_edges_from((i, j) for i, j in pairs if reach[i].intersects(reach[j]))
    for group in map(sorted, networkx.connected_components(meeting)):
        found |= zip(group, _least_costly_swings([ways[k] for k in group]), strict=True)
    return [found[k] for k in range(len(doors))]


def _possible_swings(plan: FloorPlan, door: Door) -> Iterator[Way]:
    """Swings of a door into each of its rooms, with the hinge at either end, and their costs."""
    for room, swap in product(door.rooms, (False, True)):
        if room == FRONT_DOOR:
            continue
        # the leaf opens to the side that has more of the room
        floor = plan.rooms[room]
        swing = max(
            (_swing_of_door(door, room, swap, side) for side in (1, -1)),
            key=lambda swing: floor.intersection(swing.sector).area,
        )
        # a hinge belongs in a corner
        parts = [part for part in shapely.get_parts(floor) if not part.is_empty]
        corners = [shapely.Point(corner) for part in parts for corner in part.exterior.coords]
        hinge = shapely.Point(swing.leaf[0])
        near = min((hinge.distance(c) for c in corners), default=math.dist(*swing.leaf))
        name = plan.diagram.room_names[room]
        rank = _SWUNG_INTO_LAST.index(name) + 1 if name in _SWUNG_INTO_LAST else 0
        # a leaf in front of another door
        others = [door_space(other) for other in plan.doors if other != door]
        before = sum(_area_or_zero(swing.sector.intersection(space)) for space in others)
        yield (swing.swept_outside(plan), round(before, 3), rank, round(near, 3)), swing


def _least_costly_swings(ways: Sequence[Sequence[Way]]) -> list[Swing]:
    """Choose a swing for each door with the minimum total cost, by branch and bound."""
    best: tuple[Cost, list[Swing]] = ((math.inf,), [])

    def extend(cost: Cost, chosen: list[Swing]) -> None:
        nonlocal best
        # bound: this choice cannot beat the incumbent
        if cost >= best[0]:
            return
        if len(chosen) == len(ways):
            best = cost, chosen
            return
        # branch: each swing of the next door
        for own, swing in ways[len(chosen)]:
            shared = sum(swing.swept_with(other) for other in chosen)
            swept, *more = (round(a + b, 3) for a, b in zip(cost, own, strict=True))
            extend((round(swept + shared, 3), *more), [*chosen, swing])

    extend((0.0,) * 4, [])
    return best[1]


def _area_or_zero(area: shapely.Geometry) -> float:
    """Area of a shape; 0 if it is negligible."""
    return float(area.area) if area.area > _SPECK else 0.0


def _swing_of_door(door: Door, room: int, swap: bool, side: int) -> Swing:
    """Swing of a door. ``swap``: True if the hinge is at its ``end``; ``side``: 1 or -1, the side
    it opens to."""
    (x0, y0), (x1, y1) = (door.end, door.start) if swap else (door.start, door.end)
    dx, dy = x1 - x0, y1 - y0
    # direction of the open leaf, then a quarter circle to the closed one
    ux, uy = -dy * side, dx * side
    arc = []
    for k in range(_ARC_POINTS):
        angle = math.pi / 2 * k / (_ARC_POINTS - 1)
        cos, sin = math.cos(angle), math.sin(angle)
        arc.append((x0 + cos * ux + sin * dx, y0 + cos * uy + sin * dy))
    return Swing(door, room, ((x0, y0), arc[0]), tuple(arc))
