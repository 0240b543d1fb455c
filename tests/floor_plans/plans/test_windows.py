"""Windows that are proposed: as wide as the rule demands, on free outer walls alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from floor_plans import generate_plans
from floor_plans.plans.doors import find_doors
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.solver.shapes import HEIGHT, find_windows, window_share
from plan_examples import FLAT, floor_plan

shapely = pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")

HABITABLE = ("LivingRoom", "MasterRoom", "SecondRoom", "ChildRoom", "GuestRoom", "StudyRoom")
WITH_WINDOWS = (*HABITABLE, "DiningRoom", "Kitchen", "Bathroom")
PLANS = [find_doors(FLAT)] + [
    find_doors(FloorPlan.of(diagram, "pixels")) for diagram in generate_plans(12, seed=3)
]


def lines(plan):
    return [shapely.LineString([each.start, each.end]) for each in find_windows(plan)]


@pytest.mark.parametrize("plan", PLANS)
def test_windows_lie_on_outer_walls_clear_of_doors_and_of_each_other(plan):
    indoors = shapely.union_all(
        [
            floor
            for floor, name in zip(plan.rooms, plan.diagram.room_names, strict=True)
            if name != "Balcony"
        ]
    )
    drawn = lines(plan)
    assert drawn
    for window, line in zip(find_windows(plan), drawn, strict=True):
        assert plan.diagram.room_names[window.room] in WITH_WINDOWS
        assert plan.rooms[window.room].boundary.buffer(0.011).covers(line)
        around = line.buffer(0.5, cap_style="flat").difference(plan.rooms[window.room].buffer(0.02))
        assert around.intersection(indoors).area < 0.01
        for door in plan.doors:
            assert line.distance(shapely.LineString([door.start, door.end])) > 0.19
    for k, line in enumerate(drawn):
        assert all(line.distance(other) > 0.25 for other in drawn[:k])


@pytest.mark.parametrize(
    ("sides", "widths"),
    [
        ((4.0, 3.0), [0.8]),  # 8 % of 12 m2 are 0.96, at 1.3 m 0.74: a tenth upwards
        ((8.0, 7.0), [1.8, 1.8]),  # 3.45 m are two windows
        ((2.0, 2.0), [0.6]),  # no window is narrower
    ],
)
def test_a_window_is_as_wide_as_eight_percent_of_the_floor(sides, widths):
    plan = floor_plan([("LivingRoom", (0.0, 0.0, *sides))])
    assert [each.width for each in find_windows(plan)] == pytest.approx(widths)
    assert window_share(plan) == pytest.approx(sum(widths) * HEIGHT / (sides[0] * sides[1]))


def test_a_window_is_no_wider_than_the_free_wall():
    """A bedroom behind others: 1.2 m of outer wall leave .6 between the corners."""
    rooms = [
        ("SecondRoom", (0.0, 0.0, 1.2, 12.0)),
        ("Storage", (-2.0, 0.0, 0.0, 12.0)),
        ("Storage", (1.2, 0.0, 3.2, 12.0)),
        ("Storage", (-2.0, 12.0, 3.2, 14.0)),
    ]
    (window,) = find_windows(floor_plan(rooms))
    assert window.width == pytest.approx(0.6)
    assert {window.start[1], window.end[1]} == {0.0}
    assert find_windows(floor_plan([*rooms, ("Storage", (-2.0, -2.0, 3.2, 0.0))])) == ()


def test_light_comes_over_a_balcony_and_not_through_a_slanted_wall():
    rooms = [("MasterRoom", (0.0, 0.0, 5.0, 3.0)), ("Balcony", (0.0, 3.0, 5.0, 4.2))]
    (window,) = find_windows(floor_plan(rooms[:1]))
    assert window.width == pytest.approx(1.0)
    walled = [*rooms, ("Storage", (-2.0, -2.0, 7.0, 0.0)), ("Storage", (-2.0, 0.0, 0.0, 3.0))]
    (window,) = find_windows(floor_plan([*walled, ("Storage", (5.0, 0.0, 7.0, 3.0))]))
    assert {window.start[1], window.end[1]} == {3.0}
    plan = floor_plan([("LivingRoom", (0.0, 0.0, 6.0, 6.0))])
    slanted = replace(plan, floors=(shapely.Polygon([(0, 3), (3, 0), (6, 3), (3, 6)]),))
    assert find_windows(slanted) == ()


def test_kitchens_and_bathrooms_have_windows_that_no_share_counts():
    living = ("LivingRoom", (0.0, 0.0, 5.0, 4.0))
    rooms = [living, ("Kitchen", (5.0, 0.0, 8.0, 4.0)), ("Bathroom", (8.0, 0.0, 10.0, 2.0))]
    plan = floor_plan(rooms)
    assert [each.room for each in find_windows(plan)] == [0, 1, 2]
    assert window_share(plan) == window_share(floor_plan([living]))


def test_there_is_no_share_of_rooms_that_need_no_light():
    assert window_share(floor_plan([("Storage", (0.0, 0.0, 2.0, 2.0))])) is None
