"""``add_furnishing``: keep the rules on furnishing in the model, on clear floors."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from floor_plans.plans.box_model import AXES
from floor_plans.plans.outline import PER_METRE
from floor_plans.rules.finding import TOLERANCE
from floor_plans.rules.rule_set import Sizes
from floor_plans.solver.room_constraints import STRIP, FreeRectangle, RoomConstraints
from floor_plans.solver.spec import MASTER, OTHER_BEDROOMS, Priority

_BEDROOM = 2.2  # ratio of bedrooms on a plot, stricter than the rule; 95 % of real plans keep it


def add_furnishing(rooms: RoomConstraints) -> None:
    """Add soft constraints of the rules ``furniture``, ``shape`` and ``largest`` for every room,
    and of ``slits`` for pairs: a free rectangle, a ratio of sides, wide strips around inner rooms,
    a largest area, and space between unrelated rooms.

    Sides are those of boxes, a wall wider than the clear floor. A free rectangle lies apart from
    the rooms in the box and, in rooms with a depth ``in_front`` of doors, apart from doors:
    ``rooms.free`` has it for the walls that doors are in.
    """
    spec, add = rooms.spec, partial(rooms.add_literal, Priority.FURNISH)
    furniture, shape, largest = (spec.rule(name) for name in ("furniture", "shape", "largest"))
    for i, kind in enumerate(rooms.kinds):
        if furniture is not None and (sizes := furniture["least"].get(kind)):
            deep = math.ceil(furniture["in_front"].get(kind, 0.0) * PER_METRE)
            holds = _add_rectangle(rooms, i, sizes, furniture["wall"], deep)
            text = " or ".join("{:g} x {:g} m".format(*size) for size in sizes)
            add(holds, f"{{}} holds a rectangle of {text}", "furniture", i)
        if shape is not None and (ratio := shape["most"].get(kind)):
            if spec.outline.boundary is not None and kind in (MASTER, *OTHER_BEDROOMS):
                ratio = min(ratio, _BEDROOM)
            wall = round(shape["wall"] * PER_METRE)
            width, height = (side - wall for side in rooms.box_model.sides(i))
            most = math.floor(10 * ratio)
            sides = rooms.literal(10 * width <= most * height, 10 * height <= most * width)
            if kind != "Kitchen":  # few have a room in their corner
                _add_arms(rooms, i, sides, most, wall)
            add(sides, f"{{}} is at most {ratio:g} times as long as wide", "shape", i)
        if shape is not None and kind in shape["narrow"]:
            for u in (u for u, v in rooms.inside if v == i):
                flush = rooms.cp.new_bool_var("")
                rooms.keep_to_walls(u, i, STRIP, flush)
                add(flush, "{} has no narrow strips around {}", "shape", i, u)
        if largest is not None and (area := largest["most"].get(kind)):
            floor = rooms.literal(rooms.floors[i] <= math.floor(area * PER_METRE**2))
            add(floor, f"{{}} has at most {area:g} m2", "largest", i)
    if (slits := spec.rule("slits")) is not None:
        # unrelated rooms that face each other have more than a slit between them
        wide = math.floor((2 * slits["sliver"] + slits["wall"]) * PER_METRE + 1)
        facing = math.floor(slits["most"] / (4 * slits["sliver"]) * PER_METRE)
        for i, j in rooms.unrelated:
            gaps = list(rooms.box_model.gaps(i, j))
            far = [rooms.literal(gap >= wide) for gap in gaps]
            beside = [rooms.literal(gap >= -facing) for gap in gaps]
            met = rooms.cp.new_bool_var("")
            for k in (0, 2):
                rooms.cp.add_bool_or([*far, *beside[k : k + 2], met.negated()])
            add(met, "no slit is between {} and {}", "slits", i, j)


def _add_arms(rooms: RoomConstraints, i: int, met: Any, most: int, wall: int) -> None:
    """Let ``met`` imply the ratio ``most`` / 10 of sides of both arms of a room with a corner cut
    out, or of one that is nearly as large as the other."""
    cut: list[tuple[list[Any], list[Any]]] = []
    for (u, v), *lies in (*zip(rooms.inside), *rooms.in_corner.items()):
        if v == i:
            margins = rooms.box_model.margins(u, v)
            cut.append((lies, [sum(margins[a::2]) for a in AXES]))
    cut += [([bend.bends], bend.arms) for bend in rooms.bends.get(i, [])]
    box = [side - wall for side in rooms.box_model.sides(i)]
    for lies, sides in cut:
        both, ways, arms = [], [], [side - wall for side in sides]
        for a, arm in enumerate(arms):
            ratio = [10 * arm <= most * box[1 - a], 10 * box[1 - a] <= most * arm]
            both += ratio
            # it has four fifths of the area of the other arm
            for share, other in ((1 / 2, 8 / 5), (2 / 3, 6 / 5)):
                half = 6 * arm >= round(6 * share) * box[a]
                far = 5 * box[1 - a] >= round(5 * other) * arms[1 - a]
                ways.append(rooms.literal(*ratio, half, far))
        elsewhere = [literal.negated() for literal in (*lies, met)]
        rooms.cp.add_bool_or([rooms.literal(*both), *ways, *elsewhere])


def _add_rectangle(rooms: RoomConstraints, i: int, sizes: Sizes, wall: float, deep: int) -> Any:
    """Literal that implies: room i has a free rectangle of one of the sizes, clear of walls."""
    holds = rooms.cp.new_bool_var("")
    inner: list[tuple[int, list[Any]]] = [(u, []) for u, v in rooms.inside if v == i]
    inner += [(u, [lies.negated()]) for (u, v), lies in rooms.in_corner.items() if v == i]
    bends = rooms.bends.get(i, [])
    # with nothing in the box its sides are enough, otherwise the rectangle has a place
    low, high = ([ends[a][i] for a in AXES] for ends in (rooms.box_model.low, rooms.box_model.high))
    if inner or bends or deep:
        new = rooms.cp.new_int_var
        outer = low, high
        low, high = ([new(0, rooms.grid, "") for _ in AXES] for _ in range(2))
        for a in AXES:
            rooms.cp.add(low[a] >= outer[0][a]).only_enforce_if(holds)
            rooms.cp.add(high[a] <= outer[1][a]).only_enforce_if(holds)
        off = [([rooms.span(a, u) for a in AXES], elsewhere) for u, elsewhere in inner]
        for bend in bends:
            lost = [(bend.behind[a], bend.behind[a + 2]) for a in AXES]
            off.append((lost, [bend.bends.negated()]))
        for spans, elsewhere in off:
            apart = [rooms.literal(spans[a][1] <= low[a]) for a in AXES]
            apart += [rooms.literal(spans[a][0] >= high[a]) for a in AXES]
            rooms.cp.add_bool_or([*apart, *elsewhere, holds.negated()])
        if deep:
            rooms.free[i] = FreeRectangle(low, high, holds, deep)
    ways = []
    for size in sizes:
        for sides in {size, size[::-1]}:
            least = [math.ceil((side + wall - TOLERANCE) * PER_METRE) for side in sides]
            conditions = [high[a] - low[a] >= least[a] for a in AXES]
            ways.append(rooms.literal(*conditions))
    rooms.cp.add_bool_or([*ways, holds.negated()])
    return holds
