"""Rules of the envelope: the facade of each room, windows, and the outline."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.rules.finding import TOLERANCE, Finding, Findings, Parameters, name_of, rooms_of

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

_STRAIGHT = 0.05
"""Metres that a corner of the outline may be off a straight line without counting."""

_APART = 0.6
"""Metres between rooms of different pieces; related rooms are closer."""

_OUTSIDE = 0.1
"""Square metres of a room that may lie outside a given outline."""


def facade(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that every room of the kinds ``rooms`` has ``length`` metres of facade."""
    least, lengths = parameters["length"], _facades(plan, parameters)
    if lengths is None:
        return None
    # rooms with less facade than the rule requires
    return tuple(
        Finding(
            (k,),
            f"{name_of(plan, k)} has {length:.2f} m of outer wall, at least {least:.2f} m",
            f"bring {least - length:.2f} m more of it to the outside",
        )
        for k, length in lengths.items()
        if length < least - TOLERANCE
    )


def window(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that every room of the kinds ``rooms`` has facade for a window as large as a ``share``
    of its floor. The window is ``height`` metres high.

    The condition is necessary, not sufficient: plans have no windows, and a window may be lower.
    """
    lengths = _facades(plan, parameters)
    if lengths is None:
        return None
    found = []
    for k, length in lengths.items():
        # the window as wide as the facade, and of the given height
        needed = parameters["share"] * plan.areas[k]
        if length * parameters["height"] < needed - TOLERANCE:
            missing = needed / parameters["height"] - length
            what = (
                f"{name_of(plan, k)} has outer wall for {length * parameters['height']:.2f} m2 of "
                f"window, {parameters['share']:.0%} of its floor are {needed:.2f} m2"
            )
            found.append(Finding((k,), what, f"bring {missing:.2f} m more of it to the outside"))
    return tuple(found)


def compact(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that rooms without a given outline lie in one piece with a short outline of few
    corners.

    It has at most ``corners`` corners, and ``perimeter`` times the length of the outline of a
    square of the same area. Rooms as close to each other as related ones form one piece. Slits and
    steps up to twice ``sliver`` metres wide are filled first.
    """
    if plan.boundary is not None:
        return None
    sliver, built = parameters["sliver"], _built(plan, parameters["wall"])
    shape = max(_parts(_fill_gaps(built, sliver)), key=lambda part: part.area)
    found = []
    # pieces, where each room already has half a wall around it
    near = max(_APART - parameters["wall"], 0) / 2
    if (pieces := len(_parts(_fill_gaps(built, near)))) > 1:
        what = f"the rooms lie in {pieces} pieces"
        found.append(Finding((), what, "move them together"))
    # corners of the largest piece
    corners = _corners(shape)
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


def fill(plan: FloorPlan, parameters: Parameters) -> Findings:
    """Check that rooms lie in a given outline and, with their walls, fill the ``share`` of it. Half
    a wall outside counts as inside, and less than 0.1 m2 of a room is ignored."""
    if plan.boundary is None:
        return None
    # rooms that reach out of the outline
    plot, found = plan.outline, []
    around = plot.buffer(parameters["wall"] / 2, join_style="mitre")
    outside = {k: float(floor.difference(around).area) for k, floor in enumerate(plan.rooms)}
    if off := tuple(k for k, area in outside.items() if area > _OUTSIDE):
        named = ", ".join(f"{outside[k]:.1f} m2 of {name_of(plan, k)}" for k in off)
        found.append(Finding(off, f"{named} lie outside of the outline", "move them into it"))
    # share of it that is built on
    share, least = filled_share(plan, parameters["wall"]), parameters["share"]
    if share < least:
        what = f"rooms fill {share:.1%} of the outline, at least {least:.0%}"
        remedy = f"make rooms {(least - share) * plot.area:.1f} m2 larger together"
        found.append(Finding((), what, remedy))
    return tuple(found)


def filled_share(plan: FloorPlan, wall: float) -> float:
    """Share of the outline that is built on: floors with half a wall around each."""
    return float(_built(plan, wall).intersection(plan.outline).area / plan.outline.area)


def _fill_gaps(shape: Any, by: float) -> Any:
    """Fill gaps up to twice ``by`` metres wide."""
    return shape.buffer(by, join_style="mitre").buffer(-by, join_style="mitre")


def _parts(shape: Any) -> list[Any]:
    """Parts of a shape."""
    return list(getattr(shape, "geoms", [shape]))


def _built(plan: FloorPlan, wall: float) -> Any:
    """Union of all floors with half a wall around each."""
    from shapely import union_all

    return union_all([floor.buffer(wall / 2, join_style="mitre") for floor in plan.rooms])


def _facades(plan: FloorPlan, parameters: Parameters) -> dict[int, float] | None:
    """Metres of facade of the rooms of the kinds ``rooms``; None without such rooms."""
    rooms = rooms_of(plan, parameters["rooms"])
    return outer_walls(plan, rooms, parameters["wall"]) if rooms else None


def outer_walls(plan: FloorPlan, rooms: Iterable[int], wall: float) -> dict[int, float]:
    """Metres of facade of these rooms, for walls up to ``wall`` metres thick. A gap enclosed by
    rooms is not outside."""
    from shapely import union_all

    # pieces of the border near the outermost rings
    built = _built(plan, wall)
    outside: BaseGeometry = union_all([part.exterior for part in _parts(built)])
    near = outside.buffer(wall / 2 + TOLERANCE)
    return {k: float(plan.rooms[k].boundary.intersection(near).length) for k in rooms}


def _corners(shape: Any) -> int:
    """Corners of the outer ring. Normalising starts the ring at a true corner, so that no corner of
    a straight side is counted."""
    from shapely import Polygon

    ring = Polygon(shape.exterior).normalize().simplify(_STRAIGHT).exterior
    return len(ring.coords) - 1
