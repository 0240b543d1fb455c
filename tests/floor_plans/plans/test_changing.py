"""Changes of a plan: what is locked stays, relations hold, and the rest moves little."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("ortools", reason="OR-Tools finds plans")
pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")

from discrete_diffusion.cli import main
from floor_plans import BubbleDiagram, generate_plans, write_diagrams
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.outline import Outline
from floor_plans.rules.finding import added_rooms
from floor_plans.rules.rule_set import judge, read_rules
from floor_plans.solver.changing import Change, change_plan, changed_jobs
from floor_plans.solver.near_search import NearSearch
from floor_plans.solver.realised import Job
from floor_plans.solver.realising import realise
from floor_plans.solver.requests import PlanRequest
from plan_examples import floor_plan

FREE_OF_RULES = PlanRequest()
RULED = PlanRequest(rules=read_rules("default"))
PLOT = Outline(boundary=((2, 1), (13, 1), (13, 10), (2, 10)))
REQUESTS = [FREE_OF_RULES, RULED, replace(RULED, outline=PLOT)]

THREE = floor_plan(
    {
        "LivingRoom": (3.0, 0.0, 9.0, 5.0),
        "Kitchen": (0.0, 0.0, 3.0, 2.4),
        "MasterRoom": (0.0, 2.4, 3.0, 7.5),
    }
)


@cache
def made(number: int, request_number: int) -> FloorPlan:
    """A plan of a generated diagram of five rooms or more."""
    diagrams = [each for each in generate_plans(60, seed=3) if each.num_rooms >= 5]
    diagram = replace(diagrams[number], boxes=None, metadata={})
    return realise(REQUESTS[request_number].job(1, diagram)).plans[0]


def change(before: FloorPlan, after: FloorPlan) -> float:
    """Metres by which sides of rooms moved."""
    pairs = zip(before.diagram.boxes, after.diagram.boxes, strict=False)
    return sum(abs(a - b) for one, other in pairs for a, b in zip(one, other, strict=True))


def sides(plan: FloorPlan, room: int) -> tuple[float, float]:
    x0, y0, x1, y1 = plan.diagram.boxes[room]
    return round(x1 - x0, 6), round(y1 - y0, 6)


@pytest.mark.slow
@pytest.mark.parametrize("request_number", range(3))
@pytest.mark.parametrize("number", range(2))
def test_locked_rooms_stay_where_another_grows(number, request_number):
    before, request = made(number, request_number), REQUESTS[request_number]
    wanted = 1.2 * before.areas[1]
    found = change_plan(Change(before, {0: "size", 2: "place"}, {1: wanted}), request)
    assert found.plans, found.reason
    after = found.plans[0]
    assert after.honours_diagram
    assert after.overlap == pytest.approx(0, abs=1e-6)
    assert after.diagram.boxes[2] == pytest.approx(before.diagram.boxes[2])
    assert sides(after, 0) == pytest.approx(sides(before, 0))
    assert after.areas[1] == pytest.approx(wanted, rel=0.1)
    assert after.boundary == before.boundary


@pytest.mark.slow
def test_a_change_moves_less_than_a_new_plan_with_the_same_areas():
    moved = renewed = 0.0
    for number in range(3):
        before = made(number, 0)
        areas = [(1.2 if room == 1 else 1) * area for room, area in enumerate(before.areas)]
        (after,) = change_plan(Change(before, areas={1: areas[1]}), FREE_OF_RULES).plans
        diagram = replace(before.diagram, metadata={"areas": areas})
        (anew,) = realise(replace(FREE_OF_RULES, seed=1).job(1, diagram)).plans
        moved, renewed = moved + change(before, after), renewed + change(before, anew)
        assert change(before, after) < change(before, anew)
    assert moved < renewed / 4


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_change_is_small_under_the_rules_too_and_breaks_none(number):
    """A larger room, and a wall moved by .3 m: plans with all wishes lie near, and are not looked
    for far away."""
    before = made(number, 1)
    broken = {rule for rule, _ in judge(before, RULED.rules).broken}
    further = round(before.diagram.boxes[1][2] + 0.3, 1)
    for what in ({"areas": {1: 1.2 * before.areas[1]}}, {"moved": {(1, "right"): further}}):
        (after,) = change_plan(Change(before, **what), RULED).plans
        assert change(before, after) < 5
        assert {rule for rule, _ in judge(after, RULED.rules).broken} <= broken


@pytest.mark.slow
def test_without_a_change_nothing_moves():
    for number, request_number in ((0, 0), (1, 1), (0, 2)):
        before = made(number, request_number)
        (after,) = change_plan(Change(before), REQUESTS[request_number]).plans
        assert after.diagram.boxes == tuple(pytest.approx(box) for box in before.diagram.boxes)


def test_a_wall_is_moved_and_its_neighbours_follow():
    (after,) = change_plan(Change(THREE, moved={(1, "right"): 3.4})).plans
    living, kitchen, master = after.diagram.boxes
    assert kitchen == pytest.approx((0, 0, 3.4, 2.4))
    assert living == pytest.approx((3.4, 0, 9, 5))
    assert master == pytest.approx((0, 2.4, 3.4, 7.5))


@pytest.mark.slow
def test_an_outer_wall_of_a_free_outline_moves_either_way_and_the_rest_keeps_its_coordinates():
    for to in (-0.8, 0.4):
        (after,) = change_plan(Change(THREE, moved={(2, "left"): to})).plans
        assert after.diagram.boxes[2] == pytest.approx((to, 2.4, 3, 7.5))
        assert after.diagram.boxes[:2] == tuple(pytest.approx(b) for b in THREE.diagram.boxes[:2])


def test_walls_of_neighbours_stay_in_line_if_that_is_asked():
    job = Change(THREE, moved={(2, "left"): -0.8}).job()
    of = (job.diagram.rooms, job.diagram.relations, job.spec, job.near)
    for in_line in (False, True):
        boxes = NearSearch(*of, in_line=in_line).find_best(0.6, 0.6, 0)[1]
        assert boxes[2][0] == -8
        assert (boxes[1][0] == -8) == in_line


@pytest.mark.slow
def test_a_change_has_variants():
    before = made(0, 1)
    change_of = Change(before, areas={1: 1.2 * before.areas[1]})
    first, second = change_plan(change_of, replace(RULED, variants=2)).plans
    assert first.diagram.boxes != second.diagram.boxes
    assert change(before, first) < change(before, second)


def test_rooms_exchange_their_types_and_a_new_room_is_free():
    swapped = replace(THREE.diagram, rooms=(THREE.diagram.rooms[0], *THREE.diagram.rooms[:0:-1]))
    (after,) = change_plan(Change(THREE), diagram=swapped).plans
    assert after.diagram.rooms == swapped.rooms
    assert change(THREE, after) == 0
    relations = (*THREE.diagram.relations, (0, 3, 2))
    more = BubbleDiagram((*THREE.diagram.rooms, 7), relations)
    found = change_plan(Change(THREE, {0: "place", 1: "place"}, {3: 5.0}), diagram=more)
    (after,) = found.plans
    assert after.diagram.boxes[:2] == tuple(pytest.approx(b) for b in THREE.diagram.boxes[:2])
    assert after.areas[3] == pytest.approx(5, rel=0.1)
    assert after.honours_diagram


def test_what_cannot_be_kept_together_is_named():
    small = Outline(boundary=((0, 0), (9, 0), (9, 7.5), (0, 7.5)))
    request = PlanRequest(outline=small)
    both = Change(THREE, {1: "place", 0: "size"}, moved={(2, "top"): 1.0})
    reason = change_plan(both, request).reason
    assert "the place of kitchen" in reason
    assert "the top wall of master room" in reason
    assert "living" not in reason


def test_locked_rooms_that_break_a_relation_are_named():
    other = tuple((i, j, 7 if (i, j) == (1, 2) else code) for i, j, code in THREE.diagram.relations)
    diagram = replace(THREE.diagram, relations=other)
    kept = Change(THREE, {1: "place", 2: "place"})
    with pytest.raises(ValueError, match="kitchen and master room keep their places"):
        kept.job(diagram=diagram)
    assert change_plan(Change(THREE, {1: "place"}), diagram=diagram).plans[0].honours_diagram


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"locked": {7: "place"}}, "room 7"),
        ({"locked": {0: "colour"}}, "colour"),
        ({"locked": {0: "size"}, "areas": {0: 12.0}}, "areas: room 0"),
        ({"locked": {0: "place"}, "moved": {(0, "left"): 1.0}}, "moved: the place of room 0"),
        ({"moved": {(0, "north"): 1.0}}, "north"),
        ({"moved": {(0, "left"): float("nan")}}, "nan"),
        ({"areas": {0: -1.0}}, "areas: room 0"),
    ],
)
def test_what_excludes_itself_is_refused(options, named):
    with pytest.raises(ValueError, match=named):
        Change(THREE, **options)


@pytest.mark.slow
def test_a_hall_that_was_added_stays():
    boxes = {
        "LivingRoom": (3.9, 0.0, 9.0, 5.2),
        "Kitchen": (0.0, 0.0, 3.0, 2.4),
        "MasterRoom": (0.0, 2.4, 3.0, 7.5),
        "Entrance": (3.0, 0.0, 3.9, 5.8),
    }
    drawn = floor_plan(boxes).diagram
    plan = FloorPlan(replace(drawn, metadata={"added": [3]}))
    (after,) = change_plan(Change(plan, {3: "place"}, {1: 1.1 * plan.areas[1]})).plans
    assert added_rooms(after.diagram) == [3]
    assert after.diagram.boxes[3] == pytest.approx(plan.diagram.boxes[3])
    assert after.areas[1] == pytest.approx(1.1 * plan.areas[1], rel=0.1)
    assert after.honours_diagram


@pytest.mark.slow
def test_lines_say_what_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_diagrams("plans.jsonl", [THREE.to_diagram()])
    line = THREE.to_json()
    changed = line | {
        "areas": [line["areas"][0], 9.0, line["areas"][2]],
        "locked": [{"room": 2, "keep": "place"}],
        "moved": [{"room": 0, "side": "right", "to": 9.5}],
        "model": "bd_small",  # nearly "moved", and no slip
    }
    Path("changed.jsonl").write_text(json.dumps(changed) + "\n")
    main(["plans", "realise", "changed.jsonl", "near=plans.jsonl", "rules=none", "out=built"])
    (after,) = map(json.loads, Path("built/plans.jsonl").read_text().splitlines())
    assert after["boxes"][2] == pytest.approx(line["boxes"][2])
    assert after["boxes"][0][2] == pytest.approx(9.5)
    assert after["areas"][1] == pytest.approx(9, rel=0.1)
    assert "locked" not in after


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("locked", [{"room": 2}], "locked[0]"),
        ("lockd", [{"room": 2, "keep": "place"}], "'locked'"),
        ("areas", {"1": 9.0}, "each of the 3 rooms"),
        ("areas", [9.0], "each of the 3 rooms"),
        ("areas", [None, "9", None], "each of the 3 rooms"),
    ],
)
def test_lines_that_say_it_wrong_are_refused(key, value, named, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_diagrams("plans.jsonl", [THREE.to_diagram()])
    Path("changed.jsonl").write_text(json.dumps(THREE.to_json() | {key: value}) + "\n")
    with pytest.raises(SystemExit):
        main(["plans", "realise", "changed.jsonl", "near=plans.jsonl", "out=other"])
    said = capsys.readouterr().err
    assert "line 1" in said
    assert named in said


def near_job(request: PlanRequest, metadata: dict[str, object]) -> Job:
    """The job of a line with this metadata, near the plan of three rooms in its own boundary."""
    plan = replace(THREE, boundary=BOUNDARY)
    line = replace(THREE.diagram, metadata=metadata)
    return changed_jobs(request, [line], [plan], ["a.jsonl, line 1"])[0]


BOUNDARY = ((0.0, 0.0), (9.0, 0.0), (9.0, 7.5), (0.0, 7.5))


def test_a_line_has_its_own_boundary_if_it_is_not_that_of_the_earlier_plan():
    elsewhere = [[-1, 0], [9, 0], [9, 7.5], [-1, 7.5]]
    request = replace(FREE_OF_RULES, outline=PLOT)
    for asked in (FREE_OF_RULES, request):
        found = near_job(asked, {"boundary": elsewhere}).spec.outline
        assert [list(corner) for corner in found.boundary] == elsewhere
    same = {"boundary": [list(corner) for corner in BOUNDARY]}
    assert near_job(request, same).spec.outline == PLOT
    assert near_job(FREE_OF_RULES, same).spec.outline.boundary == BOUNDARY
    with pytest.raises(DiagramError, match="line 1, field 'boundary': expected the corners"):
        near_job(FREE_OF_RULES, {"boundary": [[0, 0], [1, 1]]})


@pytest.fixture
def in_feet(tmp_path, monkeypatch) -> None:
    """The plan of three rooms as feet.jsonl, whose lines do not say their unit."""
    monkeypatch.chdir(tmp_path)
    boxes = tuple(tuple(side / 0.3048 for side in box) for box in THREE.diagram.boxes)
    write_diagrams("feet.jsonl", [replace(THREE.diagram, boxes=boxes, metadata={})])


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("total_area=90", "total_area=90 and near=feet.jsonl are both given: rooms keep the areas"),
        ("unit=millimetres", "near=feet.jsonl: boxes in unit=millimetres"),
    ],
)
def test_what_an_earlier_plan_excludes_is_refused(in_feet, capsys, option, named):
    with pytest.raises(SystemExit):
        main(["plans", "realise", "feet.jsonl", "near=feet.jsonl", option, "out=o"])
    assert named in capsys.readouterr().err


@pytest.mark.slow
def test_earlier_plans_are_in_the_unit_that_is_given(in_feet):
    words = ["near=feet.jsonl", "unit=feet", "rules=none", "out=built"]
    main(["plans", "realise", "feet.jsonl", *words])
    after = json.loads(Path("built/plans.jsonl").read_text())
    for box, expected in zip(after["boxes"], THREE.diagram.boxes, strict=True):
        assert box == pytest.approx(expected)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("locked", [{"room": 2, "keep": "place"}]),
        ("moved", [{"room": 0, "side": "right", "to": 9.5}]),
    ],
)
def test_changes_without_an_earlier_plan_are_refused(key, value):
    line = replace(THREE.diagram, metadata={key: value})
    expected = f"line 1, field '{key}': needs near=FILE, the earlier plan"
    with pytest.raises(DiagramError, match=expected):
        FREE_OF_RULES.jobs([line], ["a.jsonl, line 1"])
    with pytest.raises(DiagramError, match=expected):
        changed_jobs(FREE_OF_RULES, [line], [None], ["a.jsonl, line 1"])
    FREE_OF_RULES.jobs([replace(line, metadata={key: []})])


NINE = floor_plan(
    {
        "LivingRoom": (3, 0, 9, 5),
        "Kitchen": (0, 0, 3, 2.4),
        "MasterRoom": (0, 2.4, 3, 7.5),
        "ChildRoom": (3, 6.2, 6, 9),
        "StudyRoom": (6, 6.2, 9, 9),
        "GuestRoom": (9, 0, 12, 4),
        "SecondRoom": (9, 4, 12, 7),
        "Bathroom": (9, 7, 12, 9),
        "Entrance": (3, 5, 9, 6.2),
    }
)


@pytest.mark.slow
def test_a_plan_of_eight_rooms_and_a_hall_is_changed(tmp_path, monkeypatch, capsys):
    """As many rooms as a diagram may have, and the hall besides; nine rooms are refused."""
    monkeypatch.chdir(tmp_path)
    drawn = NINE.to_diagram()
    write_diagrams("plans.jsonl", [replace(drawn, metadata={**drawn.metadata, "added": [8]})])
    main(["plans", "realise", "plans.jsonl", "near=plans.jsonl", "rules=none", "out=built"])
    (after,) = map(json.loads, Path("built/plans.jsonl").read_text().splitlines())
    assert after["added"] == [8]
    assert len(after["boxes"]) == 9
    write_diagrams("nine.jsonl", [drawn])
    with pytest.raises(SystemExit):
        main(["plans", "realise", "nine.jsonl", "rules=none", "out=other"])
    assert "9 rooms, more than max_nodes=8" in capsys.readouterr().err


def test_the_area_of_a_new_room_is_typical_unless_it_is_requested():
    old = THREE.diagram
    more = BubbleDiagram((*old.rooms, 3), old.relations)
    assert Change(THREE).job(diagram=more).spec.typical == {old.num_rooms}
    assert not Change(THREE, areas={old.num_rooms: 4.0}).job(diagram=more).spec.typical
