"""Doors of plans made by hand: each rule on the smallest plan that shows it."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from floor_plans import generate_plans
from floor_plans.plans.floor_plan import FRONT_DOOR, Door, FloorPlan
from plan_examples import FLAT, floor_plan

shapely = pytest.importorskip("shapely", reason="shapely measures walls")

from floor_plans.plans.doors import APART, DOOR, FRONT, find_doors, hang_doors, unreached  # noqa: E402
from floor_plans.plans.outline import outer_walls, shared_walls  # noqa: E402

LIVING = ("LivingRoom", (0.0, 0.0, 6.0, 4.0))


def pairs(plan: FloorPlan) -> set[tuple[int, int]]:
    """Of the doors between rooms."""
    return {door.rooms for door in plan.doors if not door.is_front}


def front(plan: FloorPlan) -> Door | None:
    (door,) = [door for door in plan.doors if door.is_front] or [None]
    return door


def line(door: Door) -> shapely.LineString:
    return shapely.LineString([door.start, door.end])


def test_every_room_of_a_flat_is_reached_as_people_would():
    plan = find_doors(FLAT)
    assert pairs(plan) == {(0, 1), (2, 7), (2, 3), (4, 7), (0, 5), (0, 6), (0, 7)}
    assert front(plan).rooms == (0, FRONT_DOOR)  # the entrance has no wall to the outside
    assert unreached(plan) == ()
    assert find_doors(plan) == plan


@pytest.mark.parametrize(
    "plan", [FLAT, *map(FloorPlan.of, generate_plans(6, seed=2), ["pixels"] * 6)]
)
def test_doors_lie_on_walls_of_both_rooms_and_clear_of_each_other(plan):
    plan = find_doors(plan)
    for door in plan.doors:
        assert line(door).length == pytest.approx(FRONT if door.is_front else DOOR, abs=1e-3)
        for room in door.rooms[: 1 if door.is_front else 2]:
            floor = plan.rooms[room]
            assert all(floor.distance(shapely.Point(end)) < 0.23 for end in (door.start, door.end))
            assert floor.buffer(-1e-3).intersection(line(door)).length == 0
    for one, other in combinations(map(line, plan.doors), 2):
        assert one.distance(other) >= APART - 1e-3


def test_a_door_takes_a_relation_and_90_centimetres_of_straight_wall():
    def doors(height: float, **options):
        beside = ("SecondRoom", (6.0, 4.0 - height, 9.0, 7.0))
        return pairs(find_doors(floor_plan([LIVING, beside], **options)))

    assert doors(0.9) == {(0, 1)}
    assert doors(0.89) == set()
    assert doors(3.0) == {(0, 1)}
    assert doors(3.0, unrelated=[(0, 1)]) == set()


def test_a_door_stands_at_a_corner_and_in_the_middle_of_a_short_wall():
    def ends(height: float) -> list[float]:
        beside = ("SecondRoom", (6.0, 4.0 - height, 9.0, 7.0))
        (door,) = [d for d in find_doors(floor_plan([LIVING, beside])).doors if not d.is_front]
        assert door.start[0] == door.end[0] == 6.0
        return [door.start[1], door.end[1]]

    assert ends(3.0) in ([1.15, 1.95], [3.05, 3.85])
    assert ends(0.9) == pytest.approx([3.15, 3.95])


def test_a_door_stands_at_the_corner_that_one_comes_from():
    rooms = [("LivingRoom", (0.0, 0.0, 9.0, 4.0)), ("SecondRoom", (3.0, 4.0, 6.0, 8.0))]
    balcony = ("Balcony", (0.0, -1.2, 7.5, 0.0))  # leaves the front door the top right
    others = [("Bathroom", (-2.0, 0.0, 0.0, 4.0)), ("StudyRoom", (9.0, 0.0, 12.0, 4.0))]
    below = [("Storage", (0.0, 4.0, 3.0, 6.0)), ("GuestRoom", (6.0, 4.0, 9.0, 8.0))]
    plan = find_doors(floor_plan([*rooms, balcony, *others, *below]))
    assert front(plan).start[0] > 7.5
    (door,) = [door for door in plan.doors if door.rooms == (0, 1)]
    assert (door.start[0], door.end[0]) == (5.05, 5.85)


def test_the_leaf_of_the_front_door_keeps_off_other_doors():
    beside = ("MasterRoom", (6.0, 0.0, 9.0, 4.0))
    plan = find_doors(floor_plan([LIVING, beside]), front=(5.35, 0.0))
    (inner,) = [door for door in plan.doors if not door.is_front]
    reach = line(front(plan)).buffer(FRONT, cap_style="flat")
    assert front(plan).end == (5.85, 0.0)
    assert reach.distance(line(inner)) > 0.5
    # without space elsewhere the hinge is on the other side
    narrow = replace(plan, doors=(front(plan), Door((0, 1), (6.0, 0.15), (6.0, 0.95))))
    first, _ = hang_doors(narrow)
    assert first.leaf[0] == (4.85, 0.0)


def test_circulation_is_preferred_then_the_kitchen_then_bedrooms():
    study, bed, bath = (
        ("StudyRoom", (0.0, 6.0, 6.0, 9.0)),
        ("SecondRoom", (0.0, 4.0, 3.0, 6.0)),
        ("Bathroom", (3.0, 4.0, 6.0, 6.0)),
    )
    assert pairs(find_doors(floor_plan([LIVING, bed, bath, study]))) == {(0, 1), (0, 2), (1, 3)}
    kitchen = ("Kitchen", bath[1])
    assert pairs(find_doors(floor_plan([LIVING, bed, kitchen, study]))) == {(0, 1), (0, 2), (2, 3)}
    dining = ("DiningRoom", bed[1])
    assert pairs(find_doors(floor_plan([LIVING, dining, kitchen, study]))) == {
        (0, 1),
        (0, 2),
        (1, 3),
    }


@pytest.mark.parametrize("through", ["Bathroom", "Storage", "Balcony", "Wall-in"])
def test_two_bedrooms_are_passed_rather_than_a_bathroom(through):
    rooms = [
        LIVING,
        (through, (3.0, 4.0, 6.0, 10.0)),
        ("SecondRoom", (0.0, 4.0, 3.0, 7.0)),
        ("ChildRoom", (0.0, 7.0, 3.0, 10.0)),
        ("StudyRoom", (0.0, 10.0, 6.0, 12.0)),
    ]
    doors = pairs(find_doors(floor_plan(rooms)))
    assert {(2, 3), (3, 4)} <= doors
    assert (1, 4) not in doors


def test_the_walk_begins_at_the_entrance():
    rooms = [LIVING, ("Entrance", (0.0, 4.0, 6.0, 6.0)), ("DiningRoom", (6.0, 0.0, 9.0, 6.0))]
    plan = find_doors(floor_plan(rooms))
    assert pairs(plan) == {(0, 1), (1, 2)}  # and not (0, 2)
    assert front(plan).rooms == (1, FRONT_DOOR)
    assert pairs(find_doors(floor_plan([rooms[0], ("Storage", rooms[1][1]), rooms[2]]))) == {
        (0, 1),
        (0, 2),
    }


def test_rooms_beside_the_hall_may_be_entered_from_it():
    rooms = [
        ("Entrance", (0, 0, 2, 2)),
        ("LivingRoom", (2, 0, 6, 5)),
        ("Entrance", (6, 0, 9, 2)),
        ("MasterRoom", (6, 2, 9, 5)),
    ]
    plan = floor_plan(rooms)
    assert pairs(find_doors(plan)) == {(0, 1), (1, 2), (1, 3)}
    assert pairs(find_doors(plan, hall=2)) == {(0, 1), (1, 2), (2, 3)}


def test_a_bathroom_beside_the_master_room_opens_to_it_if_there_is_another():
    master, bath = ("MasterRoom", (0.0, 4.0, 4.0, 8.0)), ("Bathroom", (4.0, 4.0, 6.0, 8.0))
    assert pairs(find_doors(floor_plan([LIVING, master, bath]))) == {(0, 1), (0, 2)}
    other = ("Bathroom", (6.0, 0.0, 8.0, 4.0))
    assert pairs(find_doors(floor_plan([LIVING, master, bath, other]))) == {(0, 1), (1, 2), (0, 3)}


def test_the_bathroom_for_all_opens_to_a_crowded_living_room_if_the_master_has_the_other():
    names = ("Kitchen", "Bathroom", "SecondRoom", "ChildRoom", "MasterRoom", "Bathroom")
    rooms = [(name, (2.0 * k, 4.0, 2.0 * k + 2, 8.0)) for k, name in enumerate(names)]
    plan = find_doors(floor_plan([("LivingRoom", (0.0, 0.0, 12.0, 4.0)), *rooms]))
    assert {(0, 2), (5, 6)} <= pairs(plan)


def test_a_bathroom_inside_the_master_room_opens_to_it_if_there_is_another():
    rooms = [
        LIVING,
        ("MasterRoom", (0.0, 4.0, 5.0, 8.0)),
        ("Bathroom", (3.0, 4.0, 5.0, 6.0)),  # touches the living room too
        ("Bathroom", (6.0, 0.0, 8.0, 4.0)),
    ]
    for own, order in (({(0, 2)}, [0, 1, 2]), ({(1, 2), (0, 3)}, [0, 1, 2, 3])):
        plan = find_doors(floor_plan([rooms[k] for k in order]))
        assert pairs(plan) == {(0, 1)} | own
        assert unreached(plan) == ()
        turned = find_doors(floor_plan([rooms[k] for k in order[::-1]]))
        last = len(order) - 1
        assert pairs(turned) == {(last - j, last - i) for i, j in pairs(plan)}


def test_the_only_bathroom_inside_the_master_room_opens_to_it_where_nothing_else_touches_it():
    rooms = [LIVING, ("MasterRoom", (0.0, 4.0, 5.0, 8.0)), ("Bathroom", (3.0, 6.0, 5.0, 8.0))]
    assert pairs(find_doors(floor_plan(rooms))) == {(0, 1), (1, 2)}


@pytest.mark.parametrize(
    ("room", "leads"),
    [("DiningRoom", True), ("Kitchen", True), ("Balcony", False), ("SecondRoom", False)],
)
def test_other_rooms_with_a_front_door(room, leads):
    plan = find_doors(floor_plan([(room, (0.0, 0.0, 4.0, 4.0))]))
    assert (front(plan) is not None) == leads
    assert unreached(plan) == ()


def test_the_front_door_does_not_lead_into_a_pocket():
    ring = [
        ("SecondRoom", (0.0, 0.0, 3.0, 9.0)),
        ("ChildRoom", (6.0, 0.0, 9.0, 9.0)),
        ("StudyRoom", (3.0, 0.0, 6.0, 3.0)),
        ("GuestRoom", (3.0, 7.0, 6.0, 9.0)),
        ("LivingRoom", (3.0, 5.0, 6.0, 7.0)),  # above it a pocket of 3 m x 2 m
    ]
    plan = floor_plan(ring)
    assert plan.dead_area == pytest.approx(6.0)
    assert outer_walls(plan, 4) == []
    assert front(find_doors(plan)) is None
    open_above = floor_plan([room for room in ring if room[0] != "StudyRoom"])
    (wall,) = outer_walls(open_above, 3)
    assert (wall.at, wall.low, wall.high) == (5.0, 3.0, 6.0)


def test_the_front_door_keeps_to_the_boundary():
    room = ("LivingRoom", (0.0, 0.0, 6.0, 4.0))
    boundary = ((0.0, 0.0), (9.0, 0.0), (9.0, 9.0), (0.0, 9.0))
    plan = floor_plan([room], boundary=boundary)
    walls = {(wall.axis, wall.at) for wall in outer_walls(plan, 0)}
    assert walls == {(0, 0.0), (1, 0.0)}  # right and below is dead area inside the boundary
    assert front(find_doors(plan)).start[0] == 0.0  # the shorter of the two


def test_a_balcony_and_a_narrow_gap_keep_the_front_door_away():
    balcony = ("Balcony", (0.0, 4.0, 5.0, 5.2))
    walls = outer_walls(floor_plan([LIVING, balcony]), 0)
    found = [(w.axis, w.at, w.length) for w in walls]
    assert {*found[:2]} == {(1, 0.0, 4.0), (1, 6.0, 4.0)}
    assert found[2:] == [(0, 0.0, 6.0), (0, 4.0, 1.0)]  # the last in a recess of the outline
    opposite = ("SecondRoom", (6.8, 0.0, 9.0, 4.0))
    assert (1, 6.0) not in {(w.axis, w.at) for w in outer_walls(floor_plan([LIVING, opposite]), 0)}


def test_walls_are_shared_across_the_thickness_of_a_wall():
    def shared(gap: float) -> list[tuple[float, float]]:
        beside = ("SecondRoom", (6.0 + gap, 1.0, 9.0, 9.0))
        plan = floor_plan([LIVING, beside])
        return [(wall.at, wall.length) for wall in shared_walls(plan, 0, 1)]

    assert shared(0.0) == [(6.0, 3.0)]
    assert shared(0.4) == [(6.2, 3.0)]
    assert shared(0.5) == []


def test_an_inner_room_shares_all_walls_that_lie_in_the_other():
    corner = floor_plan([LIVING, ("Kitchen", (4.0, 0.0, 6.0, 2.0))])
    assert {(w.axis, w.at, w.length) for w in shared_walls(corner, 0, 1)} == {
        (0, 2.0, 2.0),
        (1, 4.0, 2.0),
    }
    middle = floor_plan([LIVING, ("Kitchen", (2.0, 1.0, 4.0, 3.0))])
    assert len(shared_walls(middle, 0, 1)) == 4
    assert shared_walls(middle, 1, 0) != []
    assert outer_walls(middle, 1) == []


def test_a_third_room_covers_a_shared_wall():
    rooms = [LIVING, ("SecondRoom", (6.0, 0.0, 9.0, 4.0)), ("Storage", (5.0, 0.0, 7.0, 3.0))]
    ((at, length),) = [(w.at, w.length) for w in shared_walls(floor_plan(rooms), 0, 1)]
    assert (at, length) == (6.0, 1.0)


def test_where_doors_would_collide_they_move_apart():
    rooms = [
        ("LivingRoom", (0.0, 0.0, 1.1, 1.0)),
        ("SecondRoom", (1.1, 0.0, 4.0, 4.0)),
        ("StudyRoom", (0.0, 1.0, 1.1, 4.0)),
    ]
    plan = find_doors(floor_plan(rooms))
    assert pairs(plan) == {(0, 2), (1, 2)}  # two doors at one corner would touch
    assert unreached(plan) == ()


def test_what_no_door_leads_to_is_said():
    plan = floor_plan(
        [LIVING, ("SecondRoom", (6.0, 3.5, 9.0, 7.0)), ("Kitchen", (0.0, 4.0, 3.0, 6.0))]
    )
    assert unreached(plan) == (1, 2)
    assert unreached(find_doors(plan)) == (1,)
    behind = replace(
        plan, doors=(Door((1, 2), (0.0, 0.0), (1.0, 0.0)), Door((0, -1), (0.0, 0.0), (1.0, 0.0)))
    )
    assert unreached(behind) == (1, 2)
    only_front = replace(plan, doors=(Door((1, FRONT_DOOR), (9.0, 4.0), (9.0, 5.0)),))
    assert unreached(only_front) == (0, 2)


def test_a_door_leaves_its_place_to_one_that_has_no_other():
    """The second bedroom behind the first has a metre of wall to the living room, in a corner that
    the door of the first would take."""
    rooms = [
        ("LivingRoom", (0.0, 3.1, 10.3, 8.1)),
        ("SecondRoom", (0.0, 3.1, 2.4, 8.1)),
        ("SecondRoom", (0.0, 0.0, 3.4, 3.1)),
        ("Balcony", (3.4, 0.0, 5.1, 3.1)),
    ]
    plan = find_doors(floor_plan(rooms))
    assert pairs(plan) == {(0, 1), (0, 2), (0, 3)}
    for one, other in combinations(plan.doors, 2):
        assert line(one).distance(line(other)) >= APART - 1e-6
