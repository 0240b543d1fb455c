"""Checks of floor plans by rules: circulation, sizes and walls of rooms, and the envelope.

Each check takes a plan and the parameters of its rule, and returns ``Findings``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from itertools import combinations
from typing import Any

from floor_plans.diagrams.vocabulary import NO_EDGE
from floor_plans.plans.doors import hang_doors
from floor_plans.plans.floor_plan import Door, FloorPlan
from floor_plans.plans.libraries import shapely
from floor_plans.plans.outline import fill_gaps
from floor_plans.rules import finding
from floor_plans.rules.finding import TOLERANCE, Finding, Findings, Parameters, name_of, rooms_of

OUTSIDE = "outside"  # kind of space behind a front door, in addition to the kinds of rooms
_SAME = 1e-9  # difference in square metres up to which rooms count as equally large
_STRAIGHT = 0.05  # metres that a corner of the outline may be off a straight line without counting
_APART = 0.6  # metres between rooms of different pieces; related rooms are closer
_OUTSIDE = 0.1  # square metres of a room that may lie outside a given outline


def check_front_door(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that a door leads from outside into a room of the kinds ``rooms``."""
    entered = _entered(plan)
    if entered & set(rooms_of(plan, parameters["rooms"])):
        return ()
    found = "no door leads outside"
    if entered:
        found = f"the front door leads into {finding.names_of(plan, sorted(entered))} alone"
    change = f"put one into an outer wall of {' or '.join(parameters['rooms'])}"
    return (Finding(tuple(sorted(entered)), found, change),)


def check_access(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that every room of the kinds ``reached`` is reached from a front door through the kinds
    ``through`` alone."""
    through, wanted = parameters["through"], rooms_of(plan, parameters["reached"])
    reached = _reached(plan, through)
    missed = tuple(_unreached(plan, k, reached, through) for k in wanted if k not in reached)
    return missed if wanted else None


def check_bath_access(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that a room of the kinds ``rooms`` is reached from a front door through the kinds
    ``through`` alone. Further rooms of these kinds may be behind a bedroom."""
    through, baths = parameters["through"], rooms_of(plan, parameters["rooms"])
    if not baths:
        return None
    reached = _reached(plan, through)
    return () if reached & set(baths) else (_unreached(plan, baths[0], reached, through),)


def check_door_widths(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that every door is wide enough for the rooms on its two sides. ``least``: clear width
    by kind of room; the smaller of the two counts."""
    if not plan.doors:
        return None
    kinds, least, found = finding.kinds_of(plan), parameters["least"], []
    for door in plan.doors:
        sides = [OUTSIDE] if door.is_front else [kinds[room] for room in door.rooms]
        needed = min(least.get(side, 0.0) for side in sides)
        width = math.dist(door.start, door.end)
        if width < needed - TOLERANCE:
            name = finding.name_of_door(plan, door)
            what = f"{name} is {width:.2f} m wide, at least {needed:.2f} m"
            change = f"make it {needed - width:.2f} m wider"
            found.append(Finding(finding.rooms_of_door(door), what, change))
    return tuple(found)


def check_door_swings(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that doors can be hung without collisions: none sweeps more than ``overlap`` square
    metres of a wall or another swing. Doors to balconies slide. The choice of swings is optimal,
    see ``hang_doors``."""
    hung = hang_doors(plan)
    if not hung:
        return None
    most, found = parameters["overlap"], []
    for k, swing in enumerate(hung):
        rooms, name = finding.rooms_of_door(swing.door), finding.name_of_door(plan, swing.door)
        if (blocked := swing.swept_outside(plan)) > most:
            what = f"{name} has no way to turn: {blocked:.2f} m2 of wall are in the way at best"
            found.append(Finding(rooms, what, "move it along its wall, or make it slide"))
        for other in hung[:k]:
            if (shared := swing.swept_with(other)) > most:
                another = finding.name_of_door(plan, other.door)
                what = f"{name} and {another} collide on {shared:.2f} m2"
                both = tuple(dict.fromkeys((*finding.rooms_of_door(other.door), *rooms)))
                found.append(Finding(both, what, "move one along its wall, or make it slide"))
    return tuple(found)


def _entered(plan: FloorPlan) -> set[int]:
    """Rooms with a front door."""
    return {door.rooms[0] for door in plan.doors if door.is_front}


def _reached(plan: FloorPlan, through: Collection[str]) -> set[int]:
    """Rooms reached from a front door in a common room, through rooms of the kinds ``through``."""
    common, reached = set(rooms_of(plan, through)), _entered(plan)
    if not reached & common:
        return set()
    # doors of the common rooms reached so far lead to further rooms
    inner = [{*door.rooms} for door in plan.doors if not door.is_front]
    while new := set().union(*(rooms for rooms in inner if rooms & reached & common)) - reached:
        reached |= new
    return reached


def _unreached(plan: FloorPlan, room: int, reached: set[int], through: Collection[str]) -> Finding:
    """Finding for a room that is not reached; it suggests a door to the nearest common room."""
    found = f"{name_of(plan, room)} is not reached from the front door through common rooms"
    common = [other for other in rooms_of(plan, through) if other in reached]
    if not common:
        return Finding((room,), found, "give a common room the front door first")
    gaps = {other: plan.rooms[room].distance(plan.rooms[other]) for other in common}
    nearest = min(gaps, key=gaps.__getitem__)
    change = f"put a door between it and {name_of(plan, nearest)}"
    if gaps[nearest] > TOLERANCE:
        change += f", {gaps[nearest]:.2f} m away, or a hall"
    return Finding((room,), found, change)


def check_apart(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that no two rooms share more than ``overlap`` square metres. The boxes of rooms may
    overlap, as the smaller room is cut out of the larger, see ``FloorPlan.rooms``. Rooms share
    floor if their boxes have the same size, or if both are drawn as polygons of which neither
    contains the other."""
    if plan.diagram.num_rooms < 2:
        return None
    drawn = plan.floors or (None,) * len(plan.boxes)
    shapes, found = plan.shapes, []
    for i, j in combinations(range(len(shapes)), 2):
        one, other = shapes[i], shapes[j]
        # the smaller room is cut out of the larger, except for these cases
        are_drawn = drawn[i] is not None and drawn[j] is not None
        is_nested = one.covers(other) or other.covers(one)
        is_cut = abs(one.area - other.area) > _SAME and (is_nested or not are_drawn)
        shared = float(one.intersection(other).area)
        if shared > parameters["overlap"] and not is_cut:
            what = f"{finding.names_of(plan, (i, j))} share {shared:.2f} m2"
            found.append(Finding((i, j), what, "move them apart"))
    return tuple(found)


def check_shared_walls(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that related rooms are at most a ``wall`` apart, and doors lie on the walls of their
    rooms. The first holds for rooms that face each other along ``facing`` metres or more, the
    second for the share ``on_wall`` of a door."""
    related = [(i, j) for i, j, code in plan.diagram.relations if code != NO_EDGE]
    if not related and not plan.doors:
        return None
    found = []
    # space between related rooms whose boxes face each other; diagonal rooms may be apart
    for i, j in related:
        one, other = plan.rooms[i], plan.rooms[j]
        if one.is_empty or other.is_empty:
            continue
        (ax0, ay0, ax1, ay1), (bx0, by0, bx1, by1) = one.bounds, other.bounds
        along = max(min(ax1, bx1) - max(ax0, bx0), min(ay1, by1) - max(ay0, by0))
        gap = float(one.distance(other)) if along >= parameters["facing"] - TOLERANCE else 0.0
        if gap > parameters["wall"] + TOLERANCE:
            what = f"{gap:.2f} m of nothing between {finding.names_of(plan, (i, j))}"
            change = f"move them together, or enlarge one, to {parameters['wall']:.2f} m or less"
            found.append(Finding((i, j), what, change))
    for door in plan.doors:
        rooms = finding.rooms_of_door(door)
        if not all(lies_on_wall(door, plan.rooms[room], parameters) for room in rooms):
            what = f"{finding.name_of_door(plan, door)} is off their walls"
            found.append(Finding(rooms, what, "move it into a wall, or the rooms to it"))
    return tuple(found)


def lies_on_wall(door: Door, floor: shapely.Geometry, parameters: Parameters) -> bool:
    """Return True if enough of a door lies on the walls of a floor."""
    line = shapely.LineString([door.start, door.end])
    if not line.length:
        return True  # another rule judges its width
    near = floor.boundary.buffer(parameters["wall"] / 2 + TOLERANCE)
    return bool(line.intersection(near).length >= parameters["on_wall"] * line.length)


def check_widths(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that the shorter side of the box around every floor is at least the ``least`` of its
    kind, in metres."""
    bounds = [(0.0,) * 4 if floor.is_empty else floor.bounds for floor in plan.rooms]
    widths = [float(min(x1 - x0, y1 - y0)) for x0, y0, x1, y1 in bounds]
    return _too_small(plan, widths, parameters, ("is {} m wide", "m", "wider"))


def check_areas(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that the floor of every room has at least the ``least`` area of its kind, in square
    metres."""
    return _too_small(plan, list(plan.areas), parameters, ("has {} m2", "m2", "larger"))


def _too_small(
    plan: FloorPlan, sizes: list[float], parameters: Parameters, words: tuple[str, str, str]
) -> Findings:
    """Findings for sizes below their limits. ``words``: state, unit and remedy."""
    (has, unit, larger), least = words, parameters["least"]
    ruled, found = finding.limits_of(plan, least), []
    for k, _, limit in ruled:
        if sizes[k] < limit - TOLERANCE:
            is_now = has.format(f"{sizes[k]:.2f}")
            what = f"{name_of(plan, k)} {is_now}, at least {limit:.2f} {unit}"
            found.append(Finding((k,), what, f"make it {limit - sizes[k]:.2f} {unit} {larger}"))
    return tuple(found) if ruled else None


def check_facade(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that every room of the kinds ``rooms`` has ``length`` metres of facade; walls to rooms
    of the kinds ``to``, if given, count, as does an opening into another room, and slits up to
    twice ``sliver`` wide are not outside."""
    least, rooms = parameters["length"], rooms_of(plan, parameters["rooms"])
    if not rooms:
        return None
    also, sliver = rooms_of(plan, parameters.get("to", ())), parameters.get("sliver", 0.0)
    if "to" in parameters:
        opened = {room for door in plan.doors if door.is_open for room in door.rooms}
        rooms = [room for room in rooms if room not in opened]
    found = []
    for k, length in facade_lengths(plan, rooms, parameters["wall"], also, sliver).items():
        if length < least - TOLERANCE:
            what = f"{name_of(plan, k)} has {length:.2f} m of outer wall, at least {least:.2f} m"
            change = f"bring {least - length:.2f} m more of it to the outside"
            found.append(Finding((k,), what, change))
    return tuple(found)


def check_window(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that every room of the kinds ``rooms`` has facade for a window as large as a ``share``
    of its floor. The window is ``height`` metres high. The condition is necessary, not sufficient:
    plans have no windows, and a window may be lower."""
    rooms, height = rooms_of(plan, parameters["rooms"]), parameters["height"]
    if not rooms:
        return None
    found = []
    for k, length in facade_lengths(plan, rooms, parameters["wall"]).items():
        # the window as wide as the facade, and of the given height
        needed = parameters["share"] * plan.areas[k]
        if length * height < needed - TOLERANCE:
            what = (
                f"{name_of(plan, k)} has outer wall for {length * height:.2f} m2 of window, "
                f"{parameters['share']:.0%} of its floor are {needed:.2f} m2"
            )
            change = f"bring {needed / height - length:.2f} m more of it to the outside"
            found.append(Finding((k,), what, change))
    return tuple(found)


def check_compact(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that rooms without a given outline form one piece with a short outline. The outline has
    at most ``corners`` corners, and ``perimeter`` times the length of the outline of a square of
    the same area. Rooms as close to each other as related rooms form one piece. Slits and steps up
    to twice ``sliver`` metres wide are filled first."""
    if plan.boundary is not None:
        return None
    built, found = built_area(plan, parameters["wall"]), []
    shape = max(filled_parts(built, parameters["sliver"]), key=lambda part: part.area)
    # pieces, where each room already has half a wall around it
    pieces = len(filled_parts(built, max(_APART - parameters["wall"], 0) / 2))
    if pieces > 1:
        what = f"the rooms lie in {pieces} pieces"
        found.append(Finding((), what, "move them together"))
    # corners of the largest piece; normalising starts the ring at a true corner
    ring = shapely.Polygon(shape.exterior).normalize().simplify(_STRAIGHT).exterior
    corners = len(ring.coords) - 1
    if corners > parameters["corners"]:
        what = f"the outline has {corners} corners, at most {parameters['corners']:g}"
        found.append(Finding((), what, "bring outer walls into line"))
    # length of its outline
    longer = shape.exterior.length / (4 * math.sqrt(shape.area))
    if longer > parameters["perimeter"]:
        what = (
            f"the outline is {longer:.2f} times as long as that of a square, at most "
            f"{parameters['perimeter']:.2f}"
        )
        found.append(Finding((), what, "fill recesses, or make the plan less long"))
    return tuple(found)


def check_fill(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that rooms lie in a given outline and fill a ``share`` of it with their walls. Half
    a wall outside counts as inside, and less than 0.1 m2 of a room is ignored."""
    if plan.boundary is None:
        return None
    plot, found = plan.outline, []
    around = plot.buffer(parameters["wall"] / 2, join_style="mitre")
    outside = {k: float(floor.difference(around).area) for k, floor in enumerate(plan.rooms)}
    if off := tuple(k for k, area in outside.items() if area > _OUTSIDE):
        named = ", ".join(f"{outside[k]:.1f} m2 of {name_of(plan, k)}" for k in off)
        found.append(Finding(off, f"{named} lie outside of the outline", "move them into it"))
    share, least = filled_share(plan, parameters["wall"]), parameters["share"]
    if share < least:
        what = f"rooms fill {share:.1%} of the outline, at least {least:.0%}"
        remedy = f"make rooms {(least - share) * plot.area:.1f} m2 larger together"
        found.append(Finding((), what, remedy))
    return tuple(found)


def filled_share(plan: FloorPlan, wall: float) -> float:
    """Share of the outline covered by floors, with half a wall around each floor."""
    return float(built_area(plan, wall).intersection(plan.outline).area / plan.outline.area)


def facade_lengths(
    plan: FloorPlan, rooms: Iterable[int], wall: float, also: Iterable[int] = (), sliver: float = 0
) -> dict[int, float]:
    """Metres of facade of these rooms, for walls up to ``wall`` metres thick; walls to rooms of
    ``also`` count. A gap enclosed by rooms, or up to twice ``sliver`` wide, is not outside."""
    # pieces of the border near the outermost rings
    outside = [part.exterior for part in filled_parts(built_area(plan, wall), sliver)]
    near = shapely.union_all([*outside, *(plan.rooms[k].boundary for k in also)])
    near = near.buffer(wall / 2 + TOLERANCE)
    return {k: float(plan.rooms[k].boundary.intersection(near).length) for k in rooms}


def built_area(plan: FloorPlan, wall: float) -> Any:
    """Union of all floors with half a wall around each."""
    return shapely.union_all([floor.buffer(wall / 2, join_style="mitre") for floor in plan.rooms])


def filled_parts(shape: Any, by: float) -> list[Any]:
    """Parts of a shape after gaps up to twice ``by`` metres wide are filled."""
    shape = fill_gaps(shape, by) if by else shape
    return list(getattr(shape, "geoms", [shape]))
