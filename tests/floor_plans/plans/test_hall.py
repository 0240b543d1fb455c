"""Halls that are added where access needs one, and what is said where it is not kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from discrete_diffusion.cli.main import main
from discrete_diffusion.layout import RELATIONS, ROOM_TYPES
from floor_plans import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.outline import Outline
from floor_plans.rules.finding import remove_halls
from floor_plans.rules.rule_set import NO_RULES, RuleSet, judge, read_rules
from floor_plans.solver import realising
from floor_plans.solver.plan_model import PlanModel
from floor_plans.solver.realised import Job, Realised, Shortfall
from floor_plans.solver.realising import PlanSearch, explain_conflicts, realise
from floor_plans.solver.requests import PlanRequest
from floor_plans.solver.spec import PlanSpec, Priority

pytest.importorskip("ortools", reason="OR-Tools finds plans")
pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")

DEFAULT = read_rules("default")
LIVING, MASTER, BATH = map(ROOM_TYPES.index, ("LivingRoom", "MasterRoom", "Bathroom"))
LEFT = RELATIONS.index("left-of")
BEHIND_A_BATH = BubbleDiagram((LIVING, BATH, MASTER), ((0, 1, LEFT), (1, 2, LEFT)))
"""The bedroom is beside the bathroom alone."""
AREAS = (20.0, 4.0, 12.0)
PLOT = Outline(boundary=((0.0, 0.0), (12.0, 0.0), (12.0, 8.0), (0.0, 8.0)))
KITCHEN, SECOND, ENTRANCE = map(ROOM_TYPES.index, ("Kitchen", "SecondRoom", "Entrance"))
ABOVE, LEFT_ABOVE = map(RELATIONS.index, ("above", "left-above"))
FLAT = BubbleDiagram(
    (LIVING, KITCHEN, BATH, SECOND, SECOND),
    (
        *((0, 1, ABOVE), (0, 2, LEFT), (0, 3, RELATIONS.index("right-of"))),
        *((0, 4, LEFT_ABOVE), (1, 4, LEFT)),
    ),
)


@pytest.fixture(scope="module")
def found() -> Realised:
    return realise(Job(BEHIND_A_BATH, PlanSpec(AREAS, rules=DEFAULT), hall=True))


@pytest.fixture
def flat(tmp_path, monkeypatch) -> str:
    monkeypatch.chdir(tmp_path)
    line = BEHIND_A_BATH.to_json() | {"areas": list(AREAS)}
    Path("flat.jsonl").write_text(json.dumps(line) + "\n")
    return "flat.jsonl"


@pytest.mark.slow
def test_access_that_no_plan_keeps_without_a_hall_is_kept_with_one(found):
    assert found.given_up == ()
    (plan,) = found.plans
    assert plan.diagram.metadata["added"] == [3]
    assert judge(plan, DEFAULT).keeps_all


def test_the_hall_is_wide_enough_small_and_leads_to_what_it_is_for(found):
    (plan,) = found.plans
    x0, y0, x1, y1 = plan.diagram.boxes[3]
    assert min(x1 - x0, y1 - y0) >= 0.9 - 1e-6
    assert plan.areas[3] >= 2.0 - 0.01
    assert plan.areas[3] <= 0.12 * sum(plan.areas) + 1e-6
    beside = {room for door in plan.doors if 3 in door.rooms for room in door.rooms}
    assert {0, 2} <= beside
    for room in (0, 2):
        assert plan.rooms[room].boundary.intersection(plan.rooms[3].boundary).length >= 0.9 - 1e-6


def test_the_relations_of_the_diagrams_own_rooms_are_exact(found):
    (plan,) = found.plans
    assert plan.diagram.rooms[:3] == BEHIND_A_BATH.rooms
    assert {*BEHIND_A_BATH.relations} <= {*plan.diagram.relations}
    assert plan.honours_diagram
    assert plan.overlap == 0
    assert plan.largest_area_error(AREAS) <= 0.1 + 1e-6


@pytest.mark.slow
def test_a_diagram_that_needs_no_hall_has_none():
    diagram = BubbleDiagram((LIVING, BATH), ((0, 1, LEFT),))
    given = realise(Job(diagram, PlanSpec((20.0, 4.0), rules=DEFAULT), hall=True))
    assert given.given_up == ()
    assert given.plans[0].diagram.rooms == diagram.rooms


@pytest.mark.slow
def test_five_rooms_are_entered_by_a_hall_with_doors_to_two_rooms():
    given = realise(PlanRequest(rules=DEFAULT, outline=PLOT).job(1, FLAT))
    (plan,) = given.plans
    assert not given.broken
    assert plan.diagram.metadata["added"] == [5]
    (front,) = [door for door in plan.doors if door.is_front]
    assert 5 in front.rooms
    assert sum(5 in door.rooms for door in plan.doors) >= 3
    assert plan.areas[5] >= 3.0 - 0.01


WITH_ENTRANCE = replace(FLAT, rooms=(*FLAT.rooms[:4], ENTRANCE))
FOUR_ROOMS = BubbleDiagram(FLAT.rooms[:4], FLAT.relations[:3])
ENTERED = {**DEFAULT.rules["entry"], "rooms": ["Entrance"]}
ONLY_ENTRANCES = RuleSet("entrances", {**DEFAULT.rules, "entry": ENTERED})


@pytest.mark.parametrize(
    ("diagram", "area", "words", "wanted"),
    [
        (FLAT, None, {"outline": PLOT}, True),
        (FLAT, 20.0, {}, True),
        (FLAT, None, {"total_area": 90.0}, True),
        (FLAT, 20.0, {"outline": PLOT}, False),
        (FLAT, None, {"outline": PLOT, "total_area": 90.0}, False),
        (WITH_ENTRANCE, None, {}, False),
        (FOUR_ROOMS, None, {}, False),
        (FLAT, None, {"hall": "never"}, False),
        (FLAT, None, {"rules": ONLY_ENTRANCES}, False),
    ],
)
def test_a_hall_behind_the_front_door_takes_no_requested_area(diagram, area, words, wanted):
    areas = [area, *[None] * (diagram.num_rooms - 1)]
    request = PlanRequest(**{"rules": DEFAULT, **words})
    job = request.job(1, replace(diagram, metadata={"areas": areas}))
    assert job.wants_hall is wanted


@pytest.mark.parametrize(
    ("broken", "has_hall"), [((), True), (("hall",), False), (("hall", "plain"), False)]
)
def test_a_hall_behind_the_front_door_stays_only_if_it_helps(monkeypatch, broken, has_hall):
    models = [
        SimpleNamespace(name="hall", entered=True, rooms=SimpleNamespace(hall=5)),
        SimpleNamespace(name="plain", entered=False, rooms=SimpleNamespace(hall=None)),
    ]
    boxes = ((0.0, 0.0, 5.0, 5.0), (5.0, 0.0, 8.0, 5.0))
    rooms, pairs = (LIVING, MASTER), ((0, 1, LEFT),)
    plans = {
        name: FloorPlan(BubbleDiagram(rooms, pairs, boxes, {"name": name}))
        for name in ("hall", "plain")
    }
    slits = (Shortfall("a slit", rule="slits"),)
    monkeypatch.setattr(PlanSearch, "models", lambda self, **_: iter(models))
    monkeypatch.setattr(
        realising, "_find_variants", lambda job, spec, model, stop: (True, (plans[model.name],))
    )
    monkeypatch.setattr(
        realising,
        "shortfalls_of",
        lambda plan, spec: slits if plan.diagram.metadata["name"] in broken else (),
    )
    spec = PlanSpec((20.0,) * 5, rules=DEFAULT)
    (plan,) = realise(Job(FLAT, spec, hall=True, proofs=False)).plans
    assert plan.diagram.metadata["name"] == ("hall" if has_hall else "plain")


@pytest.mark.slow
def test_a_conflict_that_a_hall_behind_the_front_door_resolves_excludes_nothing():
    request = PlanRequest(rules=DEFAULT, outline=PLOT, front_door=(2.0, 8.0))
    job = request.job(1, FLAT)
    assert job.wants_hall
    assert not explain_conflicts(job).excludes
    assert explain_conflicts(replace(job, hall=False)).excludes


def test_a_hall_that_is_entered_first_for_want_of_a_living_room_may_be_small():
    plot = Outline(boundary=((0.0, 0.0), (6.4, 0.0), (6.4, 3.6), (0.0, 3.6)))
    rooms, spec = (KITCHEN, BATH, MASTER), PlanSpec((7.0, 4.0, 10.0), rules=DEFAULT, outline=plot)
    model = PlanModel(rooms, ((0, 1, LEFT), (1, 2, LEFT)), spec, hall=True)
    assert model.search.meets(0.6, 0, frozenset(Priority)) is True


@pytest.mark.parametrize(
    ("request_", "hall"),
    [
        (PlanRequest(rules=DEFAULT), True),
        (PlanRequest(rules=DEFAULT, hall="never"), False),
        (PlanRequest(rules=NO_RULES), False),
        (PlanRequest(), False),
    ],
)
def test_a_hall_is_for_rules_of_access_alone(request_, hall):
    assert request_.job(1, BEHIND_A_BATH).hall is hall


def test_an_earlier_hall_is_taken_out_before_a_plan_is_found_again(found):
    again = PlanRequest(rules=DEFAULT).job(1, found.plans[0].to_diagram())
    assert again.diagram == BEHIND_A_BATH
    assert again.diagram.metadata == {}
    assert again.spec.areas == pytest.approx(found.plans[0].areas[:3], abs=0.01)
    with pytest.raises(DiagramError, match="added"):
        remove_halls(BubbleDiagram((LIVING,), (), metadata={"added": [4]}))


def test_without_effort_nothing_is_proved():
    model = PlanModel(
        BEHIND_A_BATH.rooms, BEHIND_A_BATH.relations, PlanSpec(AREAS, rules=DEFAULT), hall=True
    )
    assert model.search.can_keep(("access",), 0.0, 0) is None
    assert model.search.can_keep(("access",), 0.6, 0) is True


@pytest.mark.slow
def test_strict_ends_with_status_1_and_names_plan_and_rule(flat, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["plans", "realise", flat, "out=never", "hall=never", "strict=true", "threads=1"])
    assert stopped.value.code == 1
    error = capsys.readouterr().err
    assert "strict=true: plan 1: access (proved impossible)" in error
    (line,) = map(json.loads, Path("never/plans.jsonl").read_text().splitlines())
    assert [(each["rule"], each["rooms"], each["proved"]) for each in line["given_up"]] == [
        ("access", [2], True)
    ]
    numbers = json.loads(Path("never/plans.json").read_text())
    why = numbers["broken"][0].pop("why")
    assert numbers["broken"] == [{"plan": "1", "rules": {"access": "proved impossible"}}]
    assert why[0] == "ruled out: master room is reached through common rooms"
    assert numbers["num_with_hall"] == 0


@pytest.mark.slow
def test_files_and_the_check_show_the_hall(flat, capsys):
    words = ["out=auto", "strict=true", "threads=1", "formats=[dxf,geojson]"]
    main(["plans", "realise", flat, *words])
    assert "1 plan has an added hall" in capsys.readouterr().out
    (line,) = map(json.loads, Path("auto/plans.jsonl").read_text().splitlines())
    assert line["added"] == [3]
    assert len(line["target_areas"]) == 3
    assert "Hall" in Path("auto/plans.svg").read_text()
    assert "Hall" in Path("auto/dxf/1.dxf").read_text()
    rooms = json.loads(Path("auto/geojson/1.geojson").read_text())["features"]
    assert sum(each["properties"].get("added") is True for each in rooms) == 1
    main(["plans", "check", "auto/plans.jsonl", "rules=default"])
