"""Checks of whether rooms could be furnished: free rectangles, shapes, and doors in the way.

They measure clear floors, without walls, and are necessary conditions: a plan that satisfies them
may still be hard to furnish. Free rectangles lie along the sides of a floor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.libraries import shapely
from floor_plans.rules import finding
from floor_plans.rules.checks import built_area, filled_parts
from floor_plans.rules.finding import TOLERANCE, Finding, Findings, Parameters, limits_of, name_of

_NEARLY = 0.8  # share of the largest inner rectangle from which on another one counts as well
_BESIDE, _TAKEN = 1.2, 0.1
"""Metres around an inner room that strips are searched in, and the share of the floor that they may
take."""
_TOUCHING = 0.16  # metres up to which two rooms touch
_BALCONY = "Balcony"


def _clear_floor(plan: FloorPlan, room: int, parameters: Parameters) -> shapely.Geometry:
    """Largest part of a floor, without half a ``wall`` on every side."""
    floor = plan.rooms[room].buffer(-parameters["wall"] / 2, join_style="mitre")
    return max(shapely.get_parts(floor), key=lambda part: part.area)


def inner_rectangles(floor: shapely.Geometry) -> NDArray[np.float64]:
    """Width and height of the rectangles in a floor between lines through its corners, Float[K, 2];
    none of another floor with sides parallel to the axes is larger than all of them."""
    corners = np.round(shapely.get_coordinates(floor), 3)
    x, y = np.unique(corners[:, 0]), np.unique(corners[:, 1])
    if min(len(x), len(y)) < 2:
        return np.zeros((0, 2))
    # cells outside the floor, summed up to every corner of the grid
    cells = shapely.box(x[:-1], y[:-1, None], x[1:], y[1:, None])
    outside = ~shapely.contains(floor.buffer(TOLERANCE, join_style="mitre"), cells)
    total = np.pad(outside.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    # every rectangle of cells, of which none is outside
    (i, u), (j, v) = np.triu_indices(len(x), 1), np.triu_indices(len(y), 1)
    j, v = j[:, None], v[:, None]
    found = total[v, u] - total[j, u] - total[v, i] + total[j, i] == 0
    return np.stack(
        [np.broadcast_to(x[u] - x[i], found.shape)[found], (y[v] - y[j] + 0 * x[u])[found]], 1
    )


def check_furniture(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that the clear floor of a room holds a rectangle of one of the sizes ``least`` of its
    kind. The space ``in_front`` of the doors does not count, for kinds that have such a depth;
    openings take none."""
    ruled, found = limits_of(plan, parameters["least"]), []
    for k, kind, sizes in ruled:
        floor, deep = _clear_floor(plan, k, parameters), parameters["in_front"].get(kind, 0.0)
        doors = [d for d in plan.doors if deep and k in d.rooms and not d.is_open]
        lines = [shapely.LineString([door.start, door.end]) for door in doors]
        kept_clear = shapely.union_all([line.buffer(deep, cap_style="flat") for line in lines])
        floor = floor.difference(kept_clear)
        # a rectangle turned either way
        sides = np.sort(inner_rectangles(floor), axis=1) + TOLERANCE
        if not any((sides >= sorted(size)).all(1).any() for size in sizes):
            text = " or ".join("{:g} x {:g} m".format(*size) for size in sizes)
            clear, remedy = (" clear of its doors", ", or move a door") if deep else ("", "")
            what = f"{name_of(plan, k)} holds no rectangle of {text}{clear}"
            found.append(Finding((k,), what, "make it wider" + remedy))
    return tuple(found) if ruled else None


def check_shapes(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that rooms are at most ``most`` times as long as wide, by kind, and at most the share
    ``share`` of them lies in parts narrower than ``narrow`` metres. Of the inner rectangles that
    are nearly the largest the one with the best ratio counts."""
    ruled, found = limits_of(plan, parameters["most"]), []
    for k, kind, most in ruled:
        floor, narrow = _clear_floor(plan, k, parameters), parameters["narrow"].get(kind, 0.0)
        sides = np.sort(inner_rectangles(floor), axis=1)
        large = sides[sides.prod(1) >= _NEARLY * sides.prod(1).max(initial=0)]
        ratio = float((large[:, 1] / large[:, 0].clip(TOLERANCE)).min(initial=np.inf))
        if ratio > most + TOLERANCE:
            what = f"{name_of(plan, k)} is {ratio:.1f} times as long as wide, at most {most:g}"
            found.append(Finding((k,), what, "make it wider"))
        share = narrow_part(floor, narrow).area / floor.area
        if share > parameters["share"]:
            what = f"{share:.0%} of {name_of(plan, k)} are narrower than {narrow:g} m"
            found.append(Finding((k,), what, "move rooms in it to its walls"))
    return tuple(found) if ruled else None


def narrow_part(floor: shapely.Geometry, width: float) -> Any:
    """Parts of a floor that are narrower than ``width``."""
    half = max(width / 2 - TOLERANCE / 2, 0.0)
    wide = floor.buffer(-half, join_style="mitre").buffer(half, join_style="mitre")
    return floor.difference(wide)


def check_largest(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that clear floors have at most ``most`` square metres, by kind of room."""
    ruled, found = limits_of(plan, parameters["most"]), []
    for k, _, most in ruled:
        if (area := _clear_floor(plan, k, parameters).area) > most + TOLERANCE:
            what = f"{name_of(plan, k)} has {area:.1f} m2, at most {most:g} m2"
            found.append(Finding((k,), what, "make it smaller"))
    return tuple(found) if ruled else None


def check_entry(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that the front door of a plan of ``num_rooms`` or more opens into a hall. A hall is a
    room of the kinds ``rooms``, or a living room with at most ``doors`` other doors. Doors to
    balconies and openings do not count."""
    fronts = [door.rooms[0] for door in plan.doors if door.is_front]
    if len(plan.rooms) < parameters["num_rooms"] or not fronts:
        return None
    kinds, most, found = finding.kinds_of(plan), parameters["doors"], []
    for k in fronts:
        inner = [d for d in plan.doors if k in d.rooms and not d.is_front and not d.is_open]
        num = sum(_BALCONY not in [kinds[room] for room in door.rooms] for door in inner)
        if kinds[k] in parameters["rooms"] or (kinds[k] == "LivingRoom" and num <= most):
            return ()
        what = f"the front door opens into {name_of(plan, k)}, which has {num} more doors"
        found.append(Finding((k,), what, f"add a hall, or leave it {most:g} at most"))
    return tuple(found)


def check_islands(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that no room of the kinds ``rooms`` stands as an island in one of the kinds ``around``:
    with the share ``touched`` of its walls to that room, in strips narrower than ``narrow``."""
    rooms, around = (finding.rooms_of(plan, parameters[name]) for name in ("rooms", "around"))
    if not rooms:
        return None
    found = []
    for j in around:
        other, floor = plan.rooms[j].buffer(_TOUCHING), _clear_floor(plan, j, parameters)
        strips = None
        for k in rooms:
            walls = plan.rooms[k].boundary
            if k == j or walls.intersection(other).length < parameters["touched"] * walls.length:
                continue
            strips = narrow_part(floor, parameters["narrow"]) if strips is None else strips
            beside = strips.intersection(plan.rooms[k].buffer(_BESIDE, join_style="mitre"))
            if beside.area > _TAKEN * floor.area:
                what = f"{name_of(plan, k)} stands in {name_of(plan, j)} with narrow strips around"
                found.append(Finding((k, j), f"{what} it", "move it to a wall"))
    return tuple(found)


def check_slits(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that slits and pockets up to twice ``sliver`` metres wide between rooms take at most
    ``most`` square metres."""
    if len(plan.rooms) < 2:
        return None
    built = built_area(plan, parameters["wall"])
    area = float(shapely.union_all(filled_parts(built, parameters["sliver"])).area - built.area)
    if area <= parameters["most"] + TOLERANCE:
        return ()
    what = f"slits between rooms take {area:.1f} m2, at most {parameters['most']:g} m2"
    return (Finding((), what, "move the rooms on both sides together"),)
