"""Dimensioned plans: relations, areas, doors and outlines, checked apart from the solver."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from discrete_diffusion.layout import ROOM_TYPES
from floor_plans import BubbleDiagram, generate_plans
from floor_plans.drawings.realised_files import PlanFiles, numbers_of_plans, summary, unmet_kinds
from floor_plans.plans.doors import find_doors, unreached
from floor_plans.plans.floor_plan import FloorPlan, floor_plans
from floor_plans.plans.outline import Outline
from floor_plans.solver import realising
from floor_plans.solver.plan_model import PlanModel
from floor_plans.solver.realised import Job, Realised, Shortfall, ranked_variants, scores_of
from floor_plans.solver.realising import plan_from_boxes, realise, realise_all
from floor_plans.solver.requests import PlanRequest
from floor_plans.solver.spec import MAX_ASPECTS, PlanSpec, min_width
from plan_examples import FLAT, floor_plan

pytest.importorskip("ortools", reason="OR-Tools finds plans")
shapely = pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")


PLANS = generate_plans(20, seed=7)
AREAS = [plan.areas for plan in floor_plans(PLANS, "pixels")]


def largest_area_error(plan: FloorPlan, targets: Sequence[float]) -> float:
    """Of all rooms, as a share of the target."""
    return max(abs(a - t) / t for a, t in zip(plan.areas, targets, strict=True))


TYPES = {name: code for code, name in enumerate(ROOM_TYPES)}


def job(diagram: BubbleDiagram, **spec) -> Job:
    areas = spec.pop("areas", None) or AREAS[PLANS.index(diagram)]
    variants = spec.pop("variants", 1)
    return Job(replace(diagram, boxes=None), PlanSpec(areas, **spec), variants)


def diagram_of(rooms: str, *relations: tuple[int, int, int]) -> BubbleDiagram:
    return BubbleDiagram(tuple(TYPES[name] for name in rooms.split()), relations)


@pytest.fixture(scope="module")
def realised():
    jobs = [job(plan) for plan in PLANS[:4]]
    return list(zip(jobs, realise_all(jobs), strict=True))


@pytest.mark.slow
def test_plans_have_the_relations_areas_shapes_and_doors_that_were_asked_for(realised):
    for one, found in realised:
        (plan,) = found.plans
        assert found.given_up == ()
        assert plan.diagram == replace(one.diagram, boxes=plan.diagram.boxes)
        assert plan.honours_diagram
        assert plan.overlap == 0
        assert all(isinstance(floor, shapely.Polygon) for floor in plan.rooms)  # not in two parts
        assert largest_area_error(plan, one.spec.areas) <= 0.1 + 1e-9
        assert plan.dead_area < 0.35 * plan.outline.area
        boxes = zip(one.diagram.rooms, one.spec.areas, plan.diagram.boxes, strict=True)
        for room, area, box in boxes:  # of usual shapes
            sides = sorted((box[2] - box[0], box[3] - box[1]))
            assert sides[0] >= min_width(room, area) - 0.1 - 1e-9
            assert sides[1] <= MAX_ASPECTS[room] * sides[0] + 1e-9
        assert unreached(plan) == ()
        assert sum(door.is_front for door in plan.doors) == 1


@pytest.mark.slow
def test_the_same_job_gives_the_same_plan_in_any_thread(realised):
    jobs = [one for one, _ in realised[:2]]
    again = list(realise_all(jobs, threads=2))
    assert [found.plans for found in again] == [found.plans for _, found in realised[:2]]


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [8.0, 1 / 8])
def test_a_long_rectangle_has_room_for_all_areas(ratio):
    """The solver's grid is as long as the outline."""
    code = 2 if ratio > 1 else 3
    row = [(k, k + 1, code) for k in range(3)]
    diagram = diagram_of("Kitchen Bathroom Storage Kitchen", *row)
    found = realise(job(diagram, areas=(8.0,) * 4, outline=Outline(ratio=ratio)))
    assert found.given_up == ()
    assert found.plans[0].honours_diagram
    x0, y0, x1, y1 = found.plans[0].outline.bounds
    assert (x1 - x0) / (y1 - y0) == pytest.approx(ratio, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(
    "corners",
    [
        [(2.0, 1.0), (14.0, 1.0), (14.0, 7.0), (9.0, 7.0), (9.0, 13.0), (2.0, 13.0)],
        [(0.0, 0.0), (16.0, 0.0), (13.0, 12.0), (0.0, 14.0)],
    ],
    ids=["L-shaped", "slanted"],
)
def test_a_plan_lies_in_its_boundary(corners):
    outline = Outline(boundary=tuple(corners))
    diagram = diagram_of("LivingRoom MasterRoom Bathroom Kitchen", (0, 1, 3), (0, 2, 2), (0, 3, 7))
    found = realise(job(diagram, areas=(32.0, 16.0, 5.0, 8.0), outline=outline))
    (plan,) = found.plans
    assert plan.boundary == outline.boundary
    assert all(plan.outline.buffer(1e-6).covers(box) for box in plan.boxes)
    assert plan.honours_diagram
    assert found.given_up == ()


@pytest.mark.slow
def test_rooms_inside_others_leave_them_their_floor():
    inside = [(0, 1, 5), (0, 2, 5), (0, 3, 5), (1, 3, 5)]
    diagram = diagram_of("LivingRoom Storage Bathroom Wall-in", *inside)
    targets = (40.0, 6.0, 5.0, 2.0)
    (plan,) = realise(job(diagram, areas=targets)).plans
    assert plan.honours_diagram
    assert largest_area_error(plan, targets) <= 0.1
    assert plan.boxes[0].covers(plan.boxes[1])
    assert plan.boxes[1].covers(plan.boxes[3])
    boxes = plan.diagram.boxes
    for inner, outer in ((1, 0), (2, 0), (3, 1)):
        gaps = [abs(a - b) for a, b in zip(boxes[inner], boxes[outer], strict=True)]
        assert all(gap < 1e-9 or gap >= 0.9 - 1e-9 for gap in gaps)  # no slivers


@pytest.mark.parametrize("kitchen", [(0, 2, 5), (0, 2, 0)], ids=["inside", "left-above"])
def test_the_area_of_a_room_in_a_corner_is_taken_off_once(kitchen):
    """Where the dining room is inside the living room, so is what lies in its corner: the model of
    the solver must believe the floors that the plan has."""
    diagram = diagram_of("LivingRoom DiningRoom Kitchen", (0, 1, 5), kitchen, (1, 2, 0))
    spec = PlanSpec((30.0, 12.0, 3.0))
    model = PlanModel(diagram.rooms, diagram.relations, spec)
    assert (2, 1) not in model.rooms.in_corner
    answer, boxes = model.find_best(0.5, 0.1, seed=0)
    assert answer
    plan = plan_from_boxes(diagram, spec, boxes)
    assert largest_area_error(plan, spec.areas) <= 0.1


def test_a_hall_in_a_corner_leaves_the_room_its_relations():
    """The room has its shorter wall on both sides, and its centre: else one would read that it is
    inside the hall."""
    diagram = diagram_of("Kitchen Bathroom", (0, 1, 2))
    spec = PlanSpec((7.0, 5.0))
    model = PlanModel(diagram.rooms, diagram.relations, spec, hall=True)
    model.cp.maximize(model.rooms.floors[2])
    answer, boxes = model.box_model.solve(0.5, seed=0, fixed=[model.rooms.in_corner[2, 0]])
    assert answer
    kitchen, hall = boxes[0], boxes[2]
    longer = [kitchen[a + 2] - kitchen[a] - (hall[a + 2] - hall[a]) for a in (0, 1)]
    assert min(longer) >= 9
    assert plan_from_boxes(diagram, spec, boxes).honours_diagram


def test_every_variant_says_what_it_does_not_meet(monkeypatch):
    """Doors are found for each plan apart, so that one may have less than another."""
    unreached = iter([(), (1,)])
    monkeypatch.setattr("floor_plans.solver.realised.unreached", lambda plan: next(unreached))
    diagram = diagram_of("LivingRoom Kitchen", (0, 1, 2))
    found = realise(job(diagram, areas=(30.0, 8.0), variants=2))
    missed = Shortfall("no door leads to kitchen", demand="doors", rooms=(1,))
    assert found.shortfalls == ((), (missed,))
    assert found.given_up == (missed,)


@pytest.mark.slow
def test_variants_differ_in_half_of_their_rooms_by_a_metre():
    plans = realise(job(PLANS[2], variants=3)).plans
    assert len(plans) == 3
    for k, plan in enumerate(plans):
        assert plan.honours_diagram
        for other in plans[:k]:
            moved = [
                max(abs(a - b) for a, b in zip(box, twin, strict=True)) >= 1 - 1e-9
                for box, twin in zip(plan.diagram.boxes, other.diagram.boxes, strict=True)
            ]
            assert 2 * sum(moved) >= len(moved)


@pytest.mark.slow
def test_other_areas_are_tried_before_any_are_given_up():
    diagram = diagram_of("LivingRoom Bathroom", (0, 1, 4))  # the living room inside the bathroom
    asked = job(diagram, areas=(30.0, 3.0))
    found = realise(replace(asked, other_areas=((30.0, 2.0), (10.0, 20.0))))
    assert found.given_up == ()
    assert found.areas == (10.0, 20.0)
    assert largest_area_error(found.plans[0], found.areas) <= 0.1 + 1e-9


@pytest.mark.slow
def test_why_there_is_no_plan():
    circle = diagram_of("LivingRoom Kitchen Bathroom", (0, 1, 2), (1, 2, 2), (0, 2, 7))
    reason = realise(job(circle, areas=(30.0, 8.0, 5.0))).reason
    assert "no floor plan exists" in reason
    for words in ("living room left-of kitchen", "bathroom left-of living room"):
        assert words in reason
    tiny = Outline(boundary=((0, 0), (1, 0), (1, 1), (0, 1)))
    found = realise(job(PLANS[0], outline=tiny))
    assert found.plans == ()
    assert "outline" in found.reason


def test_what_takes_too_long_is_said_to_be_open(monkeypatch):
    monkeypatch.setattr(realising, "EFFORT", 1e-9)
    monkeypatch.setattr(realising, "find_boxes", lambda *_: (None, None))
    found = realise(job(PLANS[0]))
    assert found.plans == ()
    assert "none was ruled out" in found.reason


def test_a_plan_says_whether_it_honours_its_diagram():
    diagram = diagram_of("LivingRoom Kitchen Storage", (0, 1, 2), (1, 2, 5))
    boxes = ((0.0, 0.0, 4.0, 4.0), (4.0, 0.0, 8.0, 4.0), (5.0, 1.0, 6.0, 2.0))
    assert FloorPlan(replace(diagram, boxes=boxes)).honours_diagram
    for room, wrong in (
        (0, (8.0, 0.0, 12.0, 4.0)),  # on the other side
        (0, (0.0, 0.0, 3.0, 4.0)),  # too far away
        (2, (3.8, 1.0, 4.8, 2.0)),  # partly outside, and near the living room
    ):
        moved = tuple(wrong if k == room else box for k, box in enumerate(boxes))
        assert not FloorPlan(replace(diagram, boxes=moved)).honours_diagram


def test_scores_of_a_rectangle_in_half_of_its_plot():
    plot = ((0.0, 0.0), (8.0, 0.0), (8.0, 4.0), (0.0, 4.0))
    plan = floor_plan([("LivingRoom", (0.0, 0.0, 4.0, 4.0))], boundary=plot)
    found = scores_of(plan, [20.0])
    assert found.compactness == pytest.approx(1.0)
    assert found.fill == pytest.approx(0.5)
    assert found.area_error == pytest.approx(0.2)
    assert found.light == pytest.approx(1.3 * 1.0 / 16)  # 1.28 m2 are 0.985 m: a tenth upwards
    assert found.total == pytest.approx((1 + 0.5 + 0.8 + 1) / 4)
    assert found.num_broken == 3  # no front door, no way from it, and the plot is not full
    longer = floor_plan([("LivingRoom", (0.0, 0.0, 8.0, 2.0))])
    assert scores_of(longer, [16.0]).compactness == pytest.approx(0.8)
    assert scores_of(longer, [16.0]).to_json()["fill"] == 1.0
    dark = scores_of(floor_plan([("Storage", (0.0, 0.0, 2.0, 2.0))]), [4.0])
    assert dark.light is None
    assert dark.total == 1.0
    assert "light" not in dark.sentence()


def test_the_best_is_first():
    """What is given up counts first, then rules, then the scores."""
    home = find_doors(FLAT)
    doorless = replace(home, doors=())
    wide = replace(home, boundary=((0.0, 0.0), (40.0, 0.0), (40.0, 40.0), (0.0, 40.0)))
    areas = Shortfall("areas are off", demand="areas")
    plans, shortfalls = (home, doorless, home, wide), ((areas,), (), (), ())
    found, scores = ranked_variants(Realised(plans, FLAT.areas, shortfalls))
    assert (found.plans[0], found.plans[-1]) == (home, home)
    assert {*found.plans[1:3]} == {doorless, wide}
    assert found.shortfalls == ((), (), (), (areas,))
    broken = [each.num_broken for each in scores[:3]]
    assert broken == sorted(broken)
    assert broken[0] < broken[-1]
    assert all(math.isclose(each.area_error, 0) for each in scores)
    assert ranked_variants(Realised(reason="none")) == (Realised(reason="none"), ())


@pytest.mark.parametrize(
    ("typical", "num_met", "named"),
    [
        ((), 0, {"areas 1"}),
        ((0,), 0, {"areas 1", "typical areas"}),
        ((0, 1), 1, {"typical areas"}),
    ],
)
def test_areas_that_nobody_requested_are_told_apart(tmp_path, typical, num_met, named):
    spec = PlanSpec(FLAT.areas, typical=frozenset(typical))
    areas = Shortfall("areas are off", demand="areas", rooms=(1, 0))
    found = Realised((find_doors(FLAT),), FLAT.areas, ((areas,),))
    numbers = numbers_of_plans([found]) | {"seconds": 1.0}
    said = summary(numbers, PlanFiles(tmp_path), [unmet_kinds(Job(FLAT.diagram, spec), found)])
    assert f"; {num_met} meet" in said
    assert {each for each in ("areas 1", "typical areas") if each in said} == named
    assert numbers["given_up"] == {"areas": 1}


def test_areas_that_a_line_lacks_are_typical():
    diagram = diagram_of("LivingRoom Bathroom Storage")
    stated = replace(diagram, metadata={"areas": [20, None, 3]})
    assert PlanRequest().job(1, diagram).spec.typical == {0, 1, 2}
    assert PlanRequest().job(1, stated).spec.typical == {1}
