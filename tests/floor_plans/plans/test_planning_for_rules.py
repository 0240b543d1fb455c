"""Plans that the solver finds for rules of living, judged apart from it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from floor_plans import BubbleDiagram
from floor_plans.drawings.realised_files import PlanFiles, broken_rules
from floor_plans.plans.doors import find_doors
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.outline import FREE, Outline
from floor_plans.rules.rule_set import NO_RULES, RuleSet, judge, read_rules
from floor_plans.solver.plan_model import PlanModel
from floor_plans.solver.realised import Job, Realised, shortfalls_of
from floor_plans.solver.realising import plan_from_boxes, realise
from floor_plans.solver.requests import PlanRequest
from floor_plans.solver.shapes import find_windows
from floor_plans.solver.spec import ONLY_AREAS, WITHOUT_RULES, PlanSpec, Priority
from plan_examples import diagram_of, floor_plan, only

pytest.importorskip("ortools", reason="OR-Tools finds plans")
pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")

DEFAULT = read_rules("default")
PLOT = Outline(boundary=((0, 0), (8, 0), (8, 6), (0, 6)))


def found_for(
    diagram: BubbleDiagram, areas: tuple[float, ...], rules: RuleSet, outline: Outline = FREE
) -> Realised:
    return realise(Job(diagram, PlanSpec(areas, outline=outline, rules=rules)))


FLAT = diagram_of("LivingRoom Bathroom", "0 left-of 1")
THREE = diagram_of("LivingRoom Kitchen MasterRoom", "0 left-of 1", "0 left-above 2", "1 above 2")
"""Each of the three beside both others, or the bedroom diagonally below the living room."""


STRICTER = {"width": {"least": {"Bathroom": 1.6}}, "area": {"least": {"Bathroom": 2.7}}}


@pytest.mark.parametrize("name", STRICTER)
def test_what_breaks_a_rule_keeps_it_where_the_solver_knows_it(name):
    rules, areas = only(name, **{name: STRICTER[name]}), (20.0, 2.5)
    dropped, found = (found_for(FLAT, areas, each) for each in (NO_RULES, rules))
    assert judge(dropped.plans[0], rules).kept[name] is False
    assert judge(found.plans[0], rules).kept[name] is True
    assert found.plans[0].honours_diagram
    assert found.plans[0].overlap == 0


def allows(model: PlanModel, boxes: list[tuple[int, int, int, int]], *literals: Any) -> bool | None:
    """True if rooms in these boxes, decimetres, meet the literals."""
    for i, box in enumerate(boxes):
        sides = model.sides_of(i)
        for side, value in zip(sides, box, strict=True):
            model.cp.add(side == value)
    return model.box_model.solve(1.0, assumed=literals)[0]


def l_plot(x: bool = False, y: bool = False) -> Outline:
    """An L in 9 x 9 m, mirrored along some axes."""
    corners = ((0, 0), (9, 0), (9, 5), (4, 5), (4, 9), (0, 9))
    return Outline(boundary=tuple((9 - a if x else a, 9 - b if y else b) for a, b in corners))


BENT = [("LivingRoom", (1, 2, 9, 9)), ("Kitchen", (0, 0, 9, 2)), ("Bathroom", (0, 2, 1, 9))]
"""A living room around the corner of an L, with a kitchen above and a bath beside it."""


@pytest.mark.parametrize(("x", "y"), [*product((False, True), repeat=2)])
def test_a_room_bends_around_the_corner_of_an_l(x, y):
    """Its longest outer wall, of 5 m, is at the corner."""
    rooms = []
    for kind, (x0, y0, x1, y1) in BENT:
        (x0, x1), (y0, y1) = (
            (9 - x1, 9 - x0) if x else (x0, x1),
            (9 - y1, 9 - y0) if y else (y0, y1),
        )
        rooms.append((kind, (x0, y0, x1, y1)))
    diagram = floor_plan(rooms).diagram
    boxes = [tuple(10 * side for side in box) for _, box in rooms]
    spec = PlanSpec((36.0, 18.0, 7.0), outline=l_plot(x, y), rules=only("fill"))
    for length, expected in ((50, True), (51, False)):
        model = PlanModel(diagram.rooms, diagram.relations, spec)
        floor = model.rooms.floors[0]
        wall = model.outline.outer_wall(0, length)
        assert allows(model, boxes, wall, model.rooms.literal(floor == 3600)) is expected
    bent = plan_from_boxes(diagram, spec, tuple(boxes))
    assert bent.areas == pytest.approx((36, 18, 7))
    assert judge(bent, DEFAULT).kept["fill"]
    assert FloorPlan.of(bent.to_diagram()).areas == bent.areas
    assert all(len(corner) == 2 for ring in bent.to_json()["floors"] for corner in ring)


@pytest.mark.parametrize(("size", "expected"), [((4.0, 9.0), True), ((5.1, 5.1), False)])
def test_the_rectangle_of_a_bent_room_is_in_the_outline(size, expected):
    sizes = {"least": {"LivingRoom": (size,)}, "in_front": {}, "wall": 0.0}
    spec = PlanSpec((61.0,), outline=l_plot(), rules=only("furniture", furniture=sizes))
    model = PlanModel((0,), (), spec)
    (holds,) = (e.literal for e in model.rooms.soft if e.requirement.rule == "furniture")
    assert allows(model, [(0, 0, 90, 90)], holds) is expected


@pytest.mark.parametrize(
    ("bath", "expected"),
    [
        ((0, 0, 20, 20), True),
        ((0, 0, 50, 17), False),
        ((0, 0, 20, 15), True),
        ((0, 0, 35, 15), False),
    ],
)
def test_a_bedroom_around_a_bath_is_as_wide_as_its_ratio(bath, expected):
    """Of a box of 6 x 3.5 m; its arms are judged, not the box."""
    boxes = [(0, 0, 60, 35), bath]
    rooms = zip(("MasterRoom", "Bathroom"), boxes, strict=True)
    plan = floor_plan([(kind, tuple(side / 10 for side in box)) for kind, box in rooms])
    spec = PlanSpec((15.0, 6.0), rules=only("shape", shape={"narrow": {}}))
    model = PlanModel(plan.diagram.rooms, plan.diagram.relations, spec)
    kept = [e.literal for e in model.rooms.soft if e.requirement.text.endswith("as wide")]
    assert allows(model, boxes, *kept) is expected
    assert judge(plan, spec.rules).kept["shape"] is expected


@pytest.mark.parametrize(("depth", "expected"), [(20, True), (21, False)])
def test_a_balcony_is_as_wide_as_deep_along_the_room_it_is_entered_from(depth, expected):
    boxes = [(0, 0, 60, 40), (20, 40, 40, 40 + depth), (40, 40, 80, 70)]
    rooms = zip(("LivingRoom", "Balcony", "MasterRoom"), boxes, strict=True)
    plan = floor_plan([(kind, tuple(side / 10 for side in box)) for kind, box in rooms])
    spec = PlanSpec((24.0, 4.0, 12.0), rules=DEFAULT)
    model = PlanModel(plan.diagram.rooms, plan.diagram.relations, spec)
    (wide,) = [e.literal for e in model.rooms.soft if e.requirement.text.endswith("wide as deep")]
    assert allows(model, boxes, wide) is expected


@pytest.mark.parametrize(("top", "expected"), [(0, True), (40, False)])
def test_a_balcony_in_the_corner_of_the_room_it_is_entered_from_has_any_depth(top, expected):
    """In a corner of the living room, or of the bedroom below it."""
    boxes = [(0, 0, 60, 40), (0, 40, 60, 80), (45, top, 60, top + 25)]
    rooms = zip(("LivingRoom", "MasterRoom", "Balcony"), boxes, strict=True)
    plan = floor_plan([(kind, tuple(side / 10 for side in box)) for kind, box in rooms])
    model = PlanModel(
        plan.diagram.rooms, plan.diagram.relations, PlanSpec((24.0, 24.0, 4.0), rules=DEFAULT)
    )
    (wide,) = [e.literal for e in model.rooms.soft if e.requirement.text.endswith("wide as deep")]
    assert allows(model, boxes, wide) is expected


@pytest.mark.parametrize(("depth", "expected"), [(9, True), (8, False)])
def test_a_corner_of_a_compact_outline_is_cut_by_a_metre_nearly(depth, expected):
    diagram = floor_plan([("LivingRoom", (0, 0, 6, 4)), ("Bathroom", (6, 0, 8, 3))]).diagram
    spec = PlanSpec((24.0, 6.0), rules=only("compact"))
    model = PlanModel(diagram.rooms, diagram.relations, spec)
    (filled,) = [e.literal for e in model.rooms.soft if e.requirement.rule == "compact"]
    assert allows(model, [(0, 0, 60, 40), (60, 0, 80, 40 - depth)], filled) is expected


@pytest.mark.parametrize(("width", "expected"), [(40, True), (31, False)])
def test_a_master_room_with_the_largest_target_is_the_largest(width, expected):
    boxes = [(0, 0, 90, 40), (0, 40, width, 80), (90 - 35, 40, 90, 80)]
    rooms = zip(("LivingRoom", "MasterRoom", "SecondRoom"), boxes, strict=True)
    plan = floor_plan([(kind, tuple(side / 10 for side in box)) for kind, box in rooms])
    model = PlanModel(plan.diagram.rooms, plan.diagram.relations, PlanSpec((36.0, 13.0, 13.0)))
    rough = [e.literal for e in model.rooms.soft if e.priority == Priority.ROUGH_AREAS]
    assert allows(model, boxes, *rough) is expected


@pytest.mark.parametrize(
    ("gap", "facing", "expected"), [(10, 20, False), (11, 20, True), (10, 7, True), (10, 8, False)]
)
def test_unrelated_rooms_face_each_other_across_more_than_a_slit(gap, facing, expected):
    """A slit of 1 m between the middles of walls leaves 0.7 m."""
    boxes = [(0, 0, 60, 40), (0, 40, 20, 60), (20 + gap, 60 - facing, 60, 80 - facing)]
    rooms = [("LivingRoom", boxes[0]), ("MasterRoom", boxes[1]), ("StudyRoom", boxes[2])]
    plan = floor_plan([(kind, tuple(side / 10 for side in box)) for kind, box in rooms])
    assert (1, 2) not in {(i, j) for i, j, _ in plan.diagram.relations}
    spec = PlanSpec((24.0, 4.0, 6.0), rules=only("slits"))
    model = PlanModel(plan.diagram.rooms, plan.diagram.relations, spec)
    assert (
        allows(model, boxes, *(e.literal for e in model.rooms.soft if e.requirement.rule))
        is expected
    )


@pytest.mark.parametrize(("length", "expected"), [(20, True), (21, False)])
def test_an_outer_wall_counts_where_no_room_inside_takes_it(length, expected):
    """The bedroom takes 4 of 6 m of both outer walls of the living room."""
    relations = ("0 surrounding 1", "0 left-of 2", "0 above 3", "2 right-above 3")
    diagram = diagram_of("LivingRoom MasterRoom Kitchen Bathroom", *relations)
    spec = PlanSpec((20.0, 16.0, 12.0, 12.0))
    model = PlanModel(diagram.rooms, diagram.relations, spec)
    boxes = [(0, 0, 60, 60), (0, 0, 40, 40), (60, 0, 80, 60), (0, 60, 60, 80)]
    assert allows(model, boxes, model.outline.outer_wall(0, length)) is expected


@pytest.mark.parametrize(("left", "expected"), [(49, False), (30, True)])
def test_related_rooms_meet_where_no_room_inside_lies_between(left, expected):
    """The balcony lies below the bedroom, in a corner of the living room's box."""
    diagram = diagram_of(
        "LivingRoom MasterRoom Balcony", "0 surrounding 1", "0 above 2", "1 above 2"
    )
    spec = PlanSpec((40.0, 16.0, 5.6), rules=DEFAULT)
    model = PlanModel(diagram.rooms, diagram.relations, spec)
    boxes = [(0, 0, 111, 66), (49, 31, 111, 57), (left, 57, 111, 66)]
    walls = [each.literal for each in model.rooms.soft if each.priority is Priority.WALLS]
    assert allows(model, boxes, *walls) is expected


def compact_model(changed: dict[str, Any]) -> tuple[PlanModel, Any]:
    """Of two rooms of 26 m2, and the wish for a compact outline."""
    rules = only("compact", compact=changed)
    diagram = diagram_of("LivingRoom Kitchen", "0 left-of 1")
    model = PlanModel(diagram.rooms, diagram.relations, PlanSpec((20.0, 6.0), rules=rules))
    (compact,) = [each.literal for each in model.rooms.soft if each.priority is Priority.FILL]
    return model, compact


STEPPED = [(0, 0, 50, 40), (50, 0, 80, 20)]
"""An outline of 24 m around 26 m2, 1.18 times as long as that of a square."""


@pytest.mark.parametrize(("corners", "expected"), [(6, True), (4, False)])
def test_a_compact_plan_is_a_box_but_for_its_corners(corners, expected):
    model, compact = compact_model({"corners": corners})
    assert allows(model, STEPPED, compact) is expected


@pytest.mark.parametrize(("perimeter", "expected"), [(1.2, True), (1.15, False)])
def test_a_tightened_outline_is_short_for_its_area(perimeter, expected):
    model, compact = compact_model({"perimeter": perimeter})
    assert allows(model, STEPPED, compact)
    model.outline.tighten()
    assert allows(model, STEPPED, compact) is expected


@pytest.mark.parametrize(("step", "expected"), [(1, True), (2, False)])
def test_the_walls_of_a_tightened_outline_are_in_line(step, expected):
    """A step of .1 m takes .25 m2."""
    model, compact = compact_model({})
    boxes = [(0, 0, 50, 40), (50, step, 75, 20 + step)]
    assert allows(model, boxes, compact)
    model.outline.tighten()
    assert allows(model, boxes, compact) is expected


def test_outer_walls_of_balconies_are_no_rule():
    """They are left out where only so the rules are kept, and no proof that these are not."""
    diagram = diagram_of("LivingRoom Balcony", "0 left-of 1")
    model = PlanModel(diagram.rooms, diagram.relations, PlanSpec((20.0, 4.0), rules=DEFAULT))
    walls = [each for each in model.rooms.soft if each.requirement.text.endswith("outer wall")]
    balconies = [each for each in walls if each.requirement.rooms == (1,)]
    assert [(each.priority, each.requirement.rule) for each in balconies] == [
        (Priority.BALCONIES, "")
    ]
    assert Priority.BALCONIES in WITHOUT_RULES
    assert {each.priority for each in walls if each.requirement.rooms == (0,)} == {Priority.FACADE}


@pytest.mark.parametrize("hall", [False, True])
def test_a_hall_takes_no_balcony_from_its_room(hall):
    """The balcony is as wide as deep along the master room, and far from any hall."""
    diagram = diagram_of("LivingRoom MasterRoom Balcony", "0 above 1", "1 above 2")
    spec = PlanSpec((24.8, 20.0, 4.5), rules=DEFAULT)
    model = PlanModel(diagram.rooms, diagram.relations, spec, hall=hall)
    soft = [each for each in model.rooms.soft if each.requirement.text.endswith("wide as deep")]
    (met,) = (each.literal for each in soft)
    assert allows(model, [(0, 0, 62, 40), (0, 40, 50, 80), (3, 80, 33, 95)], met)


def test_a_balcony_without_an_outer_wall_and_the_areas_of_rooms_are_given_up_by_name():
    ring = [("LivingRoom", (0, 0, 5, 2)), ("Kitchen", (3, 2, 5, 5)), ("Storage", (0, 3, 3, 5))]
    plan = floor_plan([*ring, ("MasterRoom", (0, 2, 1, 3)), ("Balcony", (1, 2, 3, 3))])
    spec = PlanSpec((10.0, 5.0, 6.0, 0.5, 2.0))
    found = {each.demand: each for each in shortfalls_of(plan, spec) if not each.rule}
    assert found["balconies"].rooms == (4,)
    assert found["areas"].rooms == (3, 1)  # 1 m2 for .5, 6 for 5
    assert "master room" in found["areas"].found
    outside = floor_plan([*ring[:2], ("Balcony", (1, 2, 3, 3))])
    spec = PlanSpec((10.0, 6.0, 2.0))
    assert "balconies" not in {each.demand for each in shortfalls_of(outside, spec)}


def test_an_outline_is_filled_before_areas_are_kept():
    dropped, found = (found_for(FLAT, (30.0, 8.0), each, PLOT) for each in (NO_RULES, DEFAULT))
    assert judge(dropped.plans[0], DEFAULT).kept["fill"] is False
    assert judge(found.plans[0], DEFAULT).keeps_all
    assert [each.demand for each in found.given_up] == ["areas"]


@pytest.mark.parametrize("place", [(0.0, 2.0), (2.5, 6.0)])
def test_a_front_door_is_where_it_is_wished(place):
    spec = PlanSpec((36.0, 11.0), outline=PLOT, rules=DEFAULT, front_door=place)
    found = realise(Job(FLAT, spec))
    assert found.given_up == ()
    assert judge(found.plans[0], DEFAULT).keeps_all
    (door,) = [door for door in found.plans[0].doors if door.is_front]
    middle = [(a + b) / 2 for a, b in zip(door.start, door.end, strict=True)]
    assert math.dist(middle, place) <= 1.0


def test_a_front_door_that_is_not_where_it_is_wished_is_said():
    rooms = {"LivingRoom": (0.0, 0.0, 5.0, 6.0), "Bathroom": (5.0, 0.0, 8.0, 6.0)}
    spec = PlanSpec((30.0, 18.0), outline=PLOT, front_door=(8.0, 3.0))
    plan = find_doors(floor_plan(rooms, boundary=PLOT.boundary), front=spec.front_door)
    missed = [each for each in shortfalls_of(plan, spec) if each.demand == "front door"]
    assert [each.rooms for each in missed] == [(0,)]
    (door,) = [door for door in plan.doors if door.is_front]
    assert max(door.start[0], door.end[0]) > 4.5  # as near as it can be


def test_a_more_important_wish_is_kept_and_a_lesser_one_is_said():
    """A bath of 1.3 m by 1.3 m is larger than its target by more than the tolerance."""
    found = found_for(FLAT, (20.0, 1.0), only("width"))
    assert [each.demand for each in found.given_up] == ["areas"]
    assert judge(found.plans[0], only("width")).keeps_all


MIDDLE = diagram_of(
    "LivingRoom MasterRoom SecondRoom Kitchen Bathroom",
    "0 right-of 1",
    "0 left-of 2",
    "0 below 3",
    "0 above 4",
)
"""A living room with rooms on all four sides."""
AROUND = (16.0, 12.0, 12.0, 6.0, 5.0)


def around_the_middle(kitchen: tuple[int, int]) -> list[tuple[int, int, int, int]]:
    """Boxes of ``MIDDLE``, in decimetres, with the kitchen from where to where along the top."""
    first, last = kitchen
    return [
        (30, 20, 70, 60), (0, 20, 30, 60), (70, 20, 100, 60), (first, 0, last, 20), (40, 60, 60, 85)
    ]  # fmt: skip


@pytest.mark.slow
def test_a_room_in_the_middle_has_the_outer_wall_that_a_rule_wants():
    rules = only("facade", facade={"rooms": ("LivingRoom",), "length": 4.0})
    dropped, found = (found_for(MIDDLE, AROUND, each) for each in (NO_RULES, rules))
    assert judge(dropped.plans[0], rules).kept["facade"] is False
    assert judge(found.plans[0], rules).kept["facade"] is True
    assert found.plans[0].honours_diagram


@pytest.mark.parametrize(
    ("kitchen", "names", "is_outside"),
    [
        ((42, 62), ("facade", "compact"), True),  # a recess of 1.2 m beside it
        ((42, 58), ("facade", "compact"), True),
        ((41, 60), ("facade", "compact"), False),  # 1.1 and 1 m
        ((42, 62), ("facade",), False),  # recesses are looked for in compact plans
    ],
)
def test_a_wall_in_a_recess_of_the_outline_is_an_outer_wall(kitchen, names, is_outside):
    model = PlanModel(MIDDLE.rooms, MIDDLE.relations, PlanSpec(AROUND, rules=only(*names)))
    assert allows(model, around_the_middle(kitchen), model.outline.outer_wall(0, 12)) is is_outside


@pytest.mark.slow
@pytest.mark.parametrize("hall", [False, True])
def test_fixed_literals_are_answered_as_assumed_ones(hall):
    model = PlanModel(MIDDLE.rooms, MIDDLE.relations, PlanSpec(AROUND, rules=DEFAULT), hall=hall)
    answers = []
    for rule in ("front", "access", "width"):
        literals = [each.literal for each in model.rooms.soft if each.requirement.rule == rule]
        fixed, boxes = model.box_model.solve(2.0, fixed=literals)
        assert fixed is not None
        assert fixed == model.box_model.solve(4.0, assumed=literals)[0]
        assert fixed == model.box_model.solve(4.0, fixed=literals, taking_turns=True)[0]
        if boxes is not None:
            assert all(model.box_model.value(literal) for literal in literals)
        answers.append(fixed)
    literals = [each.literal for each in model.rooms.soft]
    none = [literals[0].negated()]
    assert model.box_model.solve(1.0, fixed=[*literals, *none])[0] is False
    assert model.box_model.solve(1.0)[0] is True  # nothing stays fixed
    assert answers[0]


def test_what_meets_all_but_areas_is_begun_with(monkeypatch):
    """A plot of 48 m2, filled, for rooms of 34 m2."""
    spec = PlanSpec((28.0, 6.0), outline=PLOT, rules=only("fill", "access", "facade"))
    model = PlanModel(FLAT.rooms, FLAT.relations, spec)
    assert model.search.meets(1.0, 0) is False
    assert model.search.meets(1.0, 0, ONLY_AREAS) is True
    asked: list[Any] = []
    ask = model.search.solve_all
    monkeypatch.setattr(
        model.search, "solve_all", lambda *words: (asked.append(words), ask(*words))[1]
    )
    assert model.find_best(1.0, 0.1, 0)[0] is True
    assert not asked
    lost = {each.priority for each in model.rooms.soft if not model.box_model.value(each.literal)}
    assert lost == {Priority.AREAS}


def test_rules_come_before_usual_shapes_and_areas():
    """A plot of 48 m2, filled, for rooms of 30 m2: none has more than twice its target."""
    spec = PlanSpec((26.0, 4.0), outline=PLOT, rules=only("fill", "access", "facade"))
    found = realise(Job(FLAT, spec))
    assert [each.kind for each in found.given_up] == ["areas"]
    assert found.plans[0].areas[1] <= 8.0


def test_rules_that_exclude_each_other_are_told(tmp_path):
    """Rooms without a relation lie .7 m apart: a strip of the plot stays empty."""
    apart = diagram_of("LivingRoom Bathroom Storage", "0 left-of 1")
    rules = only("fill", "width", fill={"share": 0.99})
    job = Job(apart, PlanSpec((30.0, 6.0, 4.0), outline=PLOT, rules=rules))
    found = realise(job)
    assert found.excluded
    assert [each.proved for each in found.given_up if each.rule == "fill"] == [False]
    files = PlanFiles(tmp_path / "plans")
    numbers, _ = files.write_found([job], [found])
    (told,) = broken_rules(numbers).splitlines()
    assert told.startswith("plan 1: fill (the rules exclude each other); ruled out: rooms fill 99%")
    (line,) = map(json.loads, (tmp_path / "plans" / "plans.jsonl").read_text().splitlines())
    assert line["rules_excluded"] is True
    again = PlanRequest().job(1, BubbleDiagram.from_json(line))
    assert "rules_excluded" not in again.diagram.metadata
    unasked = realise(replace(job, proofs=False))
    assert (unasked.plans, unasked.excluded) == (found.plans, True)
    met = realise(Job(FLAT, PlanSpec((40.0, 8.0), outline=PLOT, rules=only("fill"))))
    assert not met.excluded
    assert judge(met.plans[0], DEFAULT).kept["fill"]


def test_a_hint_is_of_one_solve():
    """Two for one variable make a model invalid."""
    model = PlanModel(FLAT.rooms, FLAT.relations, PlanSpec((20.0, 5.0), rules=DEFAULT))
    boxes = model.box_model.solve(1.0)[1]
    for _ in range(3):
        assert model.box_model.solve(1.0, hint=boxes)[0] is True


@pytest.mark.slow
def test_a_hall_is_added_where_only_so_a_plot_is_filled():
    relations = "018 029 035 041 057 068 156 160 242 258 368"
    bare = BubbleDiagram(
        (0, 1, 2, 3, 5, 7, 9), [tuple(map(int, each)) for each in relations.split()]
    )
    plot = Outline(boundary=((0, 0), (12, 0), (12, 8), (0, 8)))
    for hall, kept in (("never", False), ("auto", True)):
        (job,) = PlanRequest(outline=plot, rules=DEFAULT, hall=hall).jobs([bare])
        (plan,) = realise(job).plans
        assert judge(plan, DEFAULT).kept["fill"] is kept
        assert (plan.diagram.num_rooms > bare.num_rooms) is kept


@pytest.mark.parametrize(
    ("north", "axis", "sign"), [(0, 1, 1), (90, 0, -1), (180, 1, -1), (270, 0, 1), (-90, 0, 1)]
)
def test_living_rooms_lie_to_the_south_of_a_plot_that_leaves_a_choice(north, axis, sign):
    spec = PlanSpec((16.0, 5.0), outline=PLOT, north=float(north))
    (plan,) = realise(Job(FLAT, spec)).plans
    living, middle = plan.boxes[0].centroid.coords[0], plan.outline.centroid.coords[0]
    assert sign * (living[axis] - middle[axis]) > 0.3


def test_every_room_has_a_window():
    found = found_for(THREE, (20.0, 6.0, 12.0), DEFAULT)
    assert {each.room for each in find_windows(found.plans[0])} == {0, 1, 2}
