"""Constraints on clear areas of rooms, without their walls, and on space to turn in."""

from __future__ import annotations

import math
from typing import Any

from floor_plans.plans.box_model import AXES
from floor_plans.plans.outline import PER_METRE
from floor_plans.plans.walls import INNER_WALL, OUTER_WALL
from floor_plans.solver.outline_constraints import OutlineConstraints
from floor_plans.solver.spec import Priority, Requirement


def add_clear_areas(outline: OutlineConstraints) -> None:
    """Add soft constraints: clear floors are within the bounds of the rule ``clear_area``.

    In decimetres, half an inner wall is 1/2 thick, and an outer wall 1 more. A room has outer walls
    where it reaches the box around the plan; the rule itself judges other outlines.
    """
    rooms, cp = outline.rooms, outline.cp
    if (rule := outline.spec.rule("clear_area")) is None:
        return
    for i, kind in enumerate(rooms.kinds):
        if kind not in rule["least"] and kind not in rule["most"]:
            continue
        # half an inner wall all around, and around the rooms inside
        around = [i, *(u for u, v in rooms.inside if v == i)]
        walls: Any = sum(sum(rooms.box_model.sides(k)) for k in around) - 1
        # the rest of the outer walls
        for axis in AXES:
            (low, high), end = rooms.span(axis, i), outline.size[axis]
            length = rooms.box_model.sides(i)[1 - axis]
            for at_end, is_off in ((low == 0, low >= 1), (high == end, high < end)):
                part = cp.new_int_var(0, rooms.grid, "")
                is_outer = rooms.literal(at_end, part == length)
                for condition in (is_off, part == 0):
                    cp.add(condition).only_enforce_if(is_outer.negated())
                walls += part
        clear = rooms.floors[i] - walls
        bounds, words = [], []
        if (least := rule["least"].get(kind)) is not None:
            bounds.append(clear >= math.ceil(least * PER_METRE**2))
            words.append(f"at least {least:g}")
        if (most := rule["most"].get(kind)) is not None:
            bounds.append(clear <= math.floor(most * PER_METRE**2))
            words.append(f"at most {most:g}")
        needed = Requirement(f"{{}} has {' and '.join(words)} m2 clear", "clear_area", (i,))
        rooms.add_soft(Priority.SIZES, *bounds, requirement=needed)


def add_turning_space(outline: OutlineConstraints) -> None:
    """Add soft constraints: rooms of the rule ``turning`` are as wide as its circle, with half an
    inner wall and half an outer one."""
    rooms = outline.rooms
    if (rule := outline.spec.rule("turning")) is None:
        return
    least = math.ceil(PER_METRE * (rule["across"] + (INNER_WALL + OUTER_WALL) / 2) - 1e-6)
    wide = {
        i: rooms.literal(*(side >= least for side in rooms.box_model.sides(i)))
        for i, kind in enumerate(rooms.kinds)
        if kind in (*rule["every"], *rule["some"])
    }
    one = [literal for i, literal in wide.items() if rooms.kinds[i] in rule["some"]]
    some = rooms.one_of(one)
    for i in [i for i in wide if rooms.kinds[i] in rule["every"]]:
        rooms.add_literal(Priority.SIZES, wide[i], "{} has space to turn in", "turning", i)
    if one:
        rooms.add_literal(Priority.SIZES, some, "a room has space to turn in", "turning")
