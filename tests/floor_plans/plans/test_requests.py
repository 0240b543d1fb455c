"""Target areas: typical, of other plans, given, and scaled to a total or an outline."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from discrete_diffusion.layout import ROOM_TYPES
from floor_plans import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.outline import Outline
from floor_plans.rules.rule_set import read_rules
from floor_plans.solver.requests import PlanRequest
from floor_plans.solver.spec import MIN_WIDTHS, TYPICAL_AREAS, RoomAreas, min_width

pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")

LIVING, KITCHEN, BATH, BALCONY, MASTER, SECOND, CHILD = map(
    ROOM_TYPES.index,
    ("LivingRoom", "Kitchen", "Bathroom", "Balcony", "MasterRoom", "SecondRoom", "ChildRoom"),
)
DEFAULT = read_rules("default")
DIAGRAM = BubbleDiagram((LIVING, KITCHEN, BATH), [(0, 1, 2), (0, 2, 6)])


def plan_of(*rooms: tuple[int, float]) -> FloorPlan:
    """A row of rooms, 1 m wide, as long as their areas."""
    boxes, x = [], 0.0
    for _, area in rooms:
        boxes.append((x, 0.0, x + area, 1.0))
        x += area
    return FloorPlan(BubbleDiagram(tuple(room for room, _ in rooms), (), tuple(boxes)))


def test_typical_areas_are_within_a_fifth():
    for seed in range(20):
        drawn = RoomAreas().draw(range(len(ROOM_TYPES)), Random(seed))
        for area, typical in zip(drawn, TYPICAL_AREAS, strict=True):
            assert 0.8 * typical <= area <= 1.2 * typical


def test_areas_are_those_of_the_plan_that_shares_most_rooms():
    small = plan_of((LIVING, 20), (BATH, 4))
    large = plan_of((LIVING, 50), (KITCHEN, 9), (BATH, 6), (BATH, 8))
    areas = RoomAreas([small, large])
    for seed in range(10):
        living, kitchen, bath = areas.draw((LIVING, KITCHEN, BATH), Random(seed))
        assert (living, kitchen) == (pytest.approx(50), pytest.approx(9))
        assert bath in (pytest.approx(6), pytest.approx(8))
        first, second = areas.draw((BATH, BATH), Random(seed))
        assert {round(first), round(second)} == {6, 8}


def test_the_master_room_has_the_largest_area_of_a_bedroom():
    areas = RoomAreas([plan_of((SECOND, 14), (MASTER, 10), (CHILD, 12))])
    assert areas.draw((SECOND, MASTER, CHILD), Random(0)) == pytest.approx((10, 14, 12))


def test_rooms_that_the_plan_has_not_are_those_of_another_or_typical():
    areas = RoomAreas([plan_of((LIVING, 50), (KITCHEN, 9)), plan_of((BATH, 3))])
    living, kitchen, bath, balcony = areas.draw((LIVING, KITCHEN, BATH, BALCONY), Random(0))
    assert (living, kitchen, bath) == (pytest.approx(50), pytest.approx(9), pytest.approx(3))
    assert balcony == pytest.approx(TYPICAL_AREAS[BALCONY], rel=0.2)


def test_small_rooms_may_be_narrower_than_their_type():
    assert min_width(LIVING, 30.0) == MIN_WIDTHS[LIVING]
    assert min_width(LIVING, 4.0) == pytest.approx(1.6)


def test_given_areas_stay_and_drawn_ones_are_scaled_to_the_total():
    diagram = replace(DIAGRAM, metadata={"areas": [30, None, None], "name": "flat 7"})
    (job,) = PlanRequest(areas=RoomAreas(), total_area=42.0).jobs([diagram])
    living, kitchen, bath = job.spec.areas
    assert living == 30
    assert kitchen + bath == pytest.approx(12)
    assert kitchen / bath == pytest.approx(7 / 5, rel=0.5)
    assert job.diagram.metadata == {"name": "flat 7"}
    assert all(sum(areas) == pytest.approx(42) for areas in job.other_areas)
    assert len(set(job.other_areas)) == 1


def test_given_areas_have_no_others():
    diagram = replace(DIAGRAM, metadata={"areas": [30, 8, 5]})
    (job,) = PlanRequest(areas=RoomAreas(), total_area=100.0).jobs([diagram])
    assert job.spec.areas == (30, 8, 5)
    assert job.other_areas == ()


def test_a_boundary_is_filled_as_far_as_it_can_be():
    outline = Outline(boundary=((0, 0), (10, 0), (10, 6), (0, 6)))
    (job,) = PlanRequest(areas=RoomAreas(), outline=outline).jobs([DIAGRAM])
    totals = [sum(areas) for areas in (job.spec.areas, *job.other_areas)]
    assert totals == pytest.approx([51, 48, 42, 36])
    own = {"boundary": [[0, 0], [5, 0], [5, 4], [0, 4]]}
    (job,) = PlanRequest(areas=RoomAreas(), outline=outline).jobs([replace(DIAGRAM, metadata=own)])
    assert job.spec.outline.area == 20


def test_a_boundary_that_rules_want_filled_is_filled_first():
    outline = Outline(boundary=((0, 0), (10, 0), (10, 6), (0, 6)))
    (job,) = PlanRequest(outline=outline, rules=DEFAULT).jobs([DIAGRAM])
    assert [sum(each) for each in (job.spec.areas, *job.other_areas)] == pytest.approx([58.5, 51])


def test_no_target_is_below_what_rules_need_unless_it_is_given():
    drawn = RoomAreas([plan_of((LIVING, 8), (KITCHEN, 2), (BATH, 1))])
    (job,) = PlanRequest(areas=drawn, rules=DEFAULT).jobs([DIAGRAM])
    assert job.spec.areas == pytest.approx((12.21, 3.84, 2.64))  # free rectangles with a wall
    (job,) = PlanRequest(areas=drawn, rules=DEFAULT, total_area=20.0).jobs([DIAGRAM])
    assert job.spec.areas == pytest.approx((13.52, 3.84, 2.64))
    given = replace(DIAGRAM, metadata={"areas": [None, None, 1.5]})
    spec = PlanRequest(areas=drawn, rules=DEFAULT).job(1, given).spec
    assert spec.areas == pytest.approx((12.21, 3.84, 1.5))
    assert PlanRequest(areas=drawn).job(1, DIAGRAM).spec.areas == pytest.approx((8, 2, 1))


def test_a_total_that_rules_do_not_allow_is_refused_with_the_least():
    with pytest.raises(DiagramError, match=r"total_area.*default.*18\.7 m2.*rules=none"):
        PlanRequest(total_area=5.0, rules=DEFAULT).jobs([DIAGRAM])
    (job,) = PlanRequest(total_area=5.0).jobs([DIAGRAM])
    assert sum(job.spec.areas) == pytest.approx(5)


def test_a_boundary_that_rules_do_not_allow_is_refused_with_the_least():
    def outline(depth: float) -> Outline:
        return Outline(boundary=((0, 0), (5, 0), (5, depth), (0, depth)))

    with pytest.raises(DiagramError, match=r"boundary': 10 m2.*default.*18\.7 m2.*rules=none"):
        PlanRequest(outline=outline(2), rules=DEFAULT).jobs([DIAGRAM])
    (job,) = PlanRequest(outline=outline(4), rules=DEFAULT).jobs([DIAGRAM])
    assert sum(job.spec.areas) == pytest.approx(19.5)  # 0.975 of it; another share is too small


def test_a_total_that_cannot_fill_the_boundary_is_refused():
    outline = Outline(boundary=((0, 0), (12, 0), (12, 8), (0, 8)))
    with pytest.raises(ValueError, match=r"88\.2 m2 at most cannot fill 95% .* 96 m2.*least 86\.3"):
        PlanRequest(total_area=84.0, outline=outline, rules=DEFAULT)
    assert PlanRequest(total_area=86.3, outline=outline, rules=DEFAULT).total_area == 86.3
    assert PlanRequest(total_area=84.0, outline=outline).total_area == 84.0


def test_seed_and_place_decide_what_is_drawn():
    def drawn(seed: int) -> list[tuple[float, ...]]:
        return [job.spec.areas for job in PlanRequest(RoomAreas(), seed=seed).jobs([DIAGRAM] * 2)]

    assert drawn(0) == drawn(0)
    assert len({*drawn(0), *drawn(1)}) == 4


@pytest.mark.parametrize(
    ("metadata", "named"),
    [
        ({"areas": [1, 2]}, "areas"),
        ({"areas": [1, 2, 0]}, "areas"),
        ({"areas": [1, 2, True]}, "areas"),
        ({"areas": [90, None, None]}, "80.0 m2"),
        ({"boundary": [[0, 0], [1, 1]]}, "boundary"),
    ],
)
def test_what_a_plan_says_wrongly_is_named(metadata, named):
    request = PlanRequest(areas=RoomAreas(), total_area=80.0)
    with pytest.raises(DiagramError, match=named) as error:
        request.jobs([DIAGRAM, replace(DIAGRAM, metadata=metadata)])
    assert "plan 2" in str(error.value)


def test_north_is_in_the_metadata_of_plans_and_that_of_a_line_counts_without_another():
    plain = BubbleDiagram((0, 1), ((0, 1, 2),))
    turned = replace(plain, metadata={"north": -10})
    wanted = [(plain, None, None), (plain, 30.0, 30.0), (turned, None, -10), (turned, 30.0, 30.0)]
    for diagram, asked, north in wanted:
        job = PlanRequest(north=asked).job(1, diagram)
        assert (job.spec.north, job.diagram.metadata.get("north")) == (north, north)
    with pytest.raises(ValueError, match=r"'north'.*'up'"):
        PlanRequest().job(1, replace(plain, metadata={"north": "up"}))
