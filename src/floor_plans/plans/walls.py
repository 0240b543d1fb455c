"""Walls of a floor plan as solids, and the clear floors between them."""

from __future__ import annotations

from dataclasses import dataclass

from floor_plans.plans.doors import door_space
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.libraries import shapely
from floor_plans.plans.outline import fill_courts, fill_gaps

OUTER_WALL, INNER_WALL, RAILING = 0.3, 0.1, 0.07  # thickness in metres


@dataclass(frozen=True)
class Walls:
    """Walls of a plan. ``house``: everything inside the middle of the outer walls; ``shell``: the
    same with its courts; ``solid``: the walls, cut where rooms are open to each other alone;
    ``railings``: those on the open sides of balconies."""

    house: shapely.Geometry
    shell: shapely.Geometry
    solid: shapely.Geometry
    railings: shapely.Geometry


def walls_of_plan(plan: FloorPlan) -> Walls:
    """Return the walls around the rooms of a plan; balconies have railings."""
    named = list(zip(plan.rooms, plan.diagram.room_names, strict=True))
    indoors = [floor for floor, name in named if name != "Balcony"]
    balconies = [floor for floor, name in named if name == "Balcony"]
    house = fill_gaps(shapely.union_all(indoors))
    shell = fill_courts(house)
    rings = [wall_ring(shell, OUTER_WALL), *(wall_ring(floor, INNER_WALL) for floor in indoors)]
    solid = shapely.union_all([*rings, house.difference(shapely.union_all(indoors))])
    opened = [door_space(door) for door in plan.doors if door.is_open]
    around = shell.buffer(OUTER_WALL / 2, join_style="mitre")
    railings = shapely.union_all([wall_ring(floor, RAILING) for floor in balconies])
    railings = railings.difference(around)
    return Walls(house, shell, solid.difference(shapely.union_all(opened)), railings)


def wall_ring(area: shapely.Geometry, thickness: float) -> shapely.Geometry:
    """Wall of the given thickness along the border of an area."""
    grown, shrunken = (area.buffer(sign * thickness / 2, join_style="mitre") for sign in (1, -1))
    return grown.difference(shrunken)


def clear_floors(plan: FloorPlan) -> list[shapely.Geometry]:
    """Return every floor between its walls and railings."""
    walls = walls_of_plan(plan)
    taken = walls.solid.union(walls.railings)
    return [floor.difference(taken) for floor in plan.rooms]


def clear_areas(plan: FloorPlan) -> list[float]:
    """Square metres of every floor between its walls and railings."""
    return [float(floor.area) for floor in clear_floors(plan)]
