"""Rules of sizes: least widths and areas by kind of room."""

from __future__ import annotations

from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.rules.finding import (
    TOLERANCE,
    Finding,
    Findings,
    Parameters,
    kinds_of,
    name_of,
    sides_of,
)


def least_widths(plan: FloorPlan, parameters: Parameters) -> Findings:
    """The shorter side of the box around every room's floor is at least the ``least`` of its kind,
    in metres."""
    widths = [sides_of(floor)[0] for floor in plan.rooms]
    return _too_small(plan, widths, parameters, ("is {} m wide", "m", "wider"))


def least_areas(plan: FloorPlan, parameters: Parameters) -> Findings:
    """The area of every room's floor is at least the ``least`` of its kind, in square metres."""
    return _too_small(plan, list(plan.areas), parameters, ("has {} m2", "m2", "larger"))


def _too_small(
    plan: FloorPlan, sizes: list[float], parameters: Parameters, words: tuple[str, str, str]
) -> Findings:
    """``words``: what a size is, its unit, and what the room should become."""
    (has, unit, larger), kinds, least = words, kinds_of(plan), parameters["least"]
    ruled = [k for k, kind in enumerate(kinds) if kind in least]
    if not ruled:
        return None
    return tuple(
        Finding(
            (k,),
            f"{name_of(plan, k)} {has.format(f'{sizes[k]:.2f}')}, at least "
            f"{least[kinds[k]]:.2f} {unit}",
            f"make it {least[kinds[k]] - sizes[k]:.2f} {unit} {larger}",
        )
        for k in ruled
        if sizes[k] < least[kinds[k]] - TOLERANCE
    )
